from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.dedup.signature import MinHashShape
from tamiz.dedup.similarity import list_shingles, measure_jaccard

documents = st.lists(st.lists(st.integers(0, 4), max_size=25), min_size=1, max_size=5)


def make_words(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in documents])]).astype(np.int64)
    return offsets, np.array([w for d in documents for w in d], dtype=np.uint64)


@given(documents, documents, st.integers(1, 3))
def test_it_is_the_jaccard_similarity_of_the_sets(lefts: list[list[int]], rights: list[list[int]], ngram: int) -> None:
    def shingle(words: list[int]) -> set[tuple[int, ...]]:
        return {tuple(words[k : k + ngram]) for k in range(len(words) - ngram + 1)}

    pairs = [(i, j) for i in range(len(lefts)) for j in range(len(rights))]
    left, right = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    sets = [list_shingles(*make_words(side), ngram) for side in (lefts, rights)]
    seen = measure_jaccard(sets[0], sets[1], left, right)
    for (i, j), value in zip(pairs, seen.tolist(), strict=True):
        a, b = shingle(lefts[i]), shingle(rights[j])
        assert value == pytest.approx(len(a & b) / len(a | b) if a | b else 1.0)


def test_the_estimate_is_the_inverse_of_the_expected_number_of_bands() -> None:
    shape = MinHashShape(5, 14, 8)
    assert shape.estimate_similarity(np.array([14.0])).tolist() == [1.0]
    assert 14 * shape.estimate_similarity(np.array([3.0]))[0] ** 8 == pytest.approx(3.0)
    assert shape.threshold == pytest.approx(0.719, abs=1e-3)
