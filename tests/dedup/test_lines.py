from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tamiz.dedup.lines import WORDS_MIN, count_lines, drop_lines, split_lines
from tamiz.schema import make_text, view_text

texts = st.lists(st.text(st.sampled_from("ab\n é"), max_size=20), max_size=6)


def split_by_hand(text: str) -> list[str]:
    return text.splitlines(keepends=True) if "\r" not in text else []


@given(texts)
def test_lines_keep_their_line_feed_and_tile_the_text(texts: list[str]) -> None:
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    lines = split_lines(offsets, data)
    for d, text in enumerate(texts):
        own = range(lines.documents[d], lines.documents[d + 1])
        seen = [data[lines.offsets[k] : lines.offsets[k + 1]].tobytes().decode() for k in own]
        assert seen == split_by_hand(text)


@given(texts, st.randoms(use_true_random=False))
def test_dropped_lines_are_gone_and_no_others(texts: list[str], rng: object) -> None:
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    lines = split_lines(offsets, data)
    dropped = np.array([rng.random() < 0.5 for _ in range(len(lines.offsets) - 1)], dtype=np.bool_)  # type: ignore[attr-defined]
    seen = make_text(*drop_lines(lines, data, dropped)).to_pylist()
    for d, text in enumerate(texts):
        own = dropped[lines.documents[d] : lines.documents[d + 1]].tolist()
        left = "".join(line for line, gone in zip(split_by_hand(text), own, strict=True) if not gone)
        if own and own[-1] and not text.endswith("\n"):
            left = left.removesuffix("\n")
        assert seen[d] == left


def test_a_line_counts_once_per_document_and_scope() -> None:
    offsets, data = view_text(pa.array(["x\ny\nx", "x\ny", "x"], pa.large_string()))
    lines = split_lines(offsets, data)
    hashes = np.array([1, 2, 1, 1, 2, 1], dtype=np.uint64)
    n_words = np.array([3, 2, 3, 3, 3, 3], dtype=np.int64)
    scope, seen, counts = count_lines(lines, hashes, n_words, np.array([0, 0, 1], dtype=np.int64))
    assert list(zip(scope.tolist(), seen.tolist(), counts.tolist(), strict=True)) == [(0, 1, 2), (0, 2, 1), (1, 1, 1)]
    assert WORDS_MIN == 3
