"""Texts with a meaning of their own, found by hash: spaCy's special cases, units, and Gopher's stop words.

The hash of a text is a polynomial over its UTF-8 bytes modulo 2^64, H = sum (byte + 1) * HASH_BASE^(length - 1 - k), so
that H(a + b) = H(a) * HASH_BASE^len(b) + H(b): the hash of any part of a chunk comes from two prefix hashes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numba import njit

from tamiz.measure.chars import U16, pack_record
from tamiz.schema import I64, U8, U64

HASH_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd; 2^64 / golden ratio
N_BYTES_MAX = 32  # no listed text is longer (checked when the table is made)
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")  # code k + 1 is the k-th; 0 is none
N_STOP_BYTES_MAX = max(map(len, STOP_WORDS))

_SLOT_BITS = 13  # 8,192 slots for about 1,500 texts: four lookups in five end at the first, empty, slot
_SLOT_SHIFT = np.uint64(64 - _SLOT_BITS)
_SLOT_MASK = (1 << _SLOT_BITS) - 1
_MIX = np.uint64(0xD6E8FEB86659FD93)
_ONE = np.uint64(1)


class Specials(Protocol):
    """An open-addressing table, as a record that kernels get as one pointer.

    slots uint16[8192]: the row + 1 of a text, 0 is empty. Per row: keys uint64, the hash of the text; words uint64, bit
    b set when a word of the special case starts at byte b (0 = no special case); phrase uint64, the same for the words
    that affix rules alone make of it (0 = never looked for among words); after_digit uint8, 1 for a unit, currency or
    plus, split off after a digit; stop int64, the stop word's code. powers uint64[33]: HASH_BASE^k.
    """

    slots: U16
    keys: U64
    words: U64
    phrase: U64
    after_digit: U8
    stop: I64
    powers: U64


def hash_text(text: bytes) -> int:
    """The polynomial hash of the bytes, in plain Python."""
    value = 0
    for byte in text:
        value = (value * int(HASH_BASE) + byte + 1) & 0xFFFFFFFFFFFFFFFF
    return value


def mark_starts(pieces: tuple[str, ...]) -> int:
    """A bit mask of the byte positions at which the pieces start, when written one after another."""
    mask, position = 0, 0
    for piece in pieces:
        mask |= 1 << position
        position += len(piece.encode())
    return mask


def make_specials(exceptions: dict[str, tuple[str, ...]], after_digit: list[str]) -> Specials:
    """The table of these texts and the stop words; `phrase` is left 0."""
    texts = list(dict.fromkeys([*exceptions, *after_digit, *STOP_WORDS]))
    hashes = [hash_text(text.encode()) for text in texts]
    if len(set(hashes)) < len(texts) or max(len(text.encode()) for text in texts) > N_BYTES_MAX:
        raise ValueError("the listed texts collide or are too long: choose another HASH_BASE or N_BYTES_MAX")
    slots = np.zeros(_SLOT_MASK + 1, dtype=np.uint16)
    for row, value in enumerate(hashes):
        slot = (value * int(_MIX) & 0xFFFFFFFFFFFFFFFF) >> int(_SLOT_SHIFT)
        while slots[slot]:
            slot = (slot + 1) & _SLOT_MASK
        slots[slot] = row + 1
    powers = [pow(int(HASH_BASE), k, 1 << 64) for k in range(N_BYTES_MAX + 1)]
    specials: Specials = pack_record(
        slots=slots,
        keys=np.array(hashes, dtype=np.uint64),
        words=np.array([mark_starts(exceptions.get(text, ())) for text in texts], dtype=np.uint64),
        phrase=np.zeros(len(texts), dtype=np.uint64),
        after_digit=np.array([text in after_digit for text in texts], dtype=np.uint8),
        stop=np.array([STOP_WORDS.index(text) + 1 if text in STOP_WORDS else 0 for text in texts], dtype=np.int64),
        powers=np.array(powers, dtype=np.uint64),
    )
    return specials


@njit(cache=True, nogil=True, inline="always")
def extend_hash(value: np.uint64, byte: np.uint8) -> np.uint64:
    """The hash of a text with one more byte."""
    return value * HASH_BASE + np.uint64(byte) + _ONE


@njit(cache=True, nogil=True)
def find_row(specials: Specials, value: np.uint64) -> int:
    """The row of the text with this hash, or -1."""
    slot = np.int64((value * _MIX) >> _SLOT_SHIFT)
    while True:
        row = np.int64(specials.slots[slot]) - 1
        if row < 0 or specials.keys[row] == value:
            return int(row)
        slot = (slot + 1) & _SLOT_MASK
