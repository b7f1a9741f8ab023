"""Words against spaCy's blank English tokenizer, sentences against its rule sentencizer."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Token

from tamiz.measure.exceptions import list_after_digit, list_exceptions
from tamiz.measure.specials import hash_text
from tamiz.measure.words import (
    HAS_ALPHA,
    HASH_BASE,
    IS_PUNCT,
    IS_SENTENCE_END,
    IS_SYMBOL,
    STOP_SHIFT,
    STOP_WORDS,
    Words,
    count_sentences,
    scan_words,
)

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
NLP = spacy.blank("en")
NLP.add_pipe("sentencizer")

# Characters on both sides of every rule: letters with and without case, digits, marks, units, quotes, icons.
CHARACTERS = st.sampled_from(
    "abmszABCSUDx019.,;:!?'’\"“”‘-–—~_()[]{}<>/\\|@#$%^&*+=`…°§©™€£²³µéÉßñЖжаЯαΩ中日ーقم١０🙂♥\u0301\u200b。！「·¬ツʰª\U00020000"
)
PIECES = st.sampled_from(
    [
        *list_exceptions(),
        *list_after_digit(),
        *(
            "http://",
            "www.",
            "example.com",
            "user@",
            ":80",
            "/a?b#c",
            "192.168.1.1",
            "8.8.8.8",
            "172.32.5.254",
            "a_b.cd",
        ),
        *(
            "..",
            "--",
            "---",
            "——",
            "……",
            "°C.",
            "AB.",
            "foo",
            "Bar",
            "10",
            "3.5",
            "N.Y.",
            "x-.de",
            "日本.jp",
            "ftp+x://",
        ),
    ]
)
CHUNKS = st.lists(PIECES | CHARACTERS, min_size=1, max_size=6).map("".join)
GAPS = st.sampled_from([" "] * 6 + ["  ", "\n", "\n\n", "\t", "\u00a0", " \n", "\r\n", "\u2028", ""])
TEXTS = st.lists(st.tuples(CHUNKS, GAPS), max_size=8).map(
    lambda parts: "".join(part for pair in parts for part in pair)
)


def scan(*texts: str) -> tuple[np.ndarray, np.ndarray, Words]:
    """The words of the texts, which lie behind one another in the data, after two bytes of something else."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([2, *map(len, encoded)], dtype=np.int64)
    data = np.frombuffer(b"x " + b"".join(encoded), dtype=np.uint8)
    return offsets, data, scan_words(offsets, data)


def list_words(*texts: str) -> list[list[str]]:
    _, data, words = scan(*texts)
    ends = words.starts + words.lengths
    found = [data[start:end].tobytes().decode() for start, end in zip(words.starts, ends, strict=True)]
    return [found[a:b] for a, b in pairwise(words.doc_offsets)]


def list_tokens(text: str) -> list[Token]:
    return [token for token in NLP.tokenizer(text) if token.text.strip()]


@given(CHUNKS)
def test_chunks_are_split_as_spacy_splits_them(text: str) -> None:
    assert list_words(text) == [[token.text for token in list_tokens(text)]]


@given(TEXTS)
def test_texts_are_split_as_spacy_splits_them(text: str) -> None:
    assert list_words(text) == [[token.text for token in list_tokens(text)]]


@given(st.text())
def test_any_text_is_split_as_spacy_splits_it(text: str) -> None:
    assert list_words(text) == [[token.text for token in list_tokens(text)]]


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the shared reference data is not there")
def test_real_documents_are_split_as_spacy_splits_them() -> None:
    texts = pq.read_table(DATA / "eval" / "language_sentences.parquet")["text"].to_pylist()[::10]
    for path in sorted((DATA / "fineweb-like").glob("data/*/*.parquet")):
        texts += pq.read_table(path, columns=["text"])["text"].to_pylist()[::60]
    for text, words in zip(texts, list_words(*texts), strict=True):
        assert words == [token.text for token in list_tokens(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [  # the examples in the description of the filters, split by hand
        ("don't can't it's", "do n't ca n't it 's"),
        ("e-mail foo/bar $5 5km", "e - mail foo / bar $ 5 5 km"),
        ("cannot dont id Im", "can not do nt i d I m"),
        ("SpaceX. IaC. U.S. well. ...", "SpaceX. IaC. U.S. well . ..."),
        ("(see https://a.example/x?y=1) :)", "( see https://a.example/x?y=1 ) :)"),
        ("foo-vs. Comments: (=x", "foo - vs. Comments : ( = x"),
    ],
)
def test_words_by_hand(text: str, words: str) -> None:
    assert list_words(text) == [words.split()]


def test_special_cases_are_spacys() -> None:
    rules = {
        text: tuple(token.text for token in NLP.tokenizer(text)) for text in NLP.tokenizer.rules if not text.isspace()
    }
    assert list_exceptions() == rules


@given(st.lists(TEXTS, max_size=4))
def test_table_of_words(texts: list[str]) -> None:
    offsets, data, words = scan(*texts)
    assert len(words.doc_offsets) == len(texts) + 1
    assert words.doc_offsets[-1] == len(words.starts)
    for d, text in enumerate(texts):
        rows = range(words.doc_offsets[d], words.doc_offsets[d + 1])
        spelled = [data[words.starts[w] : words.starts[w] + words.lengths[w]].tobytes() for w in rows]
        assert b"".join(spelled).decode() == "".join(text.split())
        assert [len(word.decode()) for word in spelled] == [words.n_chars[w] for w in rows]
        assert [hash_text(word) for word in spelled] == [words.hashes[w] for w in rows]
        assert all(offsets[d] <= words.starts[w] < offsets[d + 1] for w in rows)
        alone = scan(text)[2]
        assert alone.hashes.tolist() == words.hashes[rows.start : rows.stop].tolist()
        assert alone.flags.tolist() == words.flags[rows.start : rows.stop].tolist()


@given(st.binary(), st.binary())
def test_hashes_are_joined_by_the_base(left: bytes, right: bytes) -> None:
    joined = hash_text(left) * pow(int(HASH_BASE), len(right), 1 << 64) + hash_text(right)
    assert hash_text(left + right) == joined % (1 << 64)


@given(TEXTS)
def test_flags_are_those_of_the_tokens(text: str) -> None:
    marks = set(NLP.get_pipe("sentencizer").punct_chars)
    words = scan(text)[2]
    for token, flags in zip(list_tokens(text), words.flags.tolist(), strict=True):
        assert bool(flags & HAS_ALPHA) == any(char.isalpha() for char in token.text)
        assert bool(flags & IS_PUNCT) == token.is_punct
        assert bool(flags & IS_SENTENCE_END) == (token.text in marks)
        code = STOP_WORDS.index(token.text) + 1 if token.text in STOP_WORDS else 0
        assert flags >> STOP_SHIFT == code


def test_symbols_and_stop_words_by_hand() -> None:
    words = scan("the cat , ... — ‘ • $ The and - (with) be")[2]  # 14 words
    assert [w for w in range(14) if words.flags[w] & IS_SYMBOL] == [2, 3, 4, 7, 10, 11, 13]
    assert (words.flags >> STOP_SHIFT).tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 8, 0, 2]


@given(st.lists(TEXTS, max_size=3))
def test_sentences_are_the_sentencizers(texts: list[str]) -> None:
    """A line without words is one slice for FineWeb's filter, which counts slices of the text."""
    counts = count_sentences(*scan(*texts))
    expected = [sum(max(1, len(list(NLP(line).sents))) for line in text.split("\n")) if text else 0 for text in texts]
    assert counts.tolist() == expected


def test_sentences_by_hand() -> None:
    texts = ["One. Two! Three?", "One.\nTwo", "He said (yes.) So.", "at 5 a.m. today ...", "", "One.  ", "One. "]
    assert count_sentences(*scan(*texts)).tolist() == [3, 2, 2, 1, 0, 2, 1]


def test_long_chunks_take_linear_time() -> None:
    """Runs that would make a backtracking pattern quadratic, half a million characters or more each."""
    n = 250_000
    texts = ["(" * 2 * n, "@" * 2 * n, "a@" * n, "a." * n + "b@", ".(" * n, "a-" * n + "a"]
    n_words = [len(words) for words in list_words(*texts)]
    assert n_words == [2 * n, 1, 1, 1, 2 * n, 2 * n + 1]


def test_empty_input() -> None:
    assert list_words() == []
    assert list_words("", " \n", "") == [[], [], []]
