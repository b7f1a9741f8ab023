"""Line metrics against a plain Python statement of them, hand counts, and the reference's decisions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from tamiz.measure.chars import TERMINAL, flags_of, load_chars
from tamiz.measure.lines import Lines, measure_lines
from tamiz.measure.words import scan_words
from tamiz.schema import view_text
from tests.measure.made_words import TEXTS, read_decisions, read_real_texts, split_words


def measure(texts: list[str], n_words: list[int]) -> Lines:
    return measure_lines(*view_text(pa.array(texts, pa.large_string())), np.array(n_words, dtype=np.int32))


def is_terminal(char: str) -> bool:
    return bool(flags_of(load_chars(), ord(char)) & TERMINAL)


def state_lines(text: str) -> Lines:
    lines = [line for line in text.split("\n") if line.strip()]
    n_words = len(split_words(text))
    seen: set[str] = set()
    repeats = [line for line in lines if line in seen or seen.add(line)]
    return Lines(
        n_text_lines=len(lines),
        frac_terminal_lines=sum(is_terminal(line[-1]) for line in lines) / len(lines) if lines else np.nan,
        frac_short_lines=sum(len(line) <= 30 for line in lines) / len(lines) if lines else np.nan,
        frac_dup_text_line_chars=sum(map(len, repeats)) / len(text.replace("\n", "")) if lines else np.nan,
        newlines_per_word=text.count("\n") / n_words if n_words else np.nan,
    )


def check(texts: list[str]) -> None:
    measured = measure(texts, [len(split_words(text)) for text in texts])
    stated = [state_lines(text) for text in texts]
    for name, column in measured._asdict().items():
        np.testing.assert_array_equal(column, [getattr(row, name) for row in stated], err_msg=name)


@settings(deadline=None)  # the first call compiles
@given(TEXTS, TEXTS, TEXTS)
@example("a.\r\na.\r\n", "\n\u3000\n", "é" * 30 + "\n" + "é" * 31 + "。\n" + "é" * 30)
@example("", "a\x85\nb\u2028c\n\x1c\nb\u2028c", "b\u2028c")
def test_every_document_follows_the_statement_of_the_metrics(first: str, second: str, third: str) -> None:
    check([first, second, third])


@pytest.mark.data
def test_real_documents_follow_the_statement_of_the_metrics() -> None:
    check(read_real_texts(500)[1])


def test_hand_counts() -> None:
    texts = ['A line.\nA quote."\n\n \nA line.\nWhat follows has thirty-one chars', "x" * 30 + "?", "\n\n"]
    measured = measure(texts, [16, 2, 0])
    assert measured.n_text_lines.tolist() == [4, 1, 0]
    np.testing.assert_array_equal(measured.frac_terminal_lines, [2 / 4, 1, np.nan])
    np.testing.assert_array_equal(measured.frac_short_lines, [3 / 4, 0, np.nan])
    np.testing.assert_array_equal(measured.frac_dup_text_line_chars, [7 / 57, 0, np.nan])
    np.testing.assert_array_equal(measured.newlines_per_word, [5 / 16, 0, np.nan])


@pytest.mark.data
def test_the_reference_would_drop_the_same_documents() -> None:
    ids, texts = read_real_texts(1000)
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    measured = measure_lines(offsets, data, np.diff(scan_words(offsets, data).doc_offsets).astype(np.int32))
    checks = {
        "empty": measured.n_text_lines < 1,
        "line_punct_ratio": measured.frac_terminal_lines < 0.12,
        "short_line_ratio": measured.frac_short_lines > 0.67,
        "char_dup_ratio": measured.frac_dup_text_line_chars > 0.01,
        "list_ratio": measured.newlines_per_word > 0.3,
    }
    for i, reason in enumerate(read_decisions("fineweb_quality", ids)):
        assert next((name for name, fails in checks.items() if fails[i]), None) == reason, ids[i]


def test_hostile_documents_take_linear_time() -> None:
    """Each is a megabyte; comparing every line with all before it would take minutes."""
    texts = ["x\n" * 500_000, "\n" * 1_000_000, "x" * 1_000_000, "".join(f"{i}\n" for i in range(150_000))]
    measured = measure(texts, [500_000, 0, 1, 150_000])
    assert measured.n_text_lines.tolist() == [500_000, 0, 1, 150_000]
    np.testing.assert_array_equal(measured.frac_dup_text_line_chars, [499_999 / 500_000, np.nan, 0, 0])
