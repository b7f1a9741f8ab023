"""What was seen before in a document: one open-addressing table in scratch memory, reused for all documents and passes.

A pass puts the items of one sequence in, in order; item i is born at `base + i`, and bases only grow, so an entry whose
birth is before the base of the pass counts as an empty slot: nothing is ever cleared. Keys are 64-bit hashes, and equal
keys stand for equal items: in a document of a million items two different ones meet with probability 3e-8.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tamiz.schema import I32, I64, U64

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd; the high bits of key * _MIX depend on every bit of the key
_INDEX_BITS = 64


class Seen(NamedTuple):
    """keys uint64[capacity], births int64[capacity] (0 = never used), counts int32[capacity]; capacity a power of 2."""

    keys: U64
    births: I64
    counts: I32


def make_seen(n_items: int) -> Seen:
    """An empty table for passes of at most `n_items` items each; the first base is 1."""
    capacity = 1 << max(4, (2 * n_items - 1).bit_length())
    return Seen(
        np.empty(capacity, dtype=np.uint64), np.zeros(capacity, dtype=np.int64), np.empty(capacity, dtype=np.int32)
    )


@numba.njit(cache=True, nogil=True)
def choose_shift(n_items: int) -> np.uint64:
    """The `shift` for a pass of `n_items` items: it uses no more slots than it needs, so that they stay in cache."""
    bits = 4
    while (1 << bits) < 2 * n_items:
        bits += 1
    return np.uint64(_INDEX_BITS - bits)


@numba.njit(cache=True, nogil=True, inline="always")
def find_slot(seen: Seen, key: np.uint64, base: int, shift: np.uint64) -> np.int64:
    """The slot of `key`, or the empty one where it belongs (births[slot] < base); the caller fills it in.

    A pass holds at most half as many items as slots, so an empty one is always found.
    """
    slot = np.int64((key * _MIX) >> shift)
    mask = (np.int64(1) << np.int64(np.uint64(_INDEX_BITS) - shift)) - 1
    while seen.births[slot] >= base and seen.keys[slot] != key:
        slot = (slot + 1) & mask
    return slot
