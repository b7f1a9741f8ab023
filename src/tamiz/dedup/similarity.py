"""The true Jaccard similarity of two documents' shingle sets, to hold what MinHash guessed against it."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamiz.dedup.signature import hash_shingle
from tamiz.schema import F64, I64, U64


@njit(cache=True, nogil=True)
def _fill_shingles(doc_offsets: I64, hashes: U64, ngram: int, offsets: I64, out: U64) -> None:
    at = 0
    for d in range(len(doc_offsets) - 1):
        first = at
        for k in range(doc_offsets[d], doc_offsets[d + 1] - ngram + 1):
            out[at] = hash_shingle(hashes, k, ngram)
            at += 1
        out[first:at].sort()
        unique = first
        for k in range(first, at):
            if k == first or out[k] != out[unique - 1]:
                out[unique] = out[k]
                unique += 1
        at = unique
        offsets[d + 1] = at


def list_shingles(doc_offsets: I64, hashes: U64, ngram: int) -> tuple[I64, U64]:
    """Every document's set of shingles: uint64, sorted, document d's at [offsets[d], offsets[d + 1]).

    `hashes`: uint64 hash of every normalised word, document d's at [doc_offsets[d], doc_offsets[d + 1]).
    """
    offsets = np.zeros(len(doc_offsets), dtype=np.int64)
    out = np.empty(int(doc_offsets[-1]), dtype=np.uint64)
    _fill_shingles(doc_offsets, hashes, ngram, offsets, out)
    return offsets, out[: offsets[-1]]


@njit(cache=True, nogil=True)
def _compare_all(
    left_offsets: I64, left_sets: U64, right_offsets: I64, right_sets: U64, left: I64, right: I64, out: F64
) -> None:
    for p in range(len(left)):
        i, i_end = left_offsets[left[p]], left_offsets[left[p] + 1]
        j, j_end = right_offsets[right[p]], right_offsets[right[p] + 1]
        total = (i_end - i) + (j_end - j)
        common = 0
        while i < i_end and j < j_end:
            a, b = left_sets[i], right_sets[j]
            common += a == b
            i += a <= b
            j += b <= a
        out[p] = common / (total - common) if total else 1.0


def measure_jaccard(lefts: tuple[I64, U64], rights: tuple[I64, U64], left: I64, right: I64) -> F64:
    """float64[n]: the Jaccard similarity of sets left[p] of `lefts` and right[p] of `rights` (of list_shingles)."""
    out = np.empty(len(left), dtype=np.float64)
    _compare_all(*lefts, *rights, left, right, out)
    return out
