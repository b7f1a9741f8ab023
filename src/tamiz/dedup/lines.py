"""Lines that many documents share (cookie banners, navigation): which they are, and texts without them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from tamiz.schema import I64, U8, U64

BOOL = npt.NDArray[np.bool_]
WORDS_MIN = 3  # of a line that can be removed: shorter ones are headings, list marks, names
_LINE_FEED = 10


class SplitLines(NamedTuple):
    """The lines of documents, each with its line feed: line k is data[offsets[k] : offsets[k + 1]], int64[m + 1];
    document d has the lines documents[d] .. documents[d + 1], int64[n + 1]."""

    offsets: I64
    documents: I64


def split_lines(offsets: I64, data: U8) -> SplitLines:
    """The lines of the documents data[offsets[d] : offsets[d + 1]]; an empty document has none."""
    first, last = int(offsets[0]), int(offsets[-1])
    feeds = np.flatnonzero(data[first:last] == _LINE_FEED) + first + 1
    cuts = np.union1d(feeds, offsets).astype(np.int64)
    return SplitLines(cuts, np.searchsorted(cuts, offsets).astype(np.int64))


def count_lines(lines: SplitLines, hashes: U64, n_words: I64, scope: I64) -> tuple[I64, U64, I64]:
    """(scope, hash, documents) of every line of at least WORDS_MIN words: in how many documents of a scope it is.

    `hashes` uint64[m] and `n_words` int64[m] of the lines' normalised words, `scope` int64[n] of the documents. Sorted
    by scope and hash.
    """
    document = np.repeat(np.arange(len(lines.documents) - 1), np.diff(lines.documents))
    chosen = n_words >= WORDS_MIN
    document, hashes = document[chosen], hashes[chosen]
    order = np.lexsort((document, hashes))
    document, hashes = document[order], hashes[order]
    once = np.ones(len(order), dtype=np.bool_)
    once[1:] = (hashes[1:] != hashes[:-1]) | (document[1:] != document[:-1])
    return sum_counts(scope[document[once]], hashes[once], np.ones(int(once.sum()), dtype=np.int64))


def sum_counts(scope: I64, hashes: U64, counts: I64) -> tuple[I64, U64, I64]:
    """The same with equal (scope, hash) added up, sorted by scope and hash."""
    order = np.lexsort((hashes, scope))
    scope, hashes, counts = scope[order], hashes[order], counts[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (scope[1:] != scope[:-1]) | (hashes[1:] != hashes[:-1])
    starts = np.flatnonzero(begins)
    total = np.add.reduceat(counts, starts) if len(starts) else counts
    return scope[starts], hashes[starts], total


def drop_lines(lines: SplitLines, data: U8, dropped: BOOL) -> tuple[I64, U8]:
    """The documents without the `dropped` lines (bool[m]): offsets int64[n + 1] from 0, bytes.

    A document that loses its last line also loses the line feed before it, if it did not end in one.
    """
    out = np.empty(int(lines.offsets[-1] - lines.offsets[0]), dtype=np.uint8)
    offsets = np.zeros(len(lines.documents), dtype=np.int64)
    _copy_lines(lines.offsets, lines.documents, data, dropped, offsets, out)
    return offsets, out[: offsets[-1]]


@njit(cache=True, nogil=True)
def _copy_lines(lines: I64, documents: I64, data: U8, dropped: BOOL, offsets: I64, out: U8) -> None:
    at = 0
    for d in range(len(documents) - 1):
        start = at
        for k in range(documents[d], documents[d + 1]):
            if not dropped[k]:
                for i in range(lines[k], lines[k + 1]):
                    out[at] = data[i]
                    at += 1
        last = documents[d + 1] - 1
        if last >= documents[d] and dropped[last] and at > start and data[lines[last + 1] - 1] != _LINE_FEED:
            at -= 1
        offsets[d + 1] = at
