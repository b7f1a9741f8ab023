"""Pieces of text: where they begin and end once white space (`str.isspace`) is stripped off, and their hashes."""

from __future__ import annotations

import numpy as np
from numba import njit

from tamiz.measure.chars import SPACE, Chars, decode, flags_of
from tamiz.schema import I64, U8

LINE_FEED = 10
HASH_START = np.uint64(0xCBF29CE484222325)  # FNV-1a, 64 bit: the hash of the empty piece
_HASH_PRIME = np.uint64(0x100000001B3)


@njit(cache=True, nogil=True)
def hash_line(data: U8, start: int, end: int, key: np.uint64) -> tuple[int, int, np.uint64]:
    """Read [start, end) up to the first line feed: the byte of it (or `end`), the code points before it, and the hash
    of these bytes appended to those that `key` is the hash of."""
    n_chars = 0
    while start < end and data[start] != LINE_FEED:
        key = hash_byte(key, data[start])
        n_chars += data[start] & 0xC0 != 0x80
        start += 1
    return start, n_chars, key


@njit(cache=True, nogil=True, inline="always")
def hash_byte(key: np.uint64, byte: int) -> np.uint64:
    """The hash of a piece with one more byte."""
    return (key ^ np.uint64(byte)) * _HASH_PRIME


@njit(cache=True, nogil=True)
def count_line_feeds(offsets: I64, data: U8) -> I64:
    """Line feeds of every document, int64[n]."""
    counts = np.zeros(len(offsets) - 1, dtype=np.int64)
    for doc in range(len(counts)):
        n = 0
        for i in range(offsets[doc], offsets[doc + 1]):
            n += data[i] == LINE_FEED
        counts[doc] = n
    return counts


@njit(cache=True, nogil=True)
def skip_space(chars: Chars, data: U8, start: int, end: int) -> int:
    """Byte of the first character of [start, end) that is not white space; `end` if there is none."""
    while start < end:
        cp, size = decode(data, start)
        if not flags_of(chars, cp) & SPACE:
            break
        start += size
    return start


@njit(cache=True, nogil=True)
def find_last_char(data: U8, end: int) -> int:
    """Byte at which the character that ends before `end` starts."""
    end -= 1
    while data[end] & 0xC0 == 0x80:
        end -= 1
    return end


@njit(cache=True, nogil=True)
def skip_space_back(chars: Chars, data: U8, start: int, end: int) -> int:
    """Byte after the last character of [start, end) that is not white space; `start` if there is none."""
    while end > start:
        last = find_last_char(data, end)
        if not flags_of(chars, decode(data, last)[0]) & SPACE:
            break
        end = last
    return end
