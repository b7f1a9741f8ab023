"""What spaCy 3.8's English rules split off a chunk: prefixes, suffixes and infixes, decided character by character.

A chunk is a run without whitespace, decoded into arrays; rules look at a part [low, high) of it and, as spaCy applies
its regular expressions to substrings, never see beyond. Prefixes and suffixes are those of `spacy.lang.punctuation`
(TOKENIZER_PREFIXES, TOKENIZER_SUFFIXES), infixes those of `spacy.lang.en.punctuation`. Their patterns are alternatives:
a prefix is the first that matches, a suffix the longest (a search for `...$` finds the leftmost start), an infix the
first that matches at each position. Single characters come from the class table; only the longer rules are code.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numba import njit

from tamiz.measure import chars as classes
from tamiz.measure.chars import U32, Chars, decode, flags_of
from tamiz.measure.specials import N_BYTES_MAX, Specials, extend_hash, find_row
from tamiz.schema import I32, U8, U64

_N_UNIT_CHARS_MAX = 5  # the longest text after a digit is اكواب
_BEFORE_STOP, _LETTER, _LOWER, _QUOTE = classes.BEFORE_STOP, classes.LETTER, classes.LOWER, classes.QUOTE
_ICON, _PREFIX, _SPACE, _SUFFIX, _UPPER = classes.ICON, classes.PREFIX, classes.SPACE, classes.SUFFIX, classes.UPPER
_STOP, _PLUS, _CAPITAL_U, _CAPITAL_S, _DOLLAR, _CAPITAL_C = ord("."), ord("+"), ord("U"), ord("S"), ord("$"), ord("C")
_CAPITAL_A, _CAPITAL_F, _CAPITAL_K, _SMALL_S, _QUOTE_MARK, _HYPHEN = (
    ord("A"),
    ord("F"),
    ord("K"),
    ord("s"),
    ord("'"),
    ord("-"),
)
_TILDE, _COMMA, _STAR, _CARET, _COLON, _SLASH = ord("~"), ord(","), ord("*"), ord("^"), ord(":"), ord("/")
_LESS, _GREATER = ord("<"), ord(">")
_ELLIPSIS, _EM_DASH, _EN_DASH, _APOSTROPHE = 0x2026, 0x2014, 0x2013, 0x2019


N_CHUNK_CHARS_MAX = 1 << 20  # a longer run without whitespace is cut here


class Chunk(Protocol):
    """Scratch for one chunk of n characters, passed to kernels as one pointer.

    points int32: code points; flags uint32: their classes; offsets int32[n + 1]: byte position of each character within
    the chunk; prefix uint64[n + 1]: hash of the bytes before it; starts uint8[n + 1]: not 0 where a word
    starts; taken uint8, matches uint64: for `phrases`.
    """

    points: I32
    flags: U32
    offsets: I32
    prefix: U64
    starts: U8
    taken: U8
    matches: U64


def make_chunk() -> Chunk:
    """Scratch for any chunk: 31 MB of addresses, of which only the pages a chunk has touched take memory."""
    fields = {
        "points": np.int32,
        "flags": np.uint32,
        "offsets": np.int32,
        "prefix": np.uint64,
        "starts": np.uint8,
        "taken": np.uint8,
        "matches": np.uint64,
    }
    dtype = np.dtype([(name, kind, N_CHUNK_CHARS_MAX + 8) for name, kind in fields.items()])
    chunk: Chunk = np.empty(1, dtype=dtype)[0]
    return chunk


@njit(cache=True, nogil=True)
def fill_chunk(chars: Chars, chunk: Chunk, data: U8, start: int, end: int, first: int) -> tuple[int, int]:
    """Decode the chunk that starts at byte `start` into the scratch, behind the `first` characters already there.

    No words are marked in it yet. Returns the number of characters then in the scratch (`first` when whitespace is
    there) and the byte after the chunk.
    """
    if first == 0:
        chunk.offsets[0] = 0
        chunk.prefix[0] = 0
    value, base = chunk.prefix[first], start - chunk.offsets[first]
    i, n = start, first
    while i < end and n < N_CHUNK_CHARS_MAX:
        point, length = decode(data, i)
        flags = flags_of(chars, point)
        if flags & _SPACE:
            break
        chunk.points[n] = point
        chunk.flags[n] = flags
        chunk.offsets[n] = i - base
        chunk.prefix[n] = value
        chunk.starts[n] = 0
        for k in range(i, i + length):
            value = extend_hash(value, data[k])
        i += length
        n += 1
    chunk.offsets[n] = i - base
    chunk.prefix[n] = value
    chunk.starts[n] = 0
    return n, i


@njit(cache=True, nogil=True)
def find_part(chunk: Chunk, specials: Specials, low: int, high: int) -> int:
    """The row of the listed text that equals [low, high), or -1."""
    n_bytes = chunk.offsets[high] - chunk.offsets[low]
    if n_bytes > N_BYTES_MAX:
        return -1
    return find_row(specials, chunk.prefix[high] - chunk.prefix[low] * specials.powers[n_bytes])


@njit(cache=True, nogil=True)
def hash_part(chunk: Chunk, specials: Specials, data: U8, start: int, low: int, high: int) -> np.uint64:
    """The hash of [low, high), of any length; the chunk's offset 0 is byte `start` of the data."""
    n_bytes = chunk.offsets[high] - chunk.offsets[low]
    if n_bytes <= N_BYTES_MAX:
        return np.uint64(chunk.prefix[high] - chunk.prefix[low] * specials.powers[n_bytes])
    value = np.uint64(0)
    for i in range(start + chunk.offsets[low], start + chunk.offsets[high]):
        value = extend_hash(value, data[i])
    return value


@njit(cache=True, nogil=True)
def is_special(chunk: Chunk, specials: Specials, low: int, high: int) -> bool:
    """Whether [low, high) is a special case."""
    row = find_part(chunk, specials, low, high)
    return row >= 0 and specials.words[row] != 0


@njit(cache=True, nogil=True, inline="always")
def is_digit(point: int) -> bool:
    """[0-9]"""
    return 48 <= point <= 57


@njit(cache=True, nogil=True)
def count_stops(chunk: Chunk, low: int, high: int) -> int:
    """Number of full stops from `low` on."""
    i = low
    while i < high and chunk.points[i] == _STOP:
        i += 1
    return i - low


@njit(cache=True, nogil=True)
def find_prefix(chunk: Chunk, low: int, high: int) -> int:
    """Number of characters to split off the front of [low, high)."""
    point = chunk.points[low]
    if chunk.flags[low] & _PREFIX:
        return 0 if point == _PLUS and low + 1 < high and is_digit(chunk.points[low + 1]) else 1
    if point == _STOP:
        n_stops = count_stops(chunk, low, high)
        return n_stops if n_stops >= 2 else 0
    if point == _CAPITAL_U:  # US$, C$, A$
        return 3 if low + 2 < high and chunk.points[low + 1] == _CAPITAL_S and chunk.points[low + 2] == _DOLLAR else 0
    if point in (_CAPITAL_C, _CAPITAL_A):
        return 2 if low + 1 < high and chunk.points[low + 1] == _DOLLAR else 0
    return 0


@njit(cache=True, nogil=True)
def find_last_stops(chunk: Chunk, low: int, high: int) -> int:
    """Length of the suffix when the last character is a full stop: a run of them, or one after what allows it."""
    before = high - 1
    while before > low and chunk.points[before - 1] == _STOP:
        before -= 1
    if high - before >= 2:
        return high - before
    if before == low:
        return 0
    if chunk.flags[before - 1] & _BEFORE_STOP:
        return 1
    if before - 1 == low:
        return 0
    if chunk.flags[before - 1] & _UPPER and chunk.flags[before - 2] & _UPPER:
        return 1
    scale = chunk.points[before - 1]  # 20°C.
    is_scale = scale in (_CAPITAL_C, _CAPITAL_F, _CAPITAL_K)
    return 1 if is_scale and chunk.points[before - 2] == 0xB0 else 0


@njit(cache=True, nogil=True)
def find_unit(chunk: Chunk, specials: Specials, low: int, high: int) -> int:
    """Length of the unit, currency or plus at the end of [low, high) that follows a digit, or 0."""
    first = high - 1
    while first > low and high - first <= _N_UNIT_CHARS_MAX:
        if is_digit(chunk.points[first]):
            return 0
        if is_digit(chunk.points[first - 1]):
            row = find_part(chunk, specials, first, high)
            return high - first if row >= 0 and specials.after_digit[row] else 0
        first -= 1
    return 0


@njit(cache=True, nogil=True)
def find_suffix(chunk: Chunk, specials: Specials, low: int, high: int) -> int:
    """Number of characters to split off the end of [low, high)."""
    if low >= high:
        return 0
    last = high - 1
    point = chunk.points[last]
    if point == _STOP:
        return find_last_stops(chunk, low, high)
    before = chunk.points[last - 1] if last > low else 0
    if point in (_SMALL_S, _CAPITAL_S) and before in (_QUOTE_MARK, _APOSTROPHE):
        return 2
    if point == _ELLIPSIS and before == _ELLIPSIS:
        return 2
    if chunk.flags[last] & _SUFFIX:
        return 1
    return find_unit(chunk, specials, low, high)


@njit(cache=True, nogil=True)
def find_hyphens(chunk: Chunk, i: int, high: int) -> int:
    """Length of the dashes at i that stand before a letter: up to three hyphens, two em dashes, one en dash or
    tilde."""
    point = chunk.points[i]
    longest = 1
    if point == _HYPHEN:
        longest = 3
    elif point == _EM_DASH:
        longest = 2
    elif point != _EN_DASH and point != _TILDE:
        return 0
    for length in range(1, longest + 1):
        after = i + length
        if after >= high:
            return 0
        if chunk.flags[after] & _LETTER:
            return length
        if chunk.points[after] != point:
            return 0
    return 0


@njit(cache=True, nogil=True)
def find_infix(chunk: Chunk, low: int, high: int, i: int) -> int:
    """Length of the infix that starts at i within [low, high), or 0."""
    point, flags = chunk.points[i], chunk.flags[i]
    if flags & _LETTER and not flags & _ICON:
        return 0
    if point == _STOP:
        n_stops = count_stops(chunk, i, high)
        if n_stops >= 2:
            return n_stops
    if point == _ELLIPSIS or flags & _ICON:
        return 1
    if i == low or i + 1 == high:
        return 0
    before, after = chunk.flags[i - 1], chunk.flags[i + 1]
    if point == _STOP:
        return 1 if before & (_LOWER | _QUOTE) and after & (_UPPER | _QUOTE) else 0
    if point == _COMMA:
        return 1 if before & _LETTER and after & _LETTER else 0
    is_after_digit = is_digit(chunk.points[i - 1])
    if is_after_digit and point in (_PLUS, _HYPHEN, _STAR, _CARET):
        next_point = chunk.points[i + 1]
        if is_digit(next_point) or next_point == _HYPHEN:
            return 1
    if not (is_after_digit or before & _LETTER):
        return 0
    if point in (_COLON, _SLASH) or _LESS <= point <= _GREATER:
        return 1 if after & _LETTER else 0
    return find_hyphens(chunk, i, high)
