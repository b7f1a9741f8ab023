"""Fill sequences: which piece of which document goes to which row. No token is ever dropped.

`fill_best_fit` cuts only documents longer than a sequence, into full pieces and a remainder, and places the pieces
best-fit-decreasing ("Fewer Truncations Improve Language Modeling", Ding et al. 2024, arXiv 2404.10830). `fill_concat`
lays the documents end to end and cuts every `sequence_length` tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tamiz.schema import I32, I64, U8


class Pieces(NamedTuple):
    """One entry per piece, row by row, within a row by document. Rows are numbered from 0 without holes.

    `document` is the index in the lengths given, `piece` counts from 0 within its document, `start` and `length` are
    its tokens' place in the document. A document of 0 tokens has no piece.
    """

    row: I64
    document: I64
    piece: I32
    start: I64
    length: I32


def fill_best_fit(lengths: I64, sequence_length: int) -> Pieces:
    """Best-fit-decreasing of documents of `lengths` int64[n] tokens into rows of at most `sequence_length` tokens.

    Pieces are taken longest first, equal ones in document order. Each goes to the row with the least free space among
    those that hold it, of equal rows to the one that got to this free space last; if none holds it, it opens a row.
    Rows are then numbered by the first piece in them (by document, then piece), so that a shard is read about in the
    order of its documents whatever their lengths. O(n log L) time, O(n + L) memory.
    """
    document, piece, start, length = _cut_documents(lengths, np.int64(sequence_length))
    order = _sort_decreasing(length, np.int64(sequence_length))
    row = _place_pieces(length, order, np.int64(sequence_length))
    row, order = _number_rows(row)
    return Pieces(row[order], document[order], piece[order], start[order], length[order])


def fill_concat(lengths: I64, sequence_length: int) -> Pieces:
    """Documents of `lengths` int64[n] tokens end to end, cut every `sequence_length`; only the last row is short."""
    return Pieces(*_lay_end_to_end(lengths, np.int64(sequence_length)))


@njit(cache=True, nogil=True)
def _cut_documents(lengths: I64, limit: np.int64) -> tuple[I64, I32, I64, I32]:
    """document, piece, start, length of every piece, in document order: full pieces, then the remainder."""
    n = np.int64(0)
    for i in range(lengths.shape[0]):
        n += (lengths[i] + limit - 1) // limit
    document = np.empty(n, dtype=np.int64)
    piece = np.empty(n, dtype=np.int32)
    start = np.empty(n, dtype=np.int64)
    length = np.empty(n, dtype=np.int32)
    k = 0
    for i in range(lengths.shape[0]):
        at = np.int64(0)
        while at < lengths[i]:
            document[k] = i
            piece[k] = np.int32(at // limit)
            start[k] = at
            length[k] = np.int32(min(limit, lengths[i] - at))
            at += limit
            k += 1
    return document, piece, start, length


@njit(cache=True, nogil=True)
def _sort_decreasing(length: I32, limit: np.int64) -> I64:
    """Indices of the pieces, longest first, equal ones in their order: a counting sort over the `limit` lengths."""
    at = np.zeros(limit + 2, dtype=np.int64)
    for k in range(length.shape[0]):
        at[limit - length[k] + 1] += 1
    for i in range(1, limit + 2):
        at[i] += at[i - 1]
    order = np.empty(length.shape[0], dtype=np.int64)
    for k in range(length.shape[0]):
        slot = limit - length[k]
        order[at[slot]] = k
        at[slot] += 1
    return order


@njit(cache=True, nogil=True)
def _place_pieces(length: I32, order: I64, limit: np.int64) -> I64:
    """The row of each piece. Open rows hang in one stack per free space; a tree of flags over the free spaces finds
    the smallest that has a row: leaf `width + f` is set when a row has exactly f tokens free, a node when a child is.
    """
    width = np.int64(1)
    while width <= limit:
        width *= 2
    has_row = np.zeros(2 * width, dtype=np.uint8)
    top = np.full(limit + 1, -1, dtype=np.int64)  # last row with this much free space
    below = np.empty(length.shape[0], dtype=np.int64)  # the row under it in the stack
    row = np.empty(length.shape[0], dtype=np.int64)
    n_rows = np.int64(0)
    for i in range(order.shape[0]):
        size = np.int64(length[order[i]])
        free = _find_free(has_row, width, size)
        if free < 0:
            chosen = n_rows
            n_rows += 1
            free = limit
        else:
            chosen = top[free]
            top[free] = below[chosen]
            if top[free] < 0:
                _clear_flag(has_row, width + free)
        row[order[i]] = chosen
        rest = free - size
        if rest > 0:
            below[chosen] = top[rest]
            top[rest] = chosen
            _set_flag(has_row, width + rest)
    return row


@njit(cache=True, nogil=True)
def _find_free(has_row: U8, width: np.int64, size: np.int64) -> np.int64:
    """The smallest free space >= size that some row has; -1 if none."""
    node = width + size
    while not has_row[node]:
        while node & 1:  # a right child: everything under its parent from here on has been seen
            node >>= 1
        if node == 0:
            return np.int64(-1)
        node += 1
    while node < width:
        node *= 2
        if not has_row[node]:
            node += 1
    return node - width


@njit(cache=True, nogil=True)
def _set_flag(has_row: U8, node: np.int64) -> None:
    while node > 0 and not has_row[node]:
        has_row[node] = 1
        node >>= 1


@njit(cache=True, nogil=True)
def _clear_flag(has_row: U8, node: np.int64) -> None:
    has_row[node] = 0
    node >>= 1
    while node > 0 and not has_row[2 * node] and not has_row[2 * node + 1]:
        has_row[node] = 0
        node >>= 1


@njit(cache=True, nogil=True)
def _number_rows(row: I64) -> tuple[I64, I64]:
    """Rows renumbered by their first piece, and the order of the pieces by row, then as they came."""
    n = row.shape[0]
    renamed = np.full(n, -1, dtype=np.int64)
    at = np.zeros(n + 1, dtype=np.int64)
    numbered = np.empty(n, dtype=np.int64)
    n_rows = np.int64(0)
    for k in range(n):
        if renamed[row[k]] < 0:
            renamed[row[k]] = n_rows
            n_rows += 1
        numbered[k] = renamed[row[k]]
        at[numbered[k] + 1] += 1
    for i in range(1, n_rows + 1):
        at[i] += at[i - 1]
    order = np.empty(n, dtype=np.int64)
    for k in range(n):
        order[at[numbered[k]]] = k
        at[numbered[k]] += 1
    return numbered, order


@njit(cache=True, nogil=True)
def _lay_end_to_end(lengths: I64, limit: np.int64) -> tuple[I64, I64, I32, I64, I32]:
    """row, document, piece, start, length of the pieces of fill_concat."""
    n = np.int64(0)
    before = np.int64(0)
    for i in range(lengths.shape[0]):
        if lengths[i] > 0:
            n += (before + lengths[i] - 1) // limit - before // limit + 1
        before += lengths[i]
    row = np.empty(n, dtype=np.int64)
    document = np.empty(n, dtype=np.int64)
    piece = np.empty(n, dtype=np.int32)
    start = np.empty(n, dtype=np.int64)
    length = np.empty(n, dtype=np.int32)
    k = 0
    before = np.int64(0)
    for i in range(lengths.shape[0]):
        at = np.int64(0)
        number = np.int32(0)
        while at < lengths[i]:
            room = limit - (before + at) % limit
            row[k] = (before + at) // limit
            document[k] = i
            piece[k] = number
            start[k] = at
            length[k] = np.int32(min(room, lengths[i] - at))
            at += length[k]
            number += np.int32(1)
            k += 1
        before += lengths[i]
    return row, document, piece, start, length
