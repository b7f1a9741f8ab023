from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz.dedup.signature import (
    MERSENNE_61,
    MinHashShape,
    choose_shape,
    hash_documents,
    make_band_keys,
    make_permutations,
    update_minima,
)

FINEWEB = MinHashShape(5, 14, 8)

# "The quick brown fox's 3,000.50 jumps over the lazy dog." through datatrove 0.10.1: its words after normalisation, and
# the minima of the first band with xxhash and with SHA-1 shingle hashes.
QUICK_FOX = ["the", "quick", "brown", "fox", "s", "0", "0", "jumps", "over", "the", "lazy", "dog"]
FIRST_BAND_SHA1 = [
    277807499612692244, 22442981200285097, 104713281907101510, 189259953416820944,
    470288217986249385, 205752772218678564, 313736311807132086, 357494863714238486,
]  # fmt: skip


def hash_sha1(shingle: str) -> int:
    import hashlib

    return int.from_bytes(hashlib.sha1(shingle.encode()).digest()[:8], "little")


def test_permutations_are_the_references() -> None:
    a, b = make_permutations(112)
    assert (int(a[0]), int(b[0])) == (775169054918279404, 1062448801025099917)


def test_minima_of_the_references_shingle_hashes_are_the_references() -> None:
    a, b = make_permutations(112)
    minima = np.full(112, MERSENNE_61, dtype=np.uint64)
    for k in range(len(QUICK_FOX) - 4):
        update_minima(np.uint64(hash_sha1(" ".join(QUICK_FOX[k : k + 5]))), a, b, minima)
    assert minima[:8].tolist() == FIRST_BAND_SHA1


def make_documents(words: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(w) for w in words])]).astype(np.int64)
    scrambled = [(w * 0x9E3779B97F4A7C15 + 12345) % 2**64 for document in words for w in document]
    return offsets, np.array(scrambled, dtype=np.uint64)


words = st.lists(st.integers(0, 50), max_size=30)


@settings(max_examples=50)
@given(st.lists(words, min_size=1, max_size=6), st.integers(0, 5))
def test_keys_depend_on_the_document_alone(documents: list[list[int]], cut: int) -> None:
    keys, n_shingles = make_band_keys(*make_documents(documents), FINEWEB)
    first, _ = make_band_keys(*make_documents(documents[:cut]), FINEWEB)
    rest, _ = make_band_keys(*make_documents(documents[cut:]), FINEWEB)
    assert np.array_equal(np.concatenate([first, rest]), keys)
    assert n_shingles.tolist() == [max(len(w) - 4, 0) for w in documents]


def test_the_order_and_number_of_equal_shingles_do_not_matter() -> None:
    once = list(range(20))
    (one, two), _ = make_band_keys(*make_documents([once, once + once]), MinHashShape(1, 14, 8))
    assert np.array_equal(one, two)


def test_exact_hash_tells_order_and_length_apart() -> None:
    hashes = hash_documents(*make_documents([[1, 2, 3], [1, 3, 2], [1, 2], [1, 2, 3], []]))
    assert hashes[0] == hashes[3]
    assert len(set(hashes.tolist())) == 4


@pytest.mark.parametrize("similarity", [0.9, 0.8, 0.7, 0.5])
def test_pairs_collide_as_often_as_the_curve_says(similarity: float) -> None:
    """Pairs of shingle sets of exactly this Jaccard similarity: the share that collides is within 4 standard errors."""
    rng = np.random.default_rng(1)
    n_pairs, size = 3000, 180
    common = round(2 * size * similarity / (1 + similarity))
    true = common / (2 * size - common)
    shape = MinHashShape(1, 14, 8)
    hashes = rng.integers(0, 2**64, (n_pairs, 2 * size - common), dtype=np.uint64)
    left, right = hashes[:, :size], hashes[:, size - common :]
    offsets = np.arange(n_pairs + 1, dtype=np.int64) * size
    a, _ = make_band_keys(offsets, np.ascontiguousarray(left).ravel(), shape)
    b, _ = make_band_keys(offsets, np.ascontiguousarray(right).ravel(), shape)
    expected = shape.match_probability(true)
    share = float((a == b).any(axis=1).mean())
    assert abs(share - expected) <= 4 * (max(expected * (1 - expected), 1e-4) / n_pairs) ** 0.5


def test_the_curve_is_the_published_one() -> None:
    for similarity, probability in {0.7: 0.565, 0.75: 0.772, 0.8: 0.924, 0.85: 0.988}.items():
        assert FINEWEB.match_probability(similarity) == pytest.approx(probability, abs=5e-4)


def test_datasketch_chooses_bands_and_rows() -> None:
    from datasketch import MinHashLSH

    shape = choose_shape(5, 112, 0.8)
    index = MinHashLSH(threshold=0.8, num_perm=112)
    assert (shape.bands, shape.rows) == (index.b, index.r)
    assert shape.bands * shape.rows <= 112
