"""Words made in plain Python, so that metrics are tested apart from the word scan, and texts to measure."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from tamiz.measure.chars import SYMBOL, flags_of, load_chars
from tamiz.measure.words import HAS_ALPHA, HASH_BASE, IS_SYMBOL, STOP_SHIFT, STOP_WORDS, Words
from tamiz.schema import I64, U8, view_text

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"

PIECES = [
    *(
        "a",
        "b",
        "ab",
        "ba",
        "the",
        "of",
        "be",
        "Word",
        "abc",
        "é",
        "e\u0301",
        "日本",
        "😀",
        "5",
        "12",
        "\x00",
        "\u200b",
    ),
    *(" ", " ", " ", "\t", "\u00a0", "\u3000", "\u2003", "\x1f"),
    *("\n", "\n", "\n\n", "\n\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"),
    *(".", "...", "..", "…", "!", "。", "”", "•", "-", "—", "#", "##", ",", "a b c d e", "b a b a", "x" * 31),
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=["Cs"])), max_size=60).map("".join)


def split_words(text: str) -> list[str]:
    """Runs of word characters, and every other character that is not white space. The metrics take any words."""
    return [word for chunk in text.split() for word in re.findall(r"\w+|\W", chunk)]


def is_symbol(word: str) -> bool:
    return all(flags_of(load_chars(), ord(char)) & SYMBOL for char in word)


def make_words(texts: list[str]) -> tuple[I64, U8, Words]:
    """The buffers of `texts` and their words, as the word scan would give them."""
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    doc_offsets, rows = [0], []
    for text, start in zip(texts, offsets.tolist(), strict=False):
        at = 0
        for word in split_words(text):
            at = text.index(word, at)
            encoded = word.encode()
            value = 0
            for byte in encoded:
                value = (value * int(HASH_BASE) + byte + 1) % 2**64
            flags = HAS_ALPHA * any(map(str.isalpha, word)) | IS_SYMBOL * is_symbol(word)
            flags |= (STOP_WORDS.index(word) + 1 if word in STOP_WORDS else 0) << STOP_SHIFT
            rows.append((start + len(text[:at].encode()), len(encoded), len(word), value, flags))
            at += len(word)
        doc_offsets.append(len(rows))
    starts, lengths, n_chars, hashes, flags_column = zip(*rows, strict=True) if rows else ((),) * 5
    words = Words(
        np.array(doc_offsets, dtype=np.int64),
        np.array(starts, dtype=np.int64),
        np.array(lengths, dtype=np.int32),
        np.array(n_chars, dtype=np.int32),
        np.array(hashes, dtype=np.uint64),
        np.array(flags_column, dtype=np.uint8),
    )
    return offsets, data, words


def read_real_texts(n: int) -> tuple[list[str], list[str]]:
    """Ids and texts of the first `n` real documents; skips the test when they are absent."""
    if not SHARED.is_dir():
        pytest.skip("the reference data is not beside the checkout")
    path = min((SHARED / "fineweb-like" / "data").glob("*/*.parquet"))
    batch = next(pq.ParquetFile(path).iter_batches(n, columns=["id", "text"]))
    return batch.column("id").to_pylist(), batch.column("text").to_pylist()


def read_decisions(recipe: str, ids: list[str]) -> list[str | None]:
    """datatrove's reason to drop each document by `recipe`; None = kept."""
    table = pq.read_table(SHARED / "reference" / "fineweb_decisions.parquet", columns=["id", recipe])
    reasons = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return [reasons[doc_id] for doc_id in ids]
