"""The words of the normalised text that MinHash compares, hashed while scanning: no second string is built.

The normalised text is FineWeb's (datatrove 0.10.1, `simplify_text`), in this order: lower case (Python's `str.lower`);
a number, `\\p{Nd}+([.,،٫⎖⎗⎘]\\p{Nd}+)?`, becomes 0; the characters of NORM_PUNCT become a blank; whitespace becomes one
blank; canonical decomposition (NFD) without non-spacing marks (Mn). Its words are spaCy's (see `words`). Whitespace and
NORM_PUNCT end a chunk, so each chunk is folded into a small buffer and split there; a chunk of ASCII letters, the usual
case, is folded and hashed in one go.

One deviation: NFD sorts adjacent combining marks, and spacing ones (Mc) of two classes in the wrong order keep theirs
here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tamiz.measure import chars as classes
from tamiz.measure.affixes import Chunk, fill_chunk, hash_part, make_chunk
from tamiz.measure.chars import Chars, Folds, decode, flags_of, freeze, load_chars, load_folds
from tamiz.measure.chunks import mark_words
from tamiz.measure.phrases import has_phrase, load_specials, merge_phrases
from tamiz.measure.specials import N_BYTES_MAX, Specials, extend_hash, find_row
from tamiz.schema import I64, U8, U64

_CASED, _CASE_IGNORABLE, _FOLDS, _ND = classes.CASED, classes.CASE_IGNORABLE, classes.FOLDS, classes.ND
_ENDS_CHUNK = classes.SPACE | classes.NORM_PUNCT
_N_FOLDED_BYTES_MAX = 3  # per byte: a Hangul syllable of 3 bytes becomes three letters of 3

# Of an ASCII byte: the folded letter, or one of these. There is nothing else in ASCII.
_END, _DIGIT = 0, 1
_ASCII = np.zeros(128, dtype=np.uint8)
_ASCII[ord("0") : ord("9") + 1] = _DIGIT
for _letter in range(ord("a"), ord("z") + 1):
    _ASCII[[_letter, _letter - 32]] = _letter
_ZERO, _SIGMA, _FINAL_SIGMA, _SMALL_SIGMA = ord("0"), 0x3A3, 0x3C2, 0x3C3
_NUMBER_MARKS = (ord("."), ord(","), 0x60C, 0x66B, 0x2396, 0x2397, 0x2398)
_HANGUL_FIRST, _HANGUL_LAST = 0xAC00, 0xD7A3


class NormalWords(NamedTuple):
    """Normalised words of n documents: doc_offsets int64[n + 1] into hashes uint64 (of their bytes, see `specials`)."""

    doc_offsets: I64
    hashes: U64


def scan_normal_words(offsets: I64, data: U8) -> NormalWords:
    """The words of the normalised documents data[offsets[d] : offsets[d + 1]] (valid UTF-8).

    Memory: 8 bytes per word; untouched pages of the arrays are never backed.
    """
    n_bytes = int(offsets[-1] - offsets[0])
    n_document_bytes_max = int(np.diff(offsets).max(initial=0))
    doc_offsets = np.empty(len(offsets), dtype=np.int64)
    hashes = np.empty(n_bytes, dtype=np.uint64)  # a character never becomes more words than it has bytes
    buffer = np.empty(_N_FOLDED_BYTES_MAX * n_document_bytes_max, dtype=np.uint8)
    tables = (load_chars(), load_folds(), load_specials())
    n = _scan_documents(freeze(offsets), freeze(data), *tables, make_chunk(), buffer, doc_offsets, hashes)
    return NormalWords(doc_offsets, hashes[:n])


@njit(cache=True, nogil=True)
def _scan_documents(
    offsets: I64,
    data: U8,
    chars: Chars,
    folds: Folds,
    specials: Specials,
    chunk: Chunk,
    buffer: U8,
    doc_offsets: I64,
    hashes: U64,
) -> int:
    """Fill `doc_offsets` and `hashes`; the number of words."""
    n = 0
    doc_offsets[0] = 0
    for d in range(len(offsets) - 1):
        i, end = offsets[d], offsets[d + 1]
        while i < end:
            i, n_bytes, value = _fold_plain(data, i, end, buffer)
            is_plain = i == end or (data[i] < 128 and _ASCII[data[i]] == _END)
            if is_plain and (n_bytes > N_BYTES_MAX or not _is_split(specials, value)):
                if n_bytes:
                    hashes[n] = value
                    n += 1
                i += 1
                continue
            i, n_bytes = _fold_rest(data, offsets[d], i, end, chars, folds, buffer, n_bytes)
            n = _add_words(chars, specials, chunk, buffer, n_bytes, hashes, n)
        doc_offsets[d + 1] = n
    return n


@njit(cache=True, nogil=True, inline="always")
def _fold_plain(data: U8, start: int, end: int, buffer: U8) -> tuple[int, int, np.uint64]:
    """Fold the ASCII letters at `start` into the buffer: the byte after them, their number and hash."""
    value = np.uint64(0)
    i = start
    while i < end and data[i] < 128:
        letter = _ASCII[data[i]]
        if letter <= _DIGIT:
            break
        buffer[i - start] = letter
        value = extend_hash(value, letter)
        i += 1
    return i, i - start, value


@njit(cache=True, nogil=True, inline="always")
def _is_split(specials: Specials, value: np.uint64) -> bool:
    """Whether letters with this hash are a special case; the hash of none, 0, is not."""
    row = find_row(specials, value)
    return row >= 0 and specials.words[row] != 0


@njit(cache=True, nogil=True)
def _fold_rest(
    data: U8, doc_start: int, start: int, end: int, chars: Chars, folds: Folds, buffer: U8, n_bytes: int
) -> tuple[int, int]:
    """Fold up to the end of the chunk, behind the `n_bytes` that are in the buffer.

    Returns the byte after the character that ended it and the number of bytes in the buffer.
    """
    i, n = start, n_bytes
    while i < end:
        point, length = decode(data, i)
        flags = flags_of(chars, point)
        if flags & _ND:
            buffer[n] = _ZERO
            n += 1
            i = _skip_number(data, i, end, chars)
            continue
        if flags & _ENDS_CHUNK:
            return i + length, n
        if point == _SIGMA:
            is_final = _is_final(data, doc_start, i, end, chars)
            n = _put_char(buffer, n, _FINAL_SIGMA if is_final else _SMALL_SIGMA)
        elif flags & _FOLDS:
            n = _put_fold(buffer, n, point, folds)
        else:
            for k in range(i, i + length):
                buffer[n] = data[k]
                n += 1
        i += length
    return i, n


@njit(cache=True, nogil=True)
def _skip_digits(data: U8, start: int, end: int, chars: Chars) -> int:
    """The byte after the digits at `start`."""
    i = start
    while i < end:
        point, length = decode(data, i)
        if not flags_of(chars, point) & _ND:
            break
        i += length
    return i


@njit(cache=True, nogil=True)
def _skip_number(data: U8, start: int, end: int, chars: Chars) -> int:
    """The byte after the number at `start`: digits, and once a mark with digits behind it."""
    i = _skip_digits(data, start, end, chars)
    if i == end:
        return i
    point, length = decode(data, i)
    if point not in _NUMBER_MARKS:
        return i
    after = _skip_digits(data, i + length, end, chars)
    return after if after > i + length else i


@njit(cache=True, nogil=True)
def _put_char(buffer: U8, n: int, point: int | np.int64) -> int:
    """Append a code point of two or three UTF-8 bytes; the number of bytes after it."""
    if point < 0x800:
        buffer[n] = 0xC0 | (point >> 6)
        buffer[n + 1] = 0x80 | (point & 0x3F)
        return n + 2
    buffer[n] = 0xE0 | (point >> 12)
    buffer[n + 1] = 0x80 | ((point >> 6) & 0x3F)
    buffer[n + 2] = 0x80 | (point & 0x3F)
    return n + 3


@njit(cache=True, nogil=True)
def _put_fold(buffer: U8, n: int, point: np.int64, folds: Folds) -> int:
    """Append what a code point with FOLDS becomes; Hangul syllables as The Unicode Standard, 3.12, computes them."""
    if _HANGUL_FIRST <= point <= _HANGUL_LAST:
        syllable = point - _HANGUL_FIRST
        n = _put_char(buffer, n, 0x1100 + syllable // 588)
        n = _put_char(buffer, n, 0x1161 + syllable % 588 // 28)
        return _put_char(buffer, n, 0x11A7 + syllable % 28) if syllable % 28 else n
    entry = folds.entries[(np.int64(folds.blocks[point >> 8]) << 8) | (point & 255)]
    for k in range(folds.starts[entry], folds.starts[entry + 1]):
        buffer[n] = folds.data[k]
        n += 1
    return n


@njit(cache=True, nogil=True)
def _is_final(data: U8, doc_start: int, i: int, end: int, chars: Chars) -> bool:
    """Whether the capital sigma at byte i ends a word for `str.lower`: case-ignorable characters looked through, there
    is a cased character before and none behind."""
    before = i - 1
    is_cased = False
    while before >= doc_start:
        if data[before] & 0xC0 != 0x80:  # the first byte of a character
            flags = flags_of(chars, decode(data, before)[0])
            if not flags & _CASE_IGNORABLE:
                is_cased = flags & _CASED != 0
                break
        before -= 1
    if not is_cased:
        return False
    after = i + 2
    while after < end:
        point, length = decode(data, after)
        flags = flags_of(chars, point)
        if not flags & _CASE_IGNORABLE:
            return bool(flags & _CASED == 0)
        after += length
    return True


@njit(cache=True, nogil=True)
def _add_words(chars: Chars, specials: Specials, chunk: Chunk, buffer: U8, n_bytes: int, hashes: U64, n: int) -> int:
    """Add the words of the folded chunk buffer[:n_bytes]; the number of words after it."""
    start = 0
    while start < n_bytes:
        n_chars, end = fill_chunk(chars, chunk, buffer, start, n_bytes, 0)
        mark_words(chunk, specials, 0, n_chars)
        if has_phrase(chunk, specials, n_chars):
            merge_phrases(chunk, specials, n_chars)
        low = 0
        while low < n_chars:
            high = low + 1
            while high < n_chars and not chunk.starts[high]:
                high += 1
            hashes[n] = hash_part(chunk, specials, buffer, start, low, high)
            n += 1
            low = high
        start = end
    return n
