"""Surface metrics against a plain Python statement of them, hand counts, and the reference's decisions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from tamiz.measure.surface import Surface, measure_surface
from tamiz.measure.words import STOP_WORDS, scan_words
from tamiz.schema import view_text
from tests.measure.made_words import TEXTS, is_symbol, make_words, read_decisions, read_real_texts, split_words


def divide(a: float, b: float) -> float:
    return a / b if b else np.nan


def state_surface(text: str) -> Surface:
    words = split_words(text)
    plain = [word for word in words if not is_symbol(word)]
    lines = text.splitlines()
    return Surface(
        n_all_words=len(words),
        n_words=len(plain),
        mean_word_chars=divide(sum(map(len, plain)), len(plain)),
        hashes_per_word=divide(text.count("#"), len(words)),
        ellipses_per_word=divide(text.count("...") + text.count("…"), len(words)),
        frac_bullet_lines=divide(sum(line.lstrip().startswith(("•", "-")) for line in lines), len(lines)),
        frac_ellipsis_lines=divide(sum(line.rstrip().endswith(("...", "…")) for line in lines), len(lines)),
        frac_alpha_words=divide(sum(any(map(str.isalpha, word)) for word in words), len(words)),
        n_stop_words=len(set(words) & set(STOP_WORDS)),
    )


def check(texts: list[str]) -> None:
    measured = measure_surface(*make_words(texts))
    stated = [state_surface(text) for text in texts]
    for name, column in measured._asdict().items():
        np.testing.assert_array_equal(column, [getattr(row, name) for row in stated], err_msg=name)


@settings(deadline=None)  # the first call compiles
@given(TEXTS, TEXTS, TEXTS)
@example("- a\r\n\u2003• b\r\r\n-", "", "....... a ...\u3000\u2028….. #\x85 …\u00a0")
@example(" \n ", "..\n...", "…\n#")
def test_every_document_follows_the_statement_of_the_metrics(first: str, second: str, third: str) -> None:
    check([first, second, third])


@pytest.mark.data
def test_real_documents_follow_the_statement_of_the_metrics() -> None:
    check(read_real_texts(250)[1])


def test_hand_counts() -> None:
    measured = measure_surface(
        *make_words(["- The cat, and the dog...\n  • #1 of many …\n\nhave\u2029to be – with that"])
    )
    assert measured.n_all_words.tolist() == [22]  # each of the three full stops is a word here
    assert measured.n_words.tolist() == [14]  # the bullet is no symbol
    assert measured.mean_word_chars.tolist() == [39 / 14]
    assert measured.hashes_per_word.tolist() == [1 / 22]
    assert measured.ellipses_per_word.tolist() == [2 / 22]
    assert measured.frac_bullet_lines.tolist() == [2 / 5]
    assert measured.frac_ellipsis_lines.tolist() == [2 / 5]
    assert measured.frac_alpha_words.tolist() == [12 / 22]
    assert measured.n_stop_words.tolist() == [8]


def test_nothing_to_measure_is_not_zero() -> None:
    empty, blank, marks = (column.tolist() for column in np.array(measure_surface(*make_words(["", " \n", "#!"]))).T)
    assert np.isnan(empty).tolist() == [False, False, True, True, True, True, True, True, False]
    assert np.isnan(blank).tolist() == [False, False, True, True, True, False, False, True, False]
    assert np.isnan(marks).tolist() == [False, False, True, False, False, False, False, False, False]


@pytest.mark.data
def test_the_reference_would_drop_the_same_documents() -> None:
    ids, texts = read_real_texts(1000)
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    measured = measure_surface(offsets, data, scan_words(offsets, data))
    checks = {
        "gopher_short_doc": measured.n_words < 50,
        "gopher_long_doc": measured.n_words > 100_000,
        "gopher_below_avg_threshold": measured.mean_word_chars < 3,
        "gopher_above_avg_threshold": measured.mean_word_chars > 10,
        "gopher_too_many_hashes": measured.hashes_per_word > 0.1,
        "gopher_too_many_ellipsis": measured.ellipses_per_word > 0.1,
        "gopher_too_many_bullets": measured.frac_bullet_lines > 0.9,
        "gopher_too_many_end_ellipsis": measured.frac_ellipsis_lines > 0.3,
        "gopher_below_alpha_threshold": measured.frac_alpha_words < 0.8,
        "gopher_enough_stop_words": measured.n_stop_words < 2,
    }
    for i, reason in enumerate(read_decisions("gopher_quality", ids)):
        assert next((name for name, fails in checks.items() if fails[i]), None) == reason, ids[i]


def test_hostile_documents_take_linear_time() -> None:
    """Each is a megabyte; stripping a line anew for every break would take minutes."""
    texts = [" " * 999_999 + "-", "-" + "\u3000" * 333_333, "\r" * 1_000_000, "." * 1_000_000, "…\u2028" * 166_666]
    offsets, data = view_text(pa.array(texts, pa.large_string()))
    measured = measure_surface(offsets, data, scan_words(offsets, data))
    assert measured.frac_bullet_lines.tolist() == [1, 1, 0, 0, 0]
    assert measured.frac_ellipsis_lines.tolist() == [0, 0, 0, 1, 1]
