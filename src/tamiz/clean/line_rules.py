"""The line rules of C4 (Raffel et al. 2020, arXiv:1910.10683, section 2.2) as datatrove 0.10.1 applies them.

Every line of `str.splitlines` is stripped and cut into words by white space; then, in this order:
1. dropped when a word is longer than `line_word_chars_max` code points;
2. citations are taken out: `[edit]`, `[citation needed]`, and square brackets around nothing or decimal digits of any
   script;
3. dropped, if `require_terminal_punctuation`, unless it now ends with one of `. ? ! " '` and not with `...`;
4. dropped when it had fewer than `line_words_min` words (before step 2);
5. counted when it has "lorem ipsum";
6. dropped when it has "javascript";
7. counted when it has `{`;
8. dropped when it has one of six phrases of cookie banners and legal notices.
Phrases are looked for in the lower-cased line, within words too. The text becomes the remaining lines joined by a line
feed, stripped. datatrove gives a document up at steps 5 and 7; here the counts let a rule on the document decide, and
for every document without such lines the text is byte for byte datatrove's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from tamiz.clean.phrases import count_citation_bytes, find_phrases
from tamiz.schema import I32, I64, U8

DROPS = ("long_word", "terminal_punctuation", "too_few_words", "javascript", "policy")
"""Why a line is dropped, in the order of the rules: the columns of `Rewritten.n_dropped_lines`."""

_LONG_WORD, _TERMINAL, _FEW_WORDS, _JAVASCRIPT, _POLICY = range(len(DROPS))


@dataclass(frozen=True)
class LineRules:
    """Parameters of the rules; the defaults are the published ones. FineWeb does not require terminal punctuation."""

    require_terminal_punctuation: bool = True
    line_words_min: int = 3
    line_word_chars_max: int = 1000


class Rewritten(NamedTuple):
    """The documents after the line rules: offsets int64[n + 1] from 0, data uint8[].

    n_lorem_ipsum_lines, n_curly_bracket_lines int32[n] count the lines that step 5 and 7 met. n_dropped_lines
    int32[n, 5] counts the dropped lines that were not blank, by DROPS.

    The lines kept of document d are line_offsets[d] : line_offsets[d + 1] (int64[n + 1]); line i was, stripped, the
    bytes [line_starts[i], line_stops[i]) of the text given (int64[]). is_cut bool[n]: the new text is not just these
    lines joined, because something was taken out.
    """

    offsets: I64
    data: U8
    n_lorem_ipsum_lines: I32
    n_curly_bracket_lines: I32
    n_dropped_lines: I32
    line_offsets: I64
    line_starts: I64
    line_stops: I64
    is_cut: npt.NDArray[np.bool_]


def rewrite_lines(offsets: I64, data: U8, rules: LineRules) -> Rewritten:
    """Apply the line rules to every document of (offsets int64[n + 1], data uint8[]): valid UTF-8, no nulls."""
    n_docs = len(offsets) - 1
    n_bytes = int(offsets[-1] - offsets[0])
    new = Rewritten(
        np.zeros(n_docs + 1, dtype=np.int64),
        np.empty(n_bytes, dtype=np.uint8),  # no line grows, and a break was at least one byte
        np.zeros(n_docs, dtype=np.int32),
        np.zeros(n_docs, dtype=np.int32),
        np.zeros((n_docs, len(DROPS)), dtype=np.int32),
        np.zeros(n_docs + 1, dtype=np.int64),
        np.empty(n_bytes, dtype=np.int64),  # a line has a byte at least; pages never touched are never backed
        np.empty(n_bytes, dtype=np.int64),
        np.zeros(n_docs, dtype=np.bool_),
    )
    size = _rewrite(
        offsets, data, rules.require_terminal_punctuation, rules.line_words_min, rules.line_word_chars_max, new
    )
    n_lines = new.line_offsets[-1]
    rewritten = new._replace(
        data=new.data[:size].copy(), line_starts=new.line_starts[:n_lines], line_stops=new.line_stops[:n_lines]
    )
    for buffer in (rewritten.offsets, rewritten.data):
        buffer.flags.writeable = False  # as Arrow's buffers are: a kernel is compiled once for both
    return rewritten


_SPACE, _BREAK, _LEAD = 1, 2, 4  # classes of bytes: a byte of _LEAD may begin white space outside ASCII


def _make_classes() -> U8:
    """Class bits of every byte, uint8[256]."""
    classes: U8 = np.zeros(256, dtype=np.uint8)
    for byte in b"\t\n\v\f\r\x1c\x1d\x1e\x1f ":
        classes[byte] = _SPACE
    for byte in b"\n\v\f\r\x1c\x1d\x1e":
        classes[byte] |= _BREAK
    for byte in b"\xc2\xe1\xe2\xe3":
        classes[byte] |= _LEAD
    return classes


_CLASSES = _make_classes()


@numba.njit(cache=True, nogil=True)
def _rewrite(
    offsets: I64, data: U8, require_terminal: bool, words_min: int, word_chars_max: int, new: Rewritten
) -> int:
    """Fill `new`; return how many bytes of new.data are in use."""
    out_doc = 0
    n_lines = 0
    for doc in range(len(offsets) - 1):
        i = offsets[doc]
        end = offsets[doc + 1]
        out = out_doc
        n_kept = 0
        while i < end:
            start, stop, i, n_words, max_chars, has_bracket = _scan_line(data, i, end)
            line = out + (n_kept > 0)
            drop = -1
            if max_chars > word_chars_max:
                drop = _LONG_WORD
            else:
                line_end = _copy_line(data, start, stop, has_bracket, new.data, line)
                if require_terminal and not _ends_terminal(new.data, line, line_end):
                    drop = _TERMINAL
                elif n_words < words_min:
                    drop = _FEW_WORDS
                else:
                    drop = _judge_phrases(new, doc, line, line_end)
            if drop >= 0:
                new.n_dropped_lines[doc, drop] += n_words > 0
                continue
            if n_kept:
                new.data[out] = 10
            n_kept += 1
            out = line_end
            new.line_starts[n_lines] = start
            new.line_stops[n_lines] = stop
            new.is_cut[doc] |= line_end - line < stop - start
            n_lines += 1
        out_doc = _strip_document(new.data, out_doc, out)
        new.is_cut[doc] |= out_doc < out
        new.offsets[doc + 1] = out_doc
        new.line_offsets[doc + 1] = n_lines
    return out_doc


@numba.njit(cache=True, nogil=True, inline="always")
def _space_bytes(data: U8, i: int) -> tuple[int, bool]:
    """Bytes of the white space outside ASCII that starts at byte i (0 if none), and whether it breaks a line."""
    if data[i] == 0xC2:  # 85, a0
        return (2 if data[i + 1] == 0x85 or data[i + 1] == 0xA0 else 0), data[i + 1] == 0x85
    if data[i] == 0xE2:
        if data[i + 1] == 0x80:  # 2000..200a, 2028, 2029 and 202f
            last = data[i + 2]
            is_break = last == 0xA8 or last == 0xA9
            return (3 if last <= 0x8A or is_break or last == 0xAF else 0), is_break
        return (3 if data[i + 1] == 0x81 and data[i + 2] == 0x9F else 0), False  # 205f
    if data[i] == 0xE1:  # 1680
        return (3 if data[i + 1] == 0x9A and data[i + 2] == 0x80 else 0), False
    return (3 if data[i + 1] == 0x80 and data[i + 2] == 0x80 else 0), False  # 3000


@numba.njit(cache=True, nogil=True)
def _scan_line(data: U8, i: int, end: int) -> tuple[int, int, int, int, int, bool]:
    """The line that starts at byte i: (start, stop) of what is left stripped, where the next line starts, its words,
    the code points of its longest word, whether it has `[`."""
    start = stop = i
    n_words = 0
    chars = 0
    max_chars = 0
    has_bracket = False
    while i < end:
        byte = data[i]
        kind = _CLASSES[byte]
        size = 0
        is_break = False
        if kind & _SPACE:
            size = 1
            is_break = kind & _BREAK != 0
        elif kind & _LEAD:
            size, is_break = _space_bytes(data, i)
        if size:
            if chars:
                max_chars = max(max_chars, chars)
                stop = i
                chars = 0
            i += size
            if is_break:
                i += byte == 13 and i < end and data[i] == 10
                return start, stop, i, n_words, max_chars, has_bracket
            continue
        if chars == 0:
            if n_words == 0:
                start = i
            n_words += 1
        chars += byte & 0xC0 != 0x80
        has_bracket |= byte == 91
        i += 1
    if chars:
        max_chars = max(max_chars, chars)
        stop = end
    return start, stop, end, n_words, max_chars, has_bracket


@numba.njit(cache=True, nogil=True)
def _copy_line(data: U8, start: int, stop: int, has_bracket: bool, new: U8, out: int) -> int:
    """Copy bytes [start, stop) to new[out:] without the citations; return where the copy ends."""
    if not has_bracket:
        new[out : out + stop - start] = data[start:stop]
        return out + stop - start
    i = start
    while i < stop:
        if data[i] == 91:
            citation = count_citation_bytes(data, i, stop)
            if citation:
                i += citation
                continue
        new[out] = data[i]
        out += 1
        i += 1
    return out


@numba.njit(cache=True, nogil=True)
def _ends_terminal(new: U8, start: int, end: int) -> bool:
    """Whether the line ends with one of `. ? ! " '` but not with three full stops."""
    if end == start:
        return False
    if new[end - 1] == 46:
        return not (end - start >= 3 and new[end - 2] == 46 and new[end - 3] == 46)
    return new[end - 1] in (63, 33, 34, 39)


@numba.njit(cache=True, nogil=True)
def _judge_phrases(new: Rewritten, doc: int, start: int, end: int) -> int:
    """Steps 5 to 8 on the line new.data[start:end]: count, and return the column of DROPS or -1 to keep the line."""
    has_lorem_ipsum, has_javascript, has_curly_bracket, has_policy = find_phrases(new.data, start, end)
    new.n_lorem_ipsum_lines[doc] += has_lorem_ipsum
    if has_javascript:
        return _JAVASCRIPT
    new.n_curly_bracket_lines[doc] += has_curly_bracket
    return _POLICY if has_policy else -1


@numba.njit(cache=True, nogil=True)
def _strip_document(new: U8, start: int, end: int) -> int:
    """Strip white space off new[start:end] in place; return the new end.

    Its lines are stripped, so only what a citation left bare at either end, or an empty line, can be white space.
    """
    first = start
    while first < end:
        kind = _CLASSES[new[first]]
        size = 1 if kind & _SPACE else _space_bytes(new, first)[0] if kind & _LEAD else 0
        if size == 0:
            break
        first += size
    if first == end:
        return start
    while True:
        last = end - 1
        while new[last] & 0xC0 == 0x80:
            last -= 1
        kind = _CLASSES[new[last]]
        if not (kind & _SPACE or (kind & _LEAD and _space_bytes(new, last)[0])):
            break
        end = last
    if first > start:
        for k in range(end - first):
            new[start + k] = new[first + k]
    return start + end - first
