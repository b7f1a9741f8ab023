"""Words and sentences of what line rules leave of a document, from the words of the whole: no second scan.

A line holds the same words alone as in its document: no chunk and no phrase crosses a line break (see `words` and
`phrases`). So the words of a rewritten text are those of the lines kept, as long as nothing was taken out inside one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tamiz.measure.chars import freeze
from tamiz.measure.words import Words, cross_to_word
from tamiz.schema import I32, I64, U8


def count_kept_lines(data: U8, words: Words, line_offsets: I64, line_starts: I64, line_stops: I64) -> tuple[I32, I32]:
    """Words and sentences, both int32[n], of the lines of each document.

    `words` are those of the whole documents in data uint8[]. The lines of document d are line_offsets[d] :
    line_offsets[d + 1]; line i is data[line_starts[i] : line_stops[i]], without white space at either end. Sentences as
    `count_sentences` counts them in the text of these lines.
    """
    n_words, n_sentences = np.zeros((2, len(line_offsets) - 1), dtype=np.int32)
    lines = (freeze(line_offsets), freeze(line_starts), freeze(line_stops))
    table = (freeze(words.doc_offsets), freeze(words.starts), freeze(words.lengths), freeze(words.flags))
    _count(freeze(data), *table, *lines, n_words, n_sentences)
    return n_words, n_sentences


@njit(cache=True, nogil=True)
def _count(
    data: U8,
    doc_offsets: I64,
    starts: I64,
    lengths: I32,
    flags: U8,
    line_offsets: I64,
    line_starts: I64,
    line_stops: I64,
    n_words: I32,
    n_sentences: I32,
) -> None:
    """Fill `n_words` and `n_sentences`."""
    for d in range(len(n_words)):
        w, last = doc_offsets[d], doc_offsets[d + 1]
        for line in range(line_offsets[d], line_offsets[d + 1]):
            while w < last and starts[w] < line_starts[line]:
                w += 1
            first, i, count, has_ended = w, line_starts[line], 1, False
            while w < last and starts[w] < line_stops[line]:
                added, has_ended = cross_to_word(data, i, starts[w], flags[w], has_ended)
                count += added
                i = starts[w] + lengths[w]
                w += 1
            n_words[d] += w - first
            n_sentences[d] += count
