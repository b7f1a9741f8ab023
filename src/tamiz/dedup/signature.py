"""MinHash signatures as band keys, from the words of the normalised text.

A document's shingles are its word n-grams. Each of `bands * rows` hash functions keeps its minimum over the shingles
(Broder 1997); `rows` consecutive minima make one band key, and two documents with an equal key in any band are near
copies: with Jaccard similarity s that happens with probability 1 - (1 - s^rows)^bands.

The hash functions are those of datatrove 0.10.1 (`dedup/minhash.py`): h(x) = ((a*x + b) mod 2^64) mod (2^61 - 1), with
a and b from RandomState(1). They are fixed, not drawn from the run's seed, so that two runs' band files can be
compared. The hash x of a shingle is ours (64-bit, mixed from the word hashes); FineWeb takes 64 bits of SHA-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from tamiz.schema import F64, I64, U64

MERSENNE_61 = np.uint64((1 << 61) - 1)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)  # the finaliser of splitmix64 (Steele et al. 2014)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class MinHashShape:
    """Words per shingle, bands, and rows (minima) per band."""

    ngram: int
    bands: int
    rows: int

    def match_probability(self, similarity: float) -> float:
        """The chance that two documents of this Jaccard similarity share a band."""
        return float(1.0 - (1.0 - similarity**self.rows) ** self.bands)

    @property
    def threshold(self) -> float:
        """The similarity at which the curve is steepest, about (1/bands)^(1/rows) (Leskovec et al., Mining of Massive
        Datasets, 3.4.2): 0.72 for 14 bands of 8."""
        return float((1.0 / self.bands) ** (1.0 / self.rows))

    def estimate_similarity(self, n_bands: F64) -> F64:
        """The Jaccard similarity at which a pair shares, on average, this many bands: (n_bands / bands)^(1/rows)."""
        return np.asarray((n_bands / self.bands) ** (1.0 / self.rows), dtype=np.float64)


@cache
def choose_shape(ngram: int, hashes: int, similarity: float) -> MinHashShape:
    """The bands and rows that datasketch chooses for a threshold: least false positives plus false negatives."""
    from datasketch import MinHashLSH  # imports scipy: 1 s, only wanted here

    index = MinHashLSH(threshold=similarity, num_perm=hashes)
    return MinHashShape(ngram, int(index.b), int(index.r))


@cache
def make_permutations(count: int) -> tuple[U64, U64]:
    """(a, b), uint64[count] each: the reference's hash functions."""
    generator = np.random.RandomState(1)
    a = generator.randint(1, int(MERSENNE_61), dtype=np.uint64, size=count)
    b = generator.randint(0, int(MERSENNE_61), dtype=np.uint64, size=count)
    return a, b


@njit(cache=True, nogil=True)
def mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def hash_shingle(hashes: U64, first: int, ngram: int) -> np.uint64:
    x = np.uint64(ngram)
    for k in range(first, first + ngram):
        x = mix((x + _STEP) ^ hashes[k])
    return x


@njit(cache=True, nogil=True)
def update_minima(x: np.uint64, a: U64, b: U64, minima: U64) -> None:
    """Lower each of the minima, uint64[bands * rows], to the hash of shingle `x` where that is smaller."""
    for k in range(len(minima)):
        h = x * a[k] + b[k]
        h = (h & MERSENNE_61) + (h >> np.uint64(61))
        h = h - MERSENNE_61 if h >= MERSENNE_61 else h
        minima[k] = min(minima[k], h)


@njit(cache=True, nogil=True)
def _key_bands(minima: U64, rows: int, keys: U64) -> None:
    for band in range(len(keys)):
        key = np.uint64(band)
        for row in range(rows):
            key = mix((key + _STEP) ^ minima[band * rows + row])
        keys[band] = key


@njit(cache=True, nogil=True)
def _sign_all(doc_offsets: I64, hashes: U64, ngram: int, rows: int, a: U64, b: U64, keys: U64) -> None:
    minima = np.empty(len(a), dtype=np.uint64)
    for d in range(len(doc_offsets) - 1):
        first, last = doc_offsets[d], doc_offsets[d + 1] - ngram
        if last < first:
            continue
        minima[:] = MERSENNE_61
        for k in range(first, last + 1):
            update_minima(hash_shingle(hashes, k, ngram), a, b, minima)
        _key_bands(minima, rows, keys[d])


@njit(cache=True, nogil=True)
def _hash_all(doc_offsets: I64, hashes: U64, out: U64) -> None:
    for d in range(len(doc_offsets) - 1):
        x = np.uint64(doc_offsets[d + 1] - doc_offsets[d])
        for k in range(doc_offsets[d], doc_offsets[d + 1]):
            x = mix((x + _STEP) ^ hashes[k])
        out[d] = x


def make_band_keys(doc_offsets: I64, hashes: U64, shape: MinHashShape) -> tuple[U64, I64]:
    """Band keys uint64[n_documents, bands] and shingle counts int64[n_documents].

    `hashes`: uint64 hash of every normalised word, document d's at [doc_offsets[d], doc_offsets[d + 1]). A document
    with fewer words than one shingle has count 0 and its keys mean nothing (the reference writes no signature either).
    """
    a, b = make_permutations(shape.bands * shape.rows)
    keys = np.zeros((len(doc_offsets) - 1, shape.bands), dtype=np.uint64)
    _sign_all(doc_offsets, hashes, shape.ngram, shape.rows, a, b, keys)
    return keys, np.maximum(np.diff(doc_offsets) - shape.ngram + 1, 0)


def hash_documents(doc_offsets: I64, hashes: U64) -> U64:
    """uint64[n_documents]: one hash of each document's normalised words in their order (the exact hash)."""
    out = np.zeros(len(doc_offsets) - 1, dtype=np.uint64)
    _hash_all(doc_offsets, hashes, out)
    return out
