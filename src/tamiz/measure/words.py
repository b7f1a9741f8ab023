"""The words of documents, in one compiled scan over their UTF-8 bytes, with no Python object per word.

Words are spaCy 3.8's English tokens without the whitespace ones: `[t.text for t in spacy.blank("en")(text) if not
t.is_space]`, what the published FineWeb recipes call words. Text is cut at whitespace into chunks; most chunks are
ASCII letters, or letters and one mark, and are decided while they are read and hashed, with one look into the table of
special cases ("cannot" is two words). All others are decoded and go through `tamiz.measure.chunks`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from tamiz.measure import chars as classes
from tamiz.measure.affixes import Chunk, fill_chunk, hash_part, make_chunk
from tamiz.measure.chars import Chars, decode, freeze, load_chars
from tamiz.measure.chunks import mark_words
from tamiz.measure.phrases import fill_context, has_phrase, load_specials, merge_phrases
from tamiz.measure.specials import (
    HASH_BASE,
    N_BYTES_MAX,
    N_STOP_BYTES_MAX,
    STOP_WORDS,
    Specials,
    extend_hash,
    find_row,
)
from tamiz.measure.word_block import BLOCK_WORDS, WordBlock, add_word, make_block, move_words
from tamiz.schema import I32, I64, U8, U64

__all__ = [
    "HASH_BASE",
    "HAS_ALPHA",
    "IS_PUNCT",
    "IS_SENTENCE_END",
    "IS_SYMBOL",
    "STOP_SHIFT",
    "STOP_WORDS",
    "Words",
    "count_sentences",
    "cross_to_word",
    "scan_words",
]

HAS_ALPHA = 1 << 0  # any character is str.isalpha
IS_SYMBOL = 1 << 1  # all characters are symbols (chars.SYMBOL)
IS_SENTENCE_END = 1 << 2  # the word is one mark of spaCy's sentencizer
IS_PUNCT = 1 << 3  # all characters are of a category P*: spaCy's Token.is_punct
STOP_SHIFT = 4  # flags >> STOP_SHIFT is k + 1 when the word is STOP_WORDS[k], 0 when it is none

_OTHER, _LETTER, _SPACE, _MARK = 0, 1, 2, 3
_KINDS = np.zeros(256, dtype=np.uint8)  # of a byte
_KINDS[[*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1)]] = _LETTER
_KINDS[[*range(9, 14), *range(28, 33)]] = _SPACE
_KINDS[[ord(mark) for mark in ",.;:!?"]] = _MARK
_STOP, _SMALL_A, _NEWLINE, _BLANK = ord("."), ord("a"), ord("\n"), ord(" ")
_ALPHA, _SYMBOL, _SENTENCE_END, _IS_PUNCT = classes.ALPHA, classes.SYMBOL, classes.SENTENCE_END, classes.IS_PUNCT


class Words(NamedTuple):
    """Words of n documents: those of document d are doc_offsets[d] : doc_offsets[d + 1].

    doc_offsets int64[n + 1]; per word: starts int64, byte position in the data; lengths int32, bytes; n_chars int32,
    code points; hashes uint64, of the bytes (see `specials`); flags uint8, the bits above.
    """

    doc_offsets: I64
    starts: I64
    lengths: I32
    n_chars: I32
    hashes: U64
    flags: U8


def scan_words(offsets: I64, data: U8) -> Words:
    """The words of the documents data[offsets[d] : offsets[d + 1]] (valid UTF-8).

    Memory: 25 bytes per word. The arrays are made with an entry per byte; pages never touched are never backed.
    """
    n_bytes = int(offsets[-1] - offsets[0])
    words = Words(
        np.empty(len(offsets), dtype=np.int64),
        np.empty(n_bytes, dtype=np.int64),
        np.empty(n_bytes, dtype=np.int32),
        np.empty(n_bytes, dtype=np.int32),
        np.empty(n_bytes, dtype=np.uint64),
        np.empty(n_bytes, dtype=np.uint8),
    )
    n = _scan_documents(freeze(offsets), freeze(data), load_chars(), load_specials(), make_chunk(), make_block(), words)
    return Words(
        words.doc_offsets, words.starts[:n], words.lengths[:n], words.n_chars[:n], words.hashes[:n], words.flags[:n]
    )


@njit(cache=True, nogil=True)
def _scan_documents(
    offsets: I64, data: U8, chars: Chars, specials: Specials, chunk: Chunk, block: WordBlock, words: Words
) -> int:
    """Fill `words`; their number."""
    n = 0  # words in the table
    k = 0  # and behind them in the block
    words.doc_offsets[0] = 0
    for d in range(len(offsets) - 1):
        i, end = offsets[d], offsets[d + 1]
        while i < end:
            if _KINDS[data[i]] == _SPACE:
                i += 1
                continue
            next_i, next_k = _scan_plain_chunk(data, i, end, chars, specials, block, k)
            if next_k == k:  # not plain
                n_chars, next_i = fill_chunk(chars, chunk, data, i, end, 0)
                if n_chars:
                    mark_words(chunk, specials, 0, n_chars)
                    first = 0
                    if n_chars > 1 and has_phrase(chunk, specials, n_chars):
                        first, n_around = fill_context(chars, specials, chunk, data, offsets[d], end, i, next_i)
                        merge_phrases(chunk, specials, n_around)
                    next_k = _add_words(data, i, first, first + n_chars, specials, chunk, block, k)
                else:
                    next_i += decode(data, i)[1]  # whitespace beyond ASCII
            i, k = next_i, next_k
            if k >= BLOCK_WORDS:
                n = _move_words(block, k, words, n)
                k = 0
        words.doc_offsets[d + 1] = n + k
    return _move_words(block, k, words, n)


@njit(cache=True, nogil=True)
def _move_words(block: WordBlock, k: int, words: Words, n: int) -> int:
    return move_words(block, k, words.starts, words.lengths, words.n_chars, words.hashes, words.flags, n)


@njit(cache=True, nogil=True, inline="always")
def _scan_plain_chunk(
    data: U8, start: int, end: int, chars: Chars, specials: Specials, block: WordBlock, n: int
) -> tuple[int, int]:
    """Add the chunk at `start` when it is ASCII letters, or those and one mark.

    Returns the byte after it and the words then in the block. Nothing is added, and n is returned as it was, when it
    needs the full rules: other characters, special cases, a full stop that may stay with its word.
    """
    value = np.uint64(0)
    i = start
    while i < end and _KINDS[data[i]] == _LETTER:
        value = extend_hash(value, data[i])
        i += 1
    length = i - start
    if length == 0:
        return i, n
    flags = HAS_ALPHA
    if length <= N_BYTES_MAX:
        row = find_row(specials, value)
        if row >= 0:
            if specials.words[row]:
                return i, n
            flags |= specials.stop[row] << STOP_SHIFT
    if i == end or _KINDS[data[i]] == _SPACE:
        add_word(block, n, start, length, length, value, flags)
        return i, n + 1
    if _KINDS[data[i]] != _MARK or not (i + 1 == end or _KINDS[data[i + 1]] == _SPACE):
        return i, n
    if not _is_mark_apart(data, start, i, value, specials):
        return i, n
    add_word(block, n, start, length, length, value, flags)
    mark = data[i]
    add_word(block, n + 1, i, 1, 1, extend_hash(np.uint64(0), mark), _flag_mark(chars, mark))
    return i + 1, n + 2


@njit(cache=True, nogil=True, inline="always")
def _is_mark_apart(data: U8, start: int, i: int, value: np.uint64, specials: Specials) -> bool:
    """Whether the mark at i, at the end of its chunk, is a word of its own after the letters from `start` on.

    All are suffixes but the full stop: it needs a lower-case letter or two capitals before it, and "Mr." is listed.
    """
    if i - start == 1:
        return False  # "a." and such: left to the full rules
    if data[i] != _STOP:
        return True
    if i + 1 - start <= N_BYTES_MAX and find_row(specials, extend_hash(value, data[i])) >= 0:
        return False
    return bool(data[i - 1] >= _SMALL_A or data[i - 2] < _SMALL_A)


@njit(cache=True, nogil=True, inline="always")
def _flag_mark(chars: Chars, mark: np.uint8) -> int:
    """Word flags of one ASCII mark."""
    flags = np.int64(chars.ascii[mark])
    return IS_SYMBOL | IS_PUNCT | (IS_SENTENCE_END if flags & _SENTENCE_END else 0)


@njit(cache=True, nogil=True)
def _add_words(
    data: U8, start: int, first: int, last: int, specials: Specials, chunk: Chunk, block: WordBlock, n: int
) -> int:
    """Add the words marked in the chunk [first, last) that starts at byte `start`; the words then in the block."""
    base = start - chunk.offsets[first]
    low = first
    while low < last:
        high = low + 1
        while high < last and not chunk.starts[high]:
            high += 1
        n_bytes = chunk.offsets[high] - chunk.offsets[low]
        value = hash_part(chunk, specials, data, base, low, high)
        flags = _flag_word(chunk, low, high)
        if flags & HAS_ALPHA and n_bytes <= N_STOP_BYTES_MAX:
            row = find_row(specials, value)
            if row >= 0:
                flags |= specials.stop[row] << STOP_SHIFT
        add_word(block, n, base + chunk.offsets[low], n_bytes, high - low, value, flags)
        n += 1
        low = high
    return n


@njit(cache=True, nogil=True)
def _flag_word(chunk: Chunk, low: int, high: int) -> int:
    """Flags of the word [low, high) of a chunk, its stop word code left 0."""
    any_of, all_of = np.int64(0), np.int64(-1)
    for i in range(low, high):
        any_of |= np.int64(chunk.flags[i])
        all_of &= np.int64(chunk.flags[i])
    flags = HAS_ALPHA if any_of & _ALPHA else 0
    flags |= IS_SYMBOL if all_of & _SYMBOL else 0
    flags |= IS_SENTENCE_END if all_of & _SENTENCE_END and high - low == 1 else 0
    flags |= IS_PUNCT if all_of & _IS_PUNCT else 0
    return flags


def count_sentences(offsets: I64, data: U8, words: Words) -> I32:
    """Sentences per document: int32[n], summed over its "\\n"-separated lines, each taken alone; 0 for an empty one.

    A line has the sentences of spaCy 3.8's rule sentencizer: one ends after a word that is a sentence mark, and the
    next starts at the first token that is neither such a mark nor punctuation. Whitespace other than one blank is a
    token too and can start a sentence. A line without words counts as one (FineWeb's C4 filter counts text slices,
    never none).
    """
    counts = np.zeros(len(offsets) - 1, dtype=np.int32)
    columns = [freeze(column) for column in (words.doc_offsets, words.starts, words.lengths, words.flags)]
    _count_documents(freeze(offsets), freeze(data), columns[0], columns[1], columns[2], columns[3], counts)
    return counts


@njit(cache=True, nogil=True)
def _count_documents(
    offsets: I64, data: U8, doc_offsets: I64, starts: I64, lengths: I32, flags: U8, counts: I32
) -> None:
    """Fill `counts`."""
    for d in range(len(counts)):
        if offsets[d] == offsets[d + 1]:
            continue
        count, has_ended, i = 1, False, offsets[d]
        for w in range(doc_offsets[d], doc_offsets[d + 1]):
            added, has_ended = cross_to_word(data, i, starts[w], flags[w], has_ended)
            count += added
            i = starts[w] + lengths[w]
        added, has_ended = cross_gap(data, i, offsets[d + 1], has_ended)
        counts[d] = count + added


@njit(cache=True, nogil=True)
def cross_to_word(data: U8, i: int, start: int, flag: int, has_ended: bool) -> tuple[int, bool]:
    """cross_gap from `i` to the word at `start`, and over that word."""
    added, has_ended = cross_gap(data, i, start, has_ended)
    if flag & IS_SENTENCE_END:
        has_ended = True
    elif has_ended and not flag & IS_PUNCT:
        added += 1
        has_ended = False
    return added, has_ended


@njit(cache=True, nogil=True)
def cross_gap(data: U8, start: int, end: int, has_ended: bool) -> tuple[int, bool]:
    """Sentences that start in the whitespace [start, end) between two words, and whether one has ended without another
    having started. A new line is a new sentence."""
    added, first = 0, start
    for i in range(start, end + 1):
        is_line_end = i < end and data[i] == _NEWLINE
        if i < end and not is_line_end:
            continue
        is_token = i - first > 1 or (i - first == 1 and data[first] != _BLANK)
        if has_ended and is_token:
            added += 1
            has_ended = False
        if is_line_end:
            added += 1
            has_ended = False
            first = i + 1
    return added, has_ended
