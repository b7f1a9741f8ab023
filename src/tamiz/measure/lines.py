"""Line metrics of FineWeb's own filter (Penedo et al. 2024, arXiv:2406.17557, section 3.6) as datatrove 0.10.1 measures
them.

Text lines are the pieces between line feeds that are not blank, taken as they stand (not stripped). In a recipe with
line rules they are those of the rewritten text.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tamiz.measure.chars import TERMINAL, Chars, decode, flags_of, load_chars
from tamiz.measure.pieces import HASH_START, count_line_feeds, find_last_char, hash_line, skip_space
from tamiz.measure.seen import Seen, choose_shift, find_slot, make_seen
from tamiz.schema import F64, I32, I64, U8

_SHORT_CHARS = 30  # the published value; part of what the metric means


class Lines(NamedTuple):
    """One value per document; a fraction over nothing is NaN.

    n_text_lines int32. float64: frac_terminal_lines (whose last character is one of 159 terminal marks) and
    frac_short_lines (of at most 30 code points), of the text lines; frac_dup_text_line_chars, code points of the text
    lines equal to an earlier one, of those of the text without line feeds; newlines_per_word, line feeds (those of
    blank lines too) per word, punctuation marks included.
    """

    n_text_lines: I32
    frac_terminal_lines: F64
    frac_short_lines: F64
    frac_dup_text_line_chars: F64
    newlines_per_word: F64


def measure_lines(offsets: I64, data: U8, n_all_words: I32) -> Lines:
    """Line metrics of every document of (offsets int64[n + 1], data uint8[]); n_all_words int32[n] of the same text."""
    n_docs = len(offsets) - 1
    lines = Lines(np.zeros(n_docs, dtype=np.int32), *(np.full(n_docs, np.nan) for _ in range(4)))
    n_newlines = count_line_feeds(offsets, data)
    seen = make_seen(1 + int(n_newlines.max(initial=0)))
    _measure(offsets, data, n_newlines, n_all_words, load_chars(), seen, lines)
    return lines


@numba.njit(cache=True, nogil=True)
def _measure(offsets: I64, data: U8, n_newlines: I64, n_all_words: I32, chars: Chars, seen: Seen, lines: Lines) -> None:
    base = 1
    for doc in range(len(n_newlines)):
        if n_all_words[doc]:
            lines.newlines_per_word[doc] = n_newlines[doc] / n_all_words[doc]
        n_lines, n_terminal, n_short, dup_chars, total = _scan_lines(
            data, offsets[doc], offsets[doc + 1], chars, seen, base, choose_shift(1 + n_newlines[doc])
        )
        base += n_lines
        lines.n_text_lines[doc] = n_lines
        if n_lines:
            lines.frac_terminal_lines[doc] = n_terminal / n_lines
            lines.frac_short_lines[doc] = n_short / n_lines
            lines.frac_dup_text_line_chars[doc] = dup_chars / total


@numba.njit(cache=True, nogil=True)
def _scan_lines(
    data: U8, start: int, end: int, chars: Chars, seen: Seen, base: int, shift: np.uint64
) -> tuple[int, int, int, int, int]:
    """Text lines, those with a terminal mark, short ones, code points of repeated ones, and of the text without line
    feeds."""
    n_lines = 0
    n_terminal = 0
    n_short = 0
    dup_chars = 0
    total = 0
    while start < end:
        stop, n_chars, key = hash_line(data, start, end, HASH_START)
        total += n_chars
        if skip_space(chars, data, start, stop) < stop:
            last = decode(data, find_last_char(data, stop))[0]
            n_terminal += flags_of(chars, last) & TERMINAL != 0
            n_short += n_chars <= _SHORT_CHARS
            slot = find_slot(seen, key, base, shift)
            if seen.births[slot] >= base:
                dup_chars += n_chars
            else:
                seen.keys[slot] = key
                seen.births[slot] = base + n_lines
            n_lines += 1
        start = stop + 1
    return n_lines, n_terminal, n_short, dup_chars, total
