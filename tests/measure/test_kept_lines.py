"""Words and sentences of chosen lines equal those of a scan of the text these lines make."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz.measure.kept_lines import count_kept_lines
from tamiz.measure.words import count_sentences, scan_words
from tamiz.schema import view_text

PIECES = st.sampled_from(
    [
        *"aZ7.!?\"'()[]:;=-/ ,",
        "  ",
        "\t",
        "\u00a0",
        "\u3000",
        "can't",
        "vs.",
        ":)",
        "(=",
        "e.g.",
        "...",
        "a.b@c.org",
        "字。",
    ]
)
BREAKS = st.sampled_from(["\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", " \n ", "\n \t"])
LINES = st.lists(PIECES, max_size=12).map("".join)
TEXTS = st.lists(st.tuples(LINES, BREAKS, st.booleans()), max_size=8)


@settings(max_examples=400)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_lines_count_as_the_text_they_make(documents: list[list[tuple[str, str, bool]]]) -> None:
    texts, made, offsets, starts, stops = [], [], [0], [], []
    base = 0
    for pieces in documents:
        text = "".join(line + end for line, end, _ in pieces)
        kept, at = [], 0
        for line, end, is_kept in pieces:
            (stripped,) = {part.strip() for part in line.splitlines()} or {""}
            if is_kept and stripped:
                first = at + line.index(stripped)
                starts.append(base + len(text[:first].encode()))
                stops.append(starts[-1] + len(stripped.encode()))
                kept.append(stripped)
            at += len(line + end)
        offsets.append(len(starts))
        base += len(text.encode())
        texts.append(text)
        made.append("\n".join(kept))
    _, data = view = view_text(pa.array(texts, pa.large_string()))
    lines = [np.array(values, dtype=np.int64) for values in (offsets, starts, stops)]
    n_words, n_sentences = count_kept_lines(data, scan_words(*view), *lines)
    wanted = view_text(pa.array(made, pa.large_string()))
    words = scan_words(*wanted)
    assert n_words.tolist() == np.diff(words.doc_offsets).tolist()
    assert n_sentences.tolist() == count_sentences(*wanted, words).tolist()
