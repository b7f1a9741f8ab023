"""Repetition metrics against a plain Python statement of them, hand counts, and the reference's decisions."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from tamiz.measure.repetition import measure_repetition
from tamiz.measure.words import scan_words
from tamiz.schema import view_text
from tests.measure.made_words import TEXTS, make_words, read_decisions, read_real_texts, split_words


def find_repeats(items: list[str]) -> list[str]:
    seen: set[str] = set()
    return [item for item in items if item in seen or seen.add(item)]


def state_repetition(text: str) -> dict[str, float]:
    stated: dict[str, float] = {"n_chars": len(text)}
    pieces = {"paragraph": re.split(r"\n{2,}", text.strip()), "line": re.split(r"\n+", text)}
    for name, items in pieces.items():
        repeats = find_repeats(items)
        stated[f"frac_dup_{name}s"] = len(repeats) / len(items)
        stated[f"frac_dup_{name}_chars"] = sum(map(len, repeats)) / len(text) if text else np.nan
    words = split_words(text)
    for n in (2, 3, 4):
        ngrams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
        counts = Counter(ngrams)
        most = max(counts.values(), default=0)
        top = next((ngram for ngram in ngrams if counts[ngram] == most), None)
        stated[f"frac_top_{n}gram_chars"] = np.nan if top is None else len(top) * most / len(text)
    for n in range(5, 11):
        seen, dup_chars, i = set(), 0, 0
        while i + n <= len(words):
            ngram = "".join(words[i : i + n])
            dup_chars += len(ngram) if ngram in seen else 0
            i += n if ngram in seen else 1
            seen.add(ngram)
        stated[f"frac_dup_{n}gram_chars"] = np.nan if len(words) < n else dup_chars / len(text)
    return stated if text else dict.fromkeys(stated, np.nan) | {"n_chars": 0}


def check(texts: list[str]) -> None:
    measured = measure_repetition(*make_words(texts))
    stated = [state_repetition(text) for text in texts]
    assert set(measured) == set(stated[0])
    for name, column in measured.items():
        np.testing.assert_array_equal(column, [row[name] for row in stated], err_msg=name)


@settings(deadline=None)  # the first call compiles
@given(TEXTS, TEXTS, TEXTS)
@example("a b " * 40, "", "b a " * 6)
@example("\n", "\n\na\n\n", "\r\n\r\nx\r\n\r\nx")
@example("a\u2028\n\na", "\u3000\n\na\n\na\n\n\x85", " a\n\na")
@example("ab c d e f g a bc d e f g" * 2, "x" * 70 + " a b c d " + "x" * 70 + " a b c d", "é " * 30)
def test_every_document_follows_the_statement_of_the_metrics(first: str, second: str, third: str) -> None:
    check([first, second, third])


@pytest.mark.data
def test_real_documents_follow_the_statement_of_the_metrics() -> None:
    check(read_real_texts(250)[1])


def test_hand_counts() -> None:
    measured = measure_repetition(*make_words(["ab c d e f a bc d e f", "x y\nx y\n\nx y\nx y", "Hi there", "Hi"]))
    n_chars = [21, 16, 8, 2]
    assert measured["n_chars"].tolist() == n_chars
    assert measured["frac_dup_lines"].tolist() == [0, 3 / 4, 0, 0]
    assert measured["frac_dup_line_chars"].tolist() == [0, 9 / 16, 0, 0]
    assert measured["frac_dup_paragraphs"].tolist() == [0, 1 / 2, 0, 0]
    assert measured["frac_dup_paragraph_chars"].tolist() == [0, 7 / 16, 0, 0]
    # "d e" is the first pair seen twice, though "e f" is too; "ab c" and "a bc" are two pairs
    np.testing.assert_array_equal(measured["frac_top_2gram_chars"], [6 / 21, 12 / 16, 8 / 8, np.nan])
    # "abcdef" is seen again as another five words; after the second "xyxyx" one word is left
    np.testing.assert_array_equal(measured["frac_dup_5gram_chars"], [6 / 21, 5 / 16, np.nan, np.nan])


def test_a_document_is_measured_alike_alone_and_among_others() -> None:
    texts = ["a b a b a b a b a b", "c " * 500, "a b a b a b a b a b", "", "a\n" * 300, "a b a b a b a b a b"]
    together = measure_repetition(*make_words(texts))
    for i, text in enumerate(texts):
        for name, column in measure_repetition(*make_words([text])).items():
            np.testing.assert_array_equal(column, together[name][i : i + 1], err_msg=name)


def test_a_slice_is_measured_like_a_copy() -> None:
    text = pa.array(["a b c", "d e d e d e", "f"], pa.large_string()).slice(1, 1)
    offsets, data = view_text(text)
    sliced = measure_repetition(offsets, data, scan_words(offsets, data))
    for name, column in measure_repetition(*make_words(["d e d e d e"])).items():
        np.testing.assert_array_equal(column, sliced[name], err_msg=name)


@pytest.mark.data
def test_the_reference_would_drop_the_same_documents() -> None:
    bounds = {
        "dup_para_frac": ("frac_dup_paragraphs", 0.30),
        "dup_para_char_frac": ("frac_dup_paragraph_chars", 0.20),
        "dup_line_frac": ("frac_dup_lines", 0.30),
        "dup_line_char_frac": ("frac_dup_line_chars", 0.20),
        **{f"top_{n}_gram": (f"frac_top_{n}gram_chars", bound) for n, bound in ((2, 0.20), (3, 0.18), (4, 0.16))},
        **{
            f"duplicated_{n}_n_grams": (f"frac_dup_{n}gram_chars", bound)
            for n, bound in zip(range(5, 11), (0.15, 0.14, 0.13, 0.12, 0.11, 0.10), strict=True)
        },
    }
    ids, texts = read_real_texts(1000)
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    measured = measure_repetition(offsets, data, scan_words(offsets, data))
    for i, reason in enumerate(read_decisions("gopher_repetition", ids)):
        first = next((name for name, (metric, bound) in bounds.items() if measured[metric][i] > bound), None)
        assert first == reason, ids[i]


def test_hostile_documents_take_linear_time() -> None:
    """Each is a megabyte; comparing every item with all before it would take minutes."""
    texts = ["x" * 1_000_000, "x\n" * 500_000, "\n" * 1_000_000, "a " * 500_000, " " * 1_000_000, "\n \n" * 333_333]
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    measured = measure_repetition(offsets, data, scan_words(offsets, data))
    assert measured["frac_dup_lines"].tolist() == [0, 499_999 / 500_001, 1 / 2, 0, 0, 333_333 / 333_335]
