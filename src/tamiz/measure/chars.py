"""Code points and their classes: UTF-8 decoding and a two-stage table of flags, for use inside kernels.

The table is `char_table.npz` beside this file, written by `scripts/make_char_table.py` from Unicode 14.0 (Python 3.11's
`unicodedata`) and the named sources below, so results do not depend on the Python version that runs. Stage one maps
`cp >> 8` to a block, stage two maps `block * 256 + (cp & 255)` to a word of flags; ASCII has a table of its own.

Sources of the classes: Python `str.isspace`, `str.isalpha`, `str.splitlines` and `re`'s `\\w`; Unicode categories Nd,
Mn and P*; the Unicode property Sentence_Terminal; the punctuation list of MinHash normalisation and the symbol set of
Gopher's word count as published with FineWeb (datatrove 0.10.1); the character classes of spaCy 3.8's English rules.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numba import njit

from tamiz.schema import I32, U8

U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]

SPACE = 1 << 0  # str.isspace: what separates chunks
ALPHA = 1 << 1  # str.isalpha
ND = 1 << 2  # decimal digits of every script, \p{Nd}
SYMBOL = 1 << 3  # FineWeb's 281 symbol characters: NORM_PUNCT or TERMINAL
TERMINAL = 1 << 4  # FineWeb's 159 marks that may end a line
SENTENCE_END = 1 << 5  # the 128 marks of spaCy's sentencizer
IS_PUNCT = 1 << 6  # Unicode category P*: spaCy's Token.is_punct
LINE_BREAK = 1 << 7  # ends a line for str.splitlines
NORM_PUNCT = 1 << 8  # the 129 characters MinHash normalisation turns into a space
MN = 1 << 9  # non-spacing marks, category Mn
WORD = 1 << 10  # \w of Python's re
LETTER = 1 << 11  # spaCy's ALPHA: what hyphens, commas and colons split between
LOWER = 1 << 12  # spaCy's ALPHA_LOWER, with the scripts that have no case
UPPER = 1 << 13  # spaCy's ALPHA_UPPER, with the scripts that have no case
PREFIX = 1 << 14  # splits off the front on its own ("+" only when no digit follows)
SUFFIX = 1 << 15  # splits off the end on its own
ICON = 1 << 16  # spaCy's icons (symbols, emoji): infixes
QUOTE = 1 << 17  # spaCy's quotes and brackets, as a class
BEFORE_STOP = 1 << 18  # a full stop after one of these is a suffix
CASED = 1 << 19  # str.lower: has case (decides the final sigma)
CASE_IGNORABLE = 1 << 20  # str.lower: looked through when deciding the final sigma
FOLDS = 1 << 21  # changes when lower-cased, decomposed (NFD) and stripped of Mn


class Chars(Protocol):
    """Classes of code points: ascii uint32[128] flags; blocks uint16[4352]; flags uint32[256 * number of blocks]."""

    ascii: U32
    blocks: U16
    flags: U32


class Folds(Protocol):
    """What a code point with FOLDS becomes (Hangul syllables excepted, they decompose by arithmetic).

    Entry k = entries[blocks[cp >> 8] * 256 + (cp & 255)] is the UTF-8 text data[starts[k] : starts[k + 1]], which may
    be empty. blocks uint16[4352], entries uint16, starts int32, data uint8.
    """

    blocks: U16
    entries: U16
    starts: I32
    data: U8


def pack_record(**arrays: npt.NDArray[Any]) -> Any:
    """A structured scalar that holds copies of the arrays; in kernels its fields are attributes, here they are items.

    numba passes a record as one pointer. A tuple of arrays costs about seven machine words per array and call, and two
    atomic operations per array for its reference count: with those the scan of words ran at 7 MB per CPU-second.
    """
    record = np.empty(1, dtype=[(name, array.dtype, array.shape) for name, array in arrays.items()])[0]
    for name, array in arrays.items():
        record[name] = array
    return record


def freeze(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view. numba compiles a kernel once more for writable arrays; buffers from Arrow are read-only."""
    view = array.view()
    view.flags.writeable = False
    return view


@cache
def _load_table() -> dict[str, npt.NDArray[Any]]:
    with (files("tamiz.measure") / "char_table.npz").open("rb") as stream, np.load(stream) as table:
        return {name: table[name] for name in table.files}


@cache
def load_chars() -> Chars:
    """The class table, as a record for kernels; it is shared, do not write to it."""
    table = _load_table()
    chars: Chars = pack_record(ascii=table["flags"][:128], blocks=table["blocks"], flags=table["flags"])
    return chars


@cache
def load_folds() -> Folds:
    """The folding table of normalisation, as a record for kernels; it is shared, do not write to it."""
    table = _load_table()
    names = ("blocks", "entries", "starts", "data")
    folds: Folds = pack_record(**{name: table["fold_" + name] for name in names})
    return folds


@njit(cache=True, nogil=True, inline="always")
def decode(data: U8, i: int) -> tuple[np.int64, int]:
    """The code point that starts at byte i of valid UTF-8 and its length in bytes (1 to 4), both int64."""
    lead = np.int64(data[i])
    if lead < 0x80:
        return lead, 1
    second = np.int64(data[i + 1]) & 0x3F
    if lead < 0xE0:
        return ((lead & 0x1F) << 6) | second, 2
    third = np.int64(data[i + 2]) & 0x3F
    if lead < 0xF0:
        return ((lead & 0x0F) << 12) | (second << 6) | third, 3
    return ((lead & 0x07) << 18) | (second << 12) | (third << 6) | (np.int64(data[i + 3]) & 0x3F), 4


@njit(cache=True, nogil=True, inline="always")
def flags_of(chars: Chars, cp: int | np.int64) -> np.int64:
    """The flags of a code point, as int64 so that `flags & SPACE` stays an integer in compiled code."""
    if cp < 128:
        return np.int64(chars.ascii[cp])
    return np.int64(chars.flags[(np.int64(chars.blocks[cp >> 8]) << 8) | (cp & 255)])
