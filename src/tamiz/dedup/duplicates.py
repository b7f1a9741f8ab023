"""First occurrence wins: in every bucket of equal keys, all but the first document in order are duplicates.

Documents have a total order (source, split, position); here a document is its index in it. A document that lost still
counts as an occurrence, so a chain of near copies collapses onto its head, while a document that resembles only later
ones stays. Nothing is transitive beyond that, and no bucket needs another: any (band, key range) can be worked alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamiz.schema import I32, I64, U64

NONE = -1


class Losers(NamedTuple):
    """Documents that lost in one band: `loser` int64[n] ascending, `winner` int64[n], the head of its bucket."""

    loser: I64
    winner: I64


def find_losers(documents: I64, keys: U64) -> Losers:
    """The losers among `documents` (int64[n], ascending order indices) with `keys` (uint64[n])."""
    by_key = np.argsort(keys, kind="stable")  # stable: within a bucket, order stays
    sorted_keys = keys[by_key]
    is_head = np.ones(len(keys), dtype=np.bool_)
    is_head[1:] = sorted_keys[1:] != sorted_keys[:-1]
    head_of = np.maximum.accumulate(np.where(is_head, np.arange(len(keys)), 0))
    lost = np.flatnonzero(~is_head)
    losers, winners = documents[by_key[lost]], documents[by_key[head_of[lost]]]
    order = np.argsort(losers, kind="stable")
    return Losers(losers[order], winners[order])


class Verdicts(NamedTuple):
    """Per document of the order: `lost_to` int64[n] (NONE = unique), `is_exact` bool[n], `n_bands` int32[n]."""

    lost_to: I64
    is_exact: np.ndarray[tuple[int], np.dtype[np.bool_]]
    n_bands: I32


def merge_losers(n_documents: int, exact: list[Losers], bands: list[Losers]) -> Verdicts:
    """Combine the bands: a document is a duplicate if any says so.

    `lost_to` is the head of its exact bucket, or else the earliest head among its bands; `n_bands` counts the bands
    whose head is that document.
    """
    lost_to = np.full(n_documents, NONE, dtype=np.int64)
    is_exact = np.zeros(n_documents, dtype=np.bool_)
    for losers in exact:
        lost_to[losers.loser] = losers.winner
        is_exact[losers.loser] = True
    earliest = np.full(n_documents, n_documents, dtype=np.int64)
    for losers in bands:
        earliest[losers.loser] = np.minimum(earliest[losers.loser], losers.winner)
    near = (earliest < n_documents) & ~is_exact
    lost_to[near] = earliest[near]
    n_bands = np.zeros(n_documents, dtype=np.int32)
    for losers in bands:
        n_bands[losers.loser] += losers.winner == lost_to[losers.loser]
    return Verdicts(lost_to, is_exact, n_bands)
