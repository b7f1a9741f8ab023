"""First occurrence wins: in every bucket of equal keys, all but the first document in order are duplicates.

Documents have a total order: by merit (smaller wins; the source's priority, then length or a metric), and between
equals by (source, split, position); here a document is its index in the latter. A document that lost still counts as
an occurrence, so a chain of near copies collapses onto its head, while a document that resembles only later ones
stays. Nothing is transitive beyond that, and no bucket needs another: any (band, key range) can be worked alone.

A scope narrows a bucket: with one, only documents of the same scope number (a source, a dump) compete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tamiz.schema import I32, I64, U8, U64

NONE = -1
BOOL = npt.NDArray[np.bool_]


class Members(NamedTuple):
    """The entries that share their key: `position` int64[m] among the keys given, `bucket` int64[m], ascending from 0.

    Within a bucket positions ascend. Every bucket has at least two members.
    """

    position: I64
    bucket: I64


class Losers(NamedTuple):
    """Documents that lost in one band, by `loser` ascending: int64[n] each.

    `winner`: the head of its bucket in the chosen scope, NONE if it lost in other scopes only; `merit` uint64[n] is the
    winner's. `lost_in` uint8[n]: bit 0 is the whole run, bit i + 1 the i-th of the scopes given.
    """

    loser: I64
    winner: I64
    merit: U64
    lost_in: U8

    def take(self, index: I64 | BOOL) -> Losers:
        """Some of the rows."""
        return Losers(self.loser[index], self.winner[index], self.merit[index], self.lost_in[index])


def find_members(keys: U64) -> Members:
    """The members of all buckets of `keys` (uint64[n]).

    Sorts one uint64 per key, its low bits over its position (numpy sorts those 20 times faster than it argsorts), and
    puts right afterwards the few buckets in which keys differ above those bits. 24 bytes per key.
    """
    bits = np.uint64(max(1, (len(keys) - 1).bit_length()))
    packed = (keys << bits) | np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    same = _mark_equal(packed >> bits)
    packed = packed[same]
    position = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    low = packed >> bits
    del packed
    full = keys[position]
    begins = _mark_starts(low)
    mixed = ~begins[1:] & (full[1:] != full[:-1])
    if mixed.any():
        group = np.cumsum(begins) - 1
        wrong = np.flatnonzero(np.isin(group, np.unique(group[1:][mixed])))
        order = wrong[np.lexsort((position[wrong], full[wrong], group[wrong]))]
        position[wrong], full[wrong] = position[order], full[order]
        same = _mark_equal(full)
        position, full = position[same], full[same]
        begins = _mark_starts(full)
    return Members(position, np.cumsum(begins, dtype=np.int64) - 1)


def _mark_starts(values: U64) -> BOOL:
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return begins


def _mark_equal(values: U64) -> BOOL:
    """Whether an entry of a sorted array equals a neighbour."""
    begins = _mark_starts(values)
    same = ~begins
    same[:-1] |= ~begins[1:]
    return same


def rank_members(
    bucket: I64,
    documents: I64,
    merits: U64 | None = None,
    scopes: Sequence[I32] = (),
    chosen: int = 0,
    depth: int = 1,
) -> Losers:
    """Who lost to whom: `bucket` int64[m] ascending, `documents` int64[m] ascending within each bucket,
    `merits` uint64[m] (None: all equal), `scopes` int32[m] each; `chosen`: 0 compares within the run, i within
    scopes[i - 1]. With `depth` d > 1 a loser has a row for each of the first d documents of its bucket before it.
    """
    if merits is not None:
        order = np.lexsort((documents, merits, bucket))
        bucket, documents, merits = bucket[order], documents[order], merits[order]
        scopes = [scope[order] for scope in scopes]
    lost_in = np.zeros(len(bucket), dtype=np.uint8)
    found: list[tuple[I64, I64]] = []  # of the chosen scope: members that lost, and a member each lost to
    for number, scope in enumerate([None, *scopes]):
        by_scope = np.arange(len(bucket)) if scope is None else np.lexsort((scope, bucket))
        begins = _mark_starts(bucket[by_scope].astype(np.uint64))
        if scope is not None:
            begins[1:] |= scope[by_scope][1:] != scope[by_scope][:-1]
        lost_in[by_scope[~begins]] |= np.uint8(1 << number)
        if number == chosen:
            found = _pair_members(by_scope, begins, depth)
    losers, winners = (np.concatenate(side) for side in zip(*found, strict=True))
    elsewhere = np.flatnonzero((lost_in > 0) & (lost_in & np.uint8(1 << chosen) == 0))
    loser = np.concatenate([documents[losers], documents[elsewhere]])
    winner = np.concatenate([documents[winners], np.full(len(elsewhere), NONE, dtype=np.int64)])
    merit = np.zeros(len(loser), dtype=np.uint64)
    if merits is not None:
        merit[: len(winners)] = merits[winners]
    lost_in = lost_in[np.concatenate([losers, elsewhere])]
    by_loser = np.argsort(loser, kind="stable")
    return Losers(loser[by_loser], winner[by_loser], merit[by_loser], lost_in[by_loser])


def _pair_members(order: npt.NDArray[np.intp], begins: BOOL, depth: int) -> list[tuple[I64, I64]]:
    """(members that lost, members they lost to) for the first, second, ... of each bucket; buckets lie in `order`."""
    index = np.arange(len(order))
    head = np.maximum.accumulate(np.where(begins, index, 0))
    pairs = []
    for k in range(depth):
        lost = np.flatnonzero(index - head > k)
        pairs.append((order[lost], order[head[lost] + k]))
    return pairs


def find_losers(documents: I64, keys: U64, merits: U64 | None = None) -> Losers:
    """The losers among `documents` (int64[n], ascending order indices) with `keys` (uint64[n]), in one go."""
    members = find_members(keys)
    merits = None if merits is None else merits[members.position]
    return rank_members(members.bucket, documents[members.position], merits)


class Verdicts(NamedTuple):
    """Per document of a range: `lost_to` int64[n] (NONE = unique), `is_exact` bool[n], `n_bands` int32[n] (0 when exact
    or unique), `lost_in` uint8[n] (see Losers)."""

    lost_to: I64
    is_exact: BOOL
    n_bands: I32
    lost_in: U8


def merge_losers(n_documents: int, exact: Iterable[Losers], bands: Iterable[Losers], first: int = 0) -> Verdicts:
    """Combine the bands over documents first .. first + n_documents: a document is a duplicate if any band says so.

    `lost_to` is the head of its exact bucket, or else the foremost head among its bands; `n_bands` counts the bands
    whose head is that document: all that the two have in common, for a bucket with both has no earlier head.
    Each of `exact` and `bands` has a document at most once. 29 bytes per document and one of them at a time.
    """
    lost_to = np.full(n_documents, NONE, dtype=np.int64)
    is_exact = np.zeros(n_documents, dtype=np.bool_)
    n_bands = np.zeros(n_documents, dtype=np.int32)
    lost_in = np.zeros(n_documents, dtype=np.uint8)
    for losers in exact:
        row = losers.loser - first
        lost_in[row] |= losers.lost_in
        lost = losers.winner != NONE
        lost_to[row[lost]] = losers.winner[lost]
        is_exact[row[lost]] = True
    merit = np.zeros(n_documents, dtype=np.uint64)
    for losers in bands:
        row = losers.loser - first
        lost_in[row] |= losers.lost_in
        near = (losers.winner != NONE) & ~is_exact[row]
        row, winner, worth = row[near], losers.winner[near], losers.merit[near]
        old, old_worth = lost_to[row], merit[row]
        n_bands[row] += winner == old
        is_better = (old == NONE) | (worth < old_worth) | ((worth == old_worth) & (winner < old))
        row, winner, worth = row[is_better], winner[is_better], worth[is_better]
        lost_to[row], merit[row], n_bands[row] = winner, worth, 1
    return Verdicts(lost_to, is_exact, n_bands, lost_in)


def find_roots(documents: I64, lost_to: I64) -> I64:
    """Where the chain from each of `documents` (int64[n] ascending) ends: the first document not among them.

    `lost_to` int64[n]: what each lost to. Nobody loses to a document behind it in the order, so there is no circle.
    """
    roots = lost_to.copy()
    while len(documents):
        at = np.minimum(np.searchsorted(documents, roots), len(documents) - 1)
        goes_on = documents[at] == roots
        if not goes_on.any():
            break
        roots[goes_on] = roots[at[goes_on]]
    return roots


def order_floats(values: npt.NDArray[np.float64], *, descending: bool) -> U64:
    """uint64[n] in the order of `values` (NaN, "not measurable", behind all), the 56 highest bits of it."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    sign = np.uint64(1 << 63)
    ascending = np.where(bits & sign, ~bits, bits | sign)
    ranked = (~ascending if descending else ascending) >> np.uint64(8)
    ranked[np.isnan(values)] = np.uint64((1 << 56) - 1)
    return ranked
