"""A Bloom filter of keys: tells which keys it has met before in 10 to 40 bits each, with a known share of errors.

For corpora whose keys would not fit the disk once more, sorted (Bloom 1970). It never forgets a key, so recall is that
of the sorted index; a key it has not met is taken for a known one at the promised rate. It cannot tell what was met.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from tamiz.dedup.signature import mix
from tamiz.schema import U8, U64

_STEP = np.uint64(0x9E3779B97F4A7C15)


class BloomShape(NamedTuple):
    """`n_words` words of 64 bits, `n_probes` bits set per key."""

    n_words: int
    n_probes: int


def choose_bloom(n_keys: int, rate: float) -> BloomShape:
    """The smallest filter that, holding `n_keys`, takes a share `rate` of new keys for known.

    That is n ln(1/p) / ln(2)^2 bits and log2(1/p) probes.
    """
    n_bits = max(64.0, n_keys * math.log(1 / rate) / math.log(2) ** 2)
    return BloomShape(math.ceil(n_bits / 64), max(1, round(math.log2(1 / rate))))


def make_bits(shape: BloomShape) -> U64:
    """An empty filter: uint64[n_words]."""
    return np.zeros(shape.n_words, dtype=np.uint64)


def meet_keys(bits: U64, n_probes: int, keys: U64) -> U8:
    """uint8[n]: whether each of `keys` uint64[n] was (probably) met before; they are, one by one, from then on."""
    met = np.empty(len(keys), dtype=np.uint8)
    _meet_all(bits, np.int64(n_probes), keys, met)
    return met


@njit(cache=True, nogil=True)
def _meet_all(bits: U64, n_probes: np.int64, keys: U64, met: U8) -> None:
    n_words = np.uint64(len(bits))
    for i in range(len(keys)):
        x = mix(keys[i])
        step = mix(x + _STEP) | np.uint64(1)
        known = np.uint8(1)
        for _ in range(n_probes):
            # the word by the high half (a multiplication instead of a division), the bit by the low end
            low, high = x & np.uint64(0xFFFFFFFF), x >> np.uint64(32)
            word = (high * n_words + ((low * n_words) >> np.uint64(32))) >> np.uint64(32)
            bit = np.uint64(1) << (mix(x) & np.uint64(63))
            if bits[word] & bit == 0:
                known = np.uint8(0)
                bits[word] |= bit
            x += step
        met[i] = known
