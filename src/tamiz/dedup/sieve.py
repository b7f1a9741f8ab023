"""A set of keys as a bitmap with one bit for each: no key of the set is missed, some others pass too.

With n keys in 2^k bits n / 2^k of the others pass. Keys are hashes, so their lowest k bits are the place.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tamiz.dedup.duplicates import BOOL
from tamiz.schema import U64

_BITS_PER_KEY = 32  # 3 % of the others pass


def make_sieve(n_keys: int, bytes_max: int) -> U64:
    """uint64[2^k / 64], no bit set: at least 32 bits a key if `bytes_max` allows."""
    wanted = max(64, n_keys * _BITS_PER_KEY)
    allowed = max(64, bytes_max * 8)
    return np.zeros((1 << min((wanted - 1).bit_length(), allowed.bit_length() - 1)) >> 6, dtype=np.uint64)


@njit(cache=True, nogil=True)
def add_keys(sieve: U64, keys: U64) -> None:
    """Set the bits of `keys` uint64[n]."""
    mask = np.uint64(len(sieve) * 64 - 1)
    for key in keys:
        place = key & mask
        sieve[place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))


@njit(cache=True, nogil=True)
def match_keys(sieve: U64, keys: U64) -> BOOL:
    """bool[n]: whether each of `keys` uint64[n] may be in the set."""
    mask = np.uint64(len(sieve) * 64 - 1)
    found = np.empty(len(keys), dtype=np.bool_)
    for i in range(len(keys)):
        place = keys[i] & mask
        found[i] = (sieve[place >> np.uint64(6)] >> (place & np.uint64(63))) & np.uint64(1) != np.uint64(0)
    return found
