"""The words of one chunk, as spaCy 3.8's English tokenizer splits it (`Tokenizer._tokenize_affixes` and what it calls).

1. Peel: while the chunk is no special case, take a prefix off the front and a suffix off the end (the suffix is looked
   for in what the prefix left); stop early when what is left of one of them is a special case.
2. The middle is a special case, or a URL (one word), or is split at its infixes; an infix at its very front is skipped.

A last step, over the words of several chunks, is in `tamiz.measure.phrases`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tamiz.measure.affixes import Chunk, find_infix, find_part, find_prefix, find_suffix, is_special
from tamiz.measure.specials import Specials
from tamiz.measure.urls import is_url

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def mark_words(chunk: Chunk, specials: Specials, first: int, last: int) -> None:
    """Set `chunk.starts` where a word of the chunk [first, last) starts. Every character belongs to a word."""
    low, high = peel_affixes(chunk, specials, first, last)
    if low < high:
        mark_middle(chunk, specials, low, high)


@njit(cache=True, nogil=True)
def peel_affixes(chunk: Chunk, specials: Specials, first: int, last: int) -> tuple[int, int]:
    """Mark prefixes and suffixes of [first, last); the part that remains (`Tokenizer._split_affixes`)."""
    low, high = first, last
    last_size = -1
    while low < high and high - low != last_size and not is_special(chunk, specials, low, high):
        last_size = high - low
        n_prefix = find_prefix(chunk, low, high)
        if 0 < n_prefix < high - low and is_special(chunk, specials, low + n_prefix, high):
            chunk.starts[low] = 1
            return low + n_prefix, high
        n_suffix = find_suffix(chunk, specials, low + n_prefix, high)
        if 0 < n_suffix < high - low and is_special(chunk, specials, low, high - n_suffix):
            chunk.starts[high - n_suffix] = 1
            return low, high - n_suffix
        if n_prefix:
            chunk.starts[low] = 1
            low += n_prefix
        if n_suffix:
            high -= n_suffix
            chunk.starts[high] = 1
    return low, high


@njit(cache=True, nogil=True)
def mark_special(chunk: Chunk, words: np.uint64, low: int, high: int) -> None:
    """Mark the words of a special case over [low, high); `words` has a bit per byte where one starts."""
    for i in range(low, high):
        bit = np.uint64(chunk.offsets[i] - chunk.offsets[low])
        chunk.starts[i] = np.uint8((words >> bit) & _ONE)


@njit(cache=True, nogil=True)
def mark_middle(chunk: Chunk, specials: Specials, low: int, high: int) -> None:
    """Mark the words of what has no affixes left (`Tokenizer._attach_tokens`)."""
    row = find_part(chunk, specials, low, high)
    if row >= 0 and specials.words[row]:
        mark_special(chunk, specials.words[row], low, high)
        return
    chunk.starts[low] = 1
    if is_url(chunk, low, high):
        return
    i = low
    while i < high:
        length = find_infix(chunk, low, high, i)
        if length and i > low:
            chunk.starts[i] = 1
            if i + length < high:
                chunk.starts[i + length] = 1
        i += max(length, 1)
