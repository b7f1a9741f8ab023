"""Repetition metrics of Gopher (Rae et al. 2021, arXiv:2112.11446, table A1) as datatrove 0.10.1 measures them.

Lengths are code points, and every denominator is the length of the whole text, white space included.

- Paragraphs are the pieces of the stripped text between runs of two or more line feeds, lines the pieces of the
  unstripped text between runs of one or more (a line feed at either end makes an empty line there). An item equal to an
  earlier one is a duplicate: `frac_dup_*` counts duplicates, `frac_dup_*_chars` their lengths.
- `frac_top_{n}gram_chars`: count times length (with single spaces between the words) of the most frequent word n-gram;
  the first to appear among equals, even if it appears once.
- `frac_dup_{n}gram_chars`: read from left to right, an n-gram whose words put together without spaces were seen before
  adds that length and is jumped over; any other is remembered, and the reading goes on at the next word.

A text of fewer than n words has no n-gram, and the empty text nothing at all: NaN.
"""

from __future__ import annotations

import numba
import numpy as np

from tamiz.measure.chars import Chars, load_chars
from tamiz.measure.pieces import (
    HASH_START,
    LINE_FEED,
    count_line_feeds,
    hash_byte,
    hash_line,
    skip_space,
    skip_space_back,
)
from tamiz.measure.seen import Seen, choose_shift, find_slot, make_seen
from tamiz.measure.words import HASH_BASE, Words
from tamiz.schema import F64, I64, U8, U64

_TOP_NGRAMS = (2, 3, 4)
_DUP_NGRAMS = (5, 6, 7, 8, 9, 10)
_FRACTIONS = (  # that of n-grams is the (n + 2)th
    "frac_dup_paragraphs",
    "frac_dup_paragraph_chars",
    "frac_dup_lines",
    "frac_dup_line_chars",
    *(f"frac_top_{n}gram_chars" for n in _TOP_NGRAMS),
    *(f"frac_dup_{n}gram_chars" for n in _DUP_NGRAMS),
)

_UNBASE = np.uint64(pow(int(HASH_BASE), -1, 1 << 64))
_N_POWERS = 64  # words of more bytes are rare
_POWERS: U64 = np.array([pow(int(HASH_BASE), k, 1 << 64) for k in range(_N_POWERS)], dtype=np.uint64)
_UNPOWERS: U64 = np.array([pow(int(_UNBASE), k, 1 << 64) for k in range(_N_POWERS)], dtype=np.uint64)
_NGRAM_BASE = np.uint64(0xD6E8FEB86659FD93)  # any odd number unrelated to HASH_BASE


def measure_repetition(offsets: I64, data: U8, words: Words) -> dict[str, F64 | I64]:
    """Repetition metrics of every document of (offsets int64[n + 1], data uint8[]) with its words.

    Returns n_chars int64[n] (code points) and the 13 fractions float64[n] by name, NaN where there is nothing to
    measure.
    """
    n_docs = len(offsets) - 1
    n_newlines = count_line_feeds(offsets, data)
    n_items_max = max(int(np.diff(words.doc_offsets).max(initial=0)), 1 + int(n_newlines.max(initial=0)))
    n_chars: I64 = np.zeros(n_docs, dtype=np.int64)
    fractions: F64 = np.full((len(_FRACTIONS), n_docs), np.nan)
    _measure(offsets, data, words, n_newlines, load_chars(), make_seen(n_items_max), n_chars, fractions)
    return {"n_chars": n_chars, **dict(zip(_FRACTIONS, fractions, strict=True))}


@numba.njit(cache=True, nogil=True)
def _measure(
    offsets: I64, data: U8, words: Words, n_newlines: I64, chars: Chars, seen: Seen, n_chars: I64, fractions: F64
) -> None:
    prefixes = np.empty(len(seen.keys), dtype=np.uint64)
    powers = np.empty(len(seen.keys), dtype=np.uint64)
    base = 1
    for doc in range(len(offsets) - 1):
        start = offsets[doc]
        end = offsets[doc + 1]
        if start == end:
            continue
        total = 0
        for i in range(start, end):
            total += data[i] & 0xC0 != 0x80
        n_chars[doc] = total
        first = skip_space(chars, data, start, end)
        last = skip_space_back(chars, data, first, end)
        shift = choose_shift(1 + n_newlines[doc])
        n_paragraphs, n_dups, dup_chars = _find_dup_pieces(data, first, last, 2, seen, base, shift)
        base += n_paragraphs
        fractions[0, doc] = n_dups / n_paragraphs
        fractions[1, doc] = dup_chars / total
        n_lines, n_dups, dup_chars = _find_dup_pieces(data, start, end, 1, seen, base, shift)
        base += n_lines
        fractions[2, doc] = n_dups / n_lines
        fractions[3, doc] = dup_chars / total
        word = words.doc_offsets[doc]
        n_words = words.doc_offsets[doc + 1] - word
        _sum_prefixes(words, word, n_words, prefixes, powers)
        for n in range(2, min(n_words, 10) + 1):
            if n <= 4:
                ngram_chars = _find_top_ngram(words, word, n_words, n, seen, base)
            else:
                ngram_chars = _find_dup_ngrams(words, word, n_words, n, prefixes, powers, seen, base)
            base += n_words
            fractions[n + 2, doc] = ngram_chars / total


@numba.njit(cache=True, nogil=True)
def _find_dup_pieces(
    data: U8, start: int, end: int, n_breaks_min: int, seen: Seen, base: int, shift: np.uint64
) -> tuple[int, int, int]:
    """Pieces of [start, end) between runs of at least `n_breaks_min` line feeds: all, duplicates, their code points."""
    n_pieces = 0
    n_dups = 0
    dup_chars = 0
    key = HASH_START
    chars = 0
    while True:
        start, n_chars, key = hash_line(data, start, end, key)
        chars += n_chars
        run = start
        while start < end and data[start] == LINE_FEED:
            start += 1
        run = start - run
        if 0 < run < n_breaks_min:
            chars += run
            for _ in range(run):
                key = hash_byte(key, LINE_FEED)
            continue
        slot = find_slot(seen, key, base, shift)
        if seen.births[slot] >= base:
            n_dups += 1
            dup_chars += chars
        else:
            seen.keys[slot] = key
            seen.births[slot] = base + n_pieces
        n_pieces += 1
        if run == 0:
            return n_pieces, n_dups, dup_chars
        key = HASH_START
        chars = 0


@numba.njit(cache=True, nogil=True)
def _find_top_ngram(words: Words, word: int, n_words: int, n: int, seen: Seen, base: int) -> int:
    """Count times length of the most frequent n-gram (the first to appear among equals)."""
    n_ngrams = n_words - n + 1
    shift = choose_shift(n_ngrams)
    top_count = 0
    top_birth = base
    for i in range(n_ngrams):
        key = words.hashes[word + i]
        for k in range(1, n):
            key = key * _NGRAM_BASE + words.hashes[word + i + k]
        slot = find_slot(seen, key, base, shift)
        if seen.births[slot] < base:
            seen.keys[slot] = key
            seen.births[slot] = base + i
            seen.counts[slot] = 0
        count = seen.counts[slot] + 1
        seen.counts[slot] = count
        if count > top_count or (count == top_count and seen.births[slot] < top_birth):
            top_count = count
            top_birth = seen.births[slot]
    first = word + top_birth - base
    chars = n - 1
    for k in range(first, first + n):
        chars += words.n_chars[k]
    return top_count * chars


@numba.njit(cache=True, nogil=True)
def _raise(base: np.uint64, exponent: int) -> np.uint64:
    """base ** exponent modulo 2^64."""
    power = np.uint64(1)
    while exponent:
        if exponent & 1:
            power *= base
        base *= base
        exponent >>= 1
    return power


@numba.njit(cache=True, nogil=True)
def _sum_prefixes(words: Words, word: int, n_words: int, prefixes: U64, powers: U64) -> None:
    """Prepare the hash of any run of words put together.

    With L[i] the bytes before word i, powers[i] = HASH_BASE^L[i] and prefixes[i] = sum of H(word k) * HASH_BASE^-L[k+1]
    over k < i, so that words i..j-1 together hash to (prefixes[j] - prefixes[i]) * powers[j].
    """
    prefix = np.uint64(0)
    power = np.uint64(1)
    unpower = np.uint64(1)
    prefixes[0] = prefix
    powers[0] = power
    for i in range(n_words):
        length = words.lengths[word + i]
        if length < _N_POWERS:
            power *= _POWERS[length]
            unpower *= _UNPOWERS[length]
        else:
            power *= _raise(HASH_BASE, length)
            unpower *= _raise(_UNBASE, length)
        prefix += words.hashes[word + i] * unpower
        prefixes[i + 1] = prefix
        powers[i + 1] = power


@numba.njit(cache=True, nogil=True)
def _find_dup_ngrams(
    words: Words, word: int, n_words: int, n: int, prefixes: U64, powers: U64, seen: Seen, base: int
) -> int:
    """Code points of the n-grams seen before, each jumped over."""
    shift = choose_shift(n_words - n + 1)
    dup_chars = 0
    i = 0
    while i <= n_words - n:
        key = (prefixes[i + n] - prefixes[i]) * powers[i + n]
        slot = find_slot(seen, key, base, shift)
        if seen.births[slot] >= base:
            for k in range(word + i, word + i + n):
                dup_chars += words.n_chars[k]
            i += n
        else:
            seen.keys[slot] = key
            seen.births[slot] = base + i
            i += 1
    return dup_chars
