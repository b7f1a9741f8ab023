"""Normalised words against the definition, said in plain Python, and spaCy."""

from __future__ import annotations

import re
import string
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import regex
import spacy
from hypothesis import given
from hypothesis import strategies as st

from tamiz.measure.normal import scan_normal_words
from tamiz.measure.specials import hash_text

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
TOKENIZE = spacy.blank("en").tokenizer
NUMBER = regex.compile(r"\p{Nd}+([.,،٫⎖⎗⎘]\p{Nd}+)?")
CONTROLS = "".join(chr(point) for point in [*range(9), *range(11, 32), *range(127, 160)])
PUNCTUATION = string.punctuation + CONTROLS + "«»´–—’“”„…∶━►、。〈〉《》「」【】！％（），．１：；？～"

CHARACTERS = st.sampled_from(
    "abzAZ059 \n.,'’-_‘·•%«éÉÅßİıΣσςΑα'ЖйĳǅﬁK①١٣٠，،٫⎖한글각ツが中\u0301\u0300\u00ad\u200b;≠🙂\u1160"
)
PIECES = st.sampled_from(
    [
        "3,000.50",
        "1.2.3",
        "cannot",
        "dont",
        "5km",
        "ΟΔΟΣ",
        "ΣΑΣ.",
        "Σ",
        "a.m.",
        "e-mail",
        "don’t",
        "‘s",
        "x\\u0301y",
        "İstanbul",
        "한국어",
    ]
)
TEXTS = st.lists(PIECES | CHARACTERS, max_size=12).map("".join)


def normalise(text: str) -> str:
    """FineWeb's normal form, step by step in the order of its description."""
    text = NUMBER.sub("0", text.lower())
    text = text.translate(str.maketrans(dict.fromkeys(PUNCTUATION, " ")))
    text = re.sub(r"\s+", " ", text.strip())
    return "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn").strip()


def hash_words(text: str) -> list[int]:
    return [hash_text(token.text.encode()) for token in TOKENIZE(normalise(text)) if token.text.strip()]


def scan(*texts: str) -> list[list[int]]:
    """Hashes of each text's normalised words; the texts lie behind one another, after a word of something else."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([1, *map(len, encoded)], dtype=np.int64)
    words = scan_normal_words(offsets, np.frombuffer(b"A" + b"".join(encoded), dtype=np.uint8))
    bounds = words.doc_offsets.tolist()
    return [words.hashes[a:b].tolist() for a, b in pairwise(bounds)]


def test_published_example() -> None:
    words = b"the quick brown fox s 0 0 jumps over the lazy dog".split()
    assert scan("The quick brown fox's 3,000.50 jumps over the lazy dog.") == [[hash_text(word) for word in words]]


def test_the_punctuation_list_is_the_published_one() -> None:
    assert len(PUNCTUATION) == len(set(PUNCTUATION)) == 129


@given(st.lists(TEXTS, max_size=3))
def test_words_are_those_of_the_definition(texts: list[str]) -> None:
    assert scan(*texts) == [hash_words(text) for text in texts]


@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    assert scan(text) == [hash_words(text)]


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the shared reference data is not there")
def test_real_documents() -> None:
    texts = pq.read_table(DATA / "eval" / "language_sentences.parquet")["text"].to_pylist()[::10]
    for path in sorted((DATA / "fineweb-like").glob("data/*/*.parquet")):
        texts += pq.read_table(path, columns=["text"])["text"].to_pylist()[::60]
    for text, hashes in zip(texts, scan(*texts), strict=True):
        assert hashes == hash_words(text)


def test_long_and_empty_documents() -> None:
    n = 1_200_000  # longer than the scratch for one chunk
    assert scan("é" * n, "", " ,\n") == [scan("é" * 2**20)[0] + scan("e" * (n - 2**20))[0], [], []]
