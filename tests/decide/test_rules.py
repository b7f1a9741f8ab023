from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tamiz.decide.recipes import RECIPES
from tamiz.decide.rules import Rule, count_failures, find_failures, list_failures, make_rules

LOW = Rule("r.x_min", "x", "below", 0.1)
HIGH = Rule("r.x_max", "x", "above", 0.3)
SCORE = Rule("language.min_score", "x", "not_above", 0.65)
LABEL = Rule("language.keep", "label", "not_in", labels=("en", "de"))


def test_equality_keeps_for_both_sides_and_drops_for_not_above() -> None:
    column = {"x": pa.array([0.09, 0.1, 0.3, 0.31, 0.65, 0.66])}
    assert find_failures(column, [LOW])[:, 0].tolist() == [True, False, False, False, False, False]
    assert find_failures(column, [HIGH])[:, 0].tolist() == [False, False, False, True, True, True]
    assert find_failures(column, [SCORE])[:, 0].tolist() == [True] * 5 + [False]


def test_null_passes_numbers_and_fails_labels() -> None:
    columns = {"x": pa.array([None, 0.0], type=pa.float64()), "label": pa.array([None, "en"], type=pa.string())}
    assert find_failures(columns, [LOW, HIGH, SCORE, LABEL]).tolist() == [
        [False, False, False, True],
        [True, False, True, False],
    ]


def test_integer_metrics_compare_as_numbers() -> None:
    assert find_failures({"x": pa.array([None, 0, 1], type=pa.int32())}, [LOW])[:, 0].tolist() == [False, True, False]


def test_a_bound_that_is_none_switches_its_rule_off_and_names_are_config_keys() -> None:
    rules = make_rules("gopher_quality", {"n_words_min": 50, "n_words_max": None, "mean_word_chars_max": 10})
    assert [(rule.name, rule.metric, rule.fails, rule.bound) for rule in rules] == [
        ("gopher_quality.n_words_min", "n_words", "below", 50.0),
        ("gopher_quality.mean_word_chars_max", "mean_word_chars", "above", 10.0),
    ]
    assert rules[0].recipe == "gopher_quality"


def test_every_published_rule_is_a_metric_and_a_side() -> None:
    assert all(key.endswith(("_min", "_max")) for recipe in RECIPES.values() for key in recipe)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=20))
def test_counts_and_lists_agree_with_a_count_by_hand(rows: list[list[bool]]) -> None:
    rules = [LOW, HIGH, SCORE]
    failures = np.array(rows, dtype=np.bool_).reshape(-1, 3)
    names = [[rule.name for rule, fails in zip(rules, row, strict=True) if fails] for row in rows]
    assert list_failures(failures, rules).to_pylist() == names
    counts = count_failures(failures, rules)
    for rule in rules:
        assert counts[f"rules/{rule.name}/failed"] == sum(rule.name in row for row in names)
        assert counts[f"rules/{rule.name}/alone"] == sum(row == [rule.name] for row in names)
        assert counts[f"rules/{rule.name}/first"] == sum(row[:1] == [rule.name] for row in names)
