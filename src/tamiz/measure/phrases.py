"""Special cases that affix rules took apart, put together again (spaCy 3.8, `Tokenizer._apply_special_cases`).

A phrase is a special case in which an affix is found, as the words that affix rules alone make of it: "vs." is "vs" and
".", ":)" is ":" and ")". Wherever exactly those words follow one another ("foo-vs."), the special case takes their
place; the longest first, then the leftmost, never two over the same words (`Tokenizer._filter_special_spans`).

spaCy looks at the words of the whole text. A special case has no blank in it, so one that spans a blank changes
nothing, but it still stands in the way of a phrase it overlaps: in ": (=x" the words ": (" keep "(=" from being put
together. Hence a chunk with a phrase, which is rare, is decided together with the chunks around it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from tamiz.measure import chars as classes
from tamiz.measure.affixes import (
    N_CHUNK_CHARS_MAX,
    Chunk,
    fill_chunk,
    find_infix,
    find_part,
    find_prefix,
    find_suffix,
    make_chunk,
)
from tamiz.measure.chars import Chars, decode, flags_of, load_chars
from tamiz.measure.chunks import mark_special, mark_words
from tamiz.measure.exceptions import list_after_digit, list_exceptions
from tamiz.measure.specials import N_BYTES_MAX, Specials, make_specials
from tamiz.schema import I64, U8, U64

_ONE = np.uint64(1)
_SPACE, _BLANK = classes.SPACE, ord(" ")
_AT_BLANK = 2  # in Chunk.starts: a word that starts a chunk, after a blank


@njit(cache=True, nogil=True)
def match_phrases(chunk: Chunk, specials: Specials, n: int, first: int) -> tuple[np.uint64, bool]:
    """The phrases that start with the word at `first`: bit k is set when its next k words are one.

    And whether one of them has other words than its special case ("it", "'s" has the same).
    """
    words, seen, matches, has_other = _ONE, 1, np.uint64(0), False
    for i in range(first + 1, n + 1):
        n_bytes = chunk.offsets[i] - chunk.offsets[first]
        if n_bytes > N_BYTES_MAX:
            break
        if i < n and not chunk.starts[i]:
            continue
        row = find_part(chunk, specials, first, i)
        if row >= 0 and specials.phrase[row] == words:
            matches |= _ONE << np.uint64(seen)
            has_other = has_other or specials.words[row] != words
        words |= _ONE << np.uint64(n_bytes)
        seen += 1
    return matches, has_other


@njit(cache=True, nogil=True)
def has_phrase(chunk: Chunk, specials: Specials, n: int) -> bool:
    """Whether merging phrases would change the words of the n characters."""
    for first in range(n):  # noqa: SIM110 (numba has no any() of a generator)
        if chunk.starts[first] and match_phrases(chunk, specials, n, first)[1]:
            return True
    return False


@njit(cache=True, nogil=True)
def fill_context(
    chars: Chars, specials: Specials, chunk: Chunk, data: U8, doc_start: int, doc_end: int, start: int, end: int
) -> tuple[int, int]:
    """Fill the scratch with the chunk data[start:end] and its neighbours, as far as a phrase could reach.

    A neighbour is a chunk one blank away. Returns the chunk's first character in the scratch and the number of all.
    """
    left = start
    while start - left < N_BYTES_MAX and left >= doc_start + 2 and data[left - 1] == _BLANK:
        before = find_chunk_start(chars, data, doc_start, left - 1)
        if before == left - 1:
            break
        left = before
    if end - left > N_CHUNK_CHARS_MAX // 2:
        left = start
    first, n, i = 0, 0, left
    while True:
        low = n
        n, i = fill_chunk(chars, chunk, data, i, doc_end, low)
        if n == low:
            break
        mark_words(chunk, specials, low, n)
        chunk.starts[low] = _AT_BLANK
        if i == end:
            first = low
        is_far = i - end > N_BYTES_MAX or n > N_CHUNK_CHARS_MAX // 2
        if is_far or i == doc_end or data[i] != _BLANK:
            break
        i += 1
    return first, n


@njit(cache=True, nogil=True)
def find_chunk_start(chars: Chars, data: U8, doc_start: int, end: int) -> int:
    """The first byte of the chunk that ends before byte `end`; `end` when whitespace is there."""
    start = end
    i = end - 1
    while i >= doc_start:
        if data[i] & 0xC0 != 0x80:  # the first byte of a character
            if flags_of(chars, decode(data, i)[0]) & _SPACE:
                break
            start = i
        i -= 1
    return start


@njit(cache=True, nogil=True)
def merge_phrases(chunk: Chunk, specials: Specials, n: int) -> None:
    """Replace the words of each phrase among the n characters by those of its special case.

    A match counts as covering its words even when it loses to a longer one, or spans a blank; hence `taken`. Matches
    are found among the words as they were; hence the replacements come last (`taken` above 1 where one starts).
    """
    of_any = np.uint64(0)
    for i in range(n):
        chunk.taken[i] = 0
        chunk.matches[i] = match_phrases(chunk, specials, n, i)[0] if chunk.starts[i] else 0
        of_any |= chunk.matches[i]
    for n_words in range(N_BYTES_MAX, 0, -1):
        bit = _ONE << np.uint64(n_words)
        if not of_any & bit:
            continue
        for i in range(n):
            if chunk.matches[i] & bit:
                take_phrase(chunk, n, i, n_words)
    i = 0
    while i < n:
        end = i + 1
        if chunk.taken[i] > 1:
            end = find_words_end(chunk, n, i, np.int64(chunk.taken[i]) - 1)
            mark_special(chunk, specials.words[find_part(chunk, specials, i, end)], i, end)
        i = end


@njit(cache=True, nogil=True)
def find_words_end(chunk: Chunk, n: int, first: int, n_words: int | np.int64) -> int:
    """The end of the `n_words` words from `first` on."""
    i, seen = first + 1, 1
    while i < n and (seen < n_words or not chunk.starts[i]):
        if chunk.starts[i]:
            seen += 1
        i += 1
    return i


@njit(cache=True, nogil=True)
def take_phrase(chunk: Chunk, n: int, first: int, n_words: int) -> None:
    """Cover the words of a match, and accept it when its first and last word were free and no blank is in it."""
    end = find_words_end(chunk, n, first, n_words)
    last = end - 1
    while not chunk.starts[last]:
        last -= 1
    is_free = not chunk.taken[first] and not chunk.taken[last]
    for k in range(first, end):
        is_free = is_free and (k == first or chunk.starts[k] != _AT_BLANK)
        chunk.taken[k] = max(chunk.taken[k], 1)
    if is_free:
        chunk.taken[first] = 1 + n_words


@njit(cache=True, nogil=True)
def fill_phrases(chars: Chars, specials: Specials, chunk: Chunk, starts: I64, data: U8, phrase: U64) -> None:
    """For the texts data[starts[k] : starts[k + 1]], the words that affix rules alone make of each, as a bit per byte.

    `specials` must have no special cases yet. A text in which no affix is found is no phrase: 0.
    """
    for k in range(len(starts) - 1):
        n, _ = fill_chunk(chars, chunk, data, starts[k], starts[k + 1], 0)
        has_affix = find_prefix(chunk, 0, n) > 0 or find_suffix(chunk, specials, 0, n) > 0
        for i in range(n):
            has_affix = has_affix or find_infix(chunk, 0, n, i) > 0
        if has_affix:
            mark_words(chunk, specials, 0, n)
            for i in range(n):
                phrase[k] |= np.uint64(chunk.starts[i]) << np.uint64(chunk.offsets[i])


@cache
def load_specials() -> Specials:
    """The table of special cases with their phrases, as a record for kernels; it is shared, do not write to it."""
    exceptions = list_exceptions()
    specials: Any = make_specials(exceptions, list_after_digit())
    texts = [text.encode() for text in exceptions]  # the first rows of the table, in this order
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    words, phrase = specials["words"].copy(), np.zeros(len(specials["phrase"]), dtype=np.uint64)
    specials["words"] = 0
    fill_phrases(load_chars(), specials, make_chunk(), starts, data, phrase)
    specials["words"], specials["phrase"] = words, phrase
    loaded: Specials = specials
    return loaded
