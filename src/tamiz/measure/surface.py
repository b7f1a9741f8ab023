"""Surface metrics of Gopher's quality rules (Rae et al. 2021, arXiv:2112.11446, appendix A1.1) as datatrove 0.10.1
measures them.

Words are all words of the document, punctuation marks included (`n_all_words`); only `n_words` and `mean_word_chars`
leave out those made of symbols. `#` and ellipses (`...`, not overlapping, and `…`) are counted wherever they stand.
Lines are those of `str.splitlines`, blank ones included.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tamiz.measure.chars import LINE_BREAK, Chars, decode, flags_of, load_chars
from tamiz.measure.pieces import LINE_FEED, find_last_char, skip_space, skip_space_back
from tamiz.measure.words import HAS_ALPHA, IS_SYMBOL, STOP_SHIFT, Words
from tamiz.schema import F64, I32, I64, U8


class Surface(NamedTuple):
    """One value per document; a fraction or mean over nothing is NaN.

    n_all_words int32: all words; n_words int32: without symbol words. float64: mean_word_chars, code points per word of
    n_words; hashes_per_word, ellipses_per_word, frac_alpha_words (words with at least one letter), of n_all_words;
    frac_bullet_lines (lines that begin with `•` or `-`, white space aside), frac_ellipsis_lines (that end with an
    ellipsis), of all lines. n_stop_words int32: how many of the eight stop words occur at least once.
    """

    n_all_words: I32
    n_words: I32
    mean_word_chars: F64
    hashes_per_word: F64
    ellipses_per_word: F64
    frac_bullet_lines: F64
    frac_ellipsis_lines: F64
    frac_alpha_words: F64
    n_stop_words: I32


_HASH, _FULL_STOP, _HYPHEN, _CARRIAGE_RETURN = ord("#"), ord("."), ord("-"), ord("\r")
_ELLIPSIS, _BULLET = 0x2026, 0x2022

# Bytes at which something may have to be counted: `#`, `.`, the ASCII line breaks, and those that lead the others.
_IS_NOTABLE: U8 = np.zeros(256, dtype=np.uint8)
_IS_NOTABLE[list(b"#.\n\v\f\r\x1c\x1d\x1e\xc2\xe2")] = 1


def measure_surface(offsets: I64, data: U8, words: Words) -> Surface:
    """Surface metrics of every document of (offsets int64[n + 1], data uint8[]) with its words."""
    n_docs = len(offsets) - 1
    n_all_words, n_words, n_stop_words = np.zeros((3, n_docs), dtype=np.int32)
    mean_word_chars, hashes, ellipses, bullets, trailing, alpha = np.full((6, n_docs), np.nan)
    surface = Surface(n_all_words, n_words, mean_word_chars, hashes, ellipses, bullets, trailing, alpha, n_stop_words)
    _measure(offsets, data, words, load_chars(), surface)
    return surface


@numba.njit(cache=True, nogil=True)
def _measure(offsets: I64, data: U8, words: Words, chars: Chars, surface: Surface) -> None:
    for doc in range(len(offsets) - 1):
        n_hashes, n_ellipses, n_lines, n_bullets, n_trailing = _scan_text(data, offsets[doc], offsets[doc + 1], chars)
        if n_lines:
            surface.frac_bullet_lines[doc] = n_bullets / n_lines
            surface.frac_ellipsis_lines[doc] = n_trailing / n_lines
        n_all, n_words, n_chars, n_alpha, n_stop_words = _scan_words(
            words, words.doc_offsets[doc], words.doc_offsets[doc + 1]
        )
        surface.n_all_words[doc] = n_all
        surface.n_words[doc] = n_words
        surface.n_stop_words[doc] = n_stop_words
        if n_words:
            surface.mean_word_chars[doc] = n_chars / n_words
        if n_all:
            surface.hashes_per_word[doc] = n_hashes / n_all
            surface.ellipses_per_word[doc] = n_ellipses / n_all
            surface.frac_alpha_words[doc] = n_alpha / n_all


@numba.njit(cache=True, nogil=True)
def _scan_words(words: Words, first: int, last: int) -> tuple[int, int, int, int, int]:
    """Of the words [first, last): all, those that are not symbols and their code points, those with a letter, stop
    words."""
    n_words = 0
    n_chars = 0
    n_alpha = 0
    stop_words = np.int64(0)  # bit k: the stop word with code k occurs
    for k in range(first, last):
        flags = np.int64(words.flags[k])
        if not flags & IS_SYMBOL:
            n_words += 1
            n_chars += words.n_chars[k]
        n_alpha += flags & HAS_ALPHA != 0
        stop_words |= np.int64(1) << (flags >> STOP_SHIFT)
    n_stop_words = 0
    stop_words >>= 1  # code 0 is no stop word
    while stop_words:
        n_stop_words += 1
        stop_words &= stop_words - 1
    return last - first, n_words, n_chars, n_alpha, n_stop_words


@numba.njit(cache=True, nogil=True)
def _scan_text(data: U8, start: int, end: int, chars: Chars) -> tuple[int, int, int, int, int]:
    """Of the text: `#`, ellipses, lines, lines that begin with a bullet, lines that end with an ellipsis."""
    n_hashes = 0
    n_ellipses = 0
    n_lines = 0
    n_bullets = 0
    n_trailing = 0
    line = start
    i = start
    while i < end:
        if not _IS_NOTABLE[data[i]]:
            i += 1
            continue
        cp, size = decode(data, i)
        if cp == _HASH:
            n_hashes += 1
        elif cp == _FULL_STOP:
            if i + 2 < end and data[i + 1] == _FULL_STOP and data[i + 2] == _FULL_STOP:
                n_ellipses += 1
                size = 3
        elif cp == _ELLIPSIS:
            n_ellipses += 1
        elif flags_of(chars, cp) & LINE_BREAK:
            is_bullet, is_trailing = _judge_line(data, line, i, chars)
            n_lines += 1
            n_bullets += is_bullet
            n_trailing += is_trailing
            if cp == _CARRIAGE_RETURN and i + 1 < end and data[i + 1] == LINE_FEED:
                size = 2
            line = i + size
        i += size
    if line < end:
        is_bullet, is_trailing = _judge_line(data, line, end, chars)
        n_lines += 1
        n_bullets += is_bullet
        n_trailing += is_trailing
    return n_hashes, n_ellipses, n_lines, n_bullets, n_trailing


@numba.njit(cache=True, nogil=True)
def _judge_line(data: U8, start: int, end: int, chars: Chars) -> tuple[bool, bool]:
    """Whether the line begins with a bullet, and ends with an ellipsis, white space aside."""
    start = skip_space(chars, data, start, end)
    end = skip_space_back(chars, data, start, end)
    if start == end:
        return False, False
    first = decode(data, start)[0]
    last = decode(data, find_last_char(data, end))[0]
    is_trailing = last == _ELLIPSIS
    if last == _FULL_STOP and end - start >= 3:
        is_trailing = data[end - 2] == _FULL_STOP and data[end - 3] == _FULL_STOP
    return first in (_BULLET, _HYPHEN), is_trailing
