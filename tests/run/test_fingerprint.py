from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from tamiz.run.fingerprint import find_changes, make_fingerprint


@dataclass(frozen=True)
class Shape:
    rows: int


def test_the_same_values_have_the_same_fingerprint_however_they_are_ordered_or_written() -> None:
    assert make_fingerprint({"a": 1, "b": [2.0, True]}) == make_fingerprint({"b": (2, True), "a": 1.0})
    assert make_fingerprint({"a": Shape(8)}) == make_fingerprint({"a": {"rows": 8}})


def test_other_values_have_another() -> None:
    seen = [{"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, {"a": True}, {"a": None}, {"a": [1]}, {"a": 1.5}, {}]
    assert len({make_fingerprint(value) for value in seen}) == len(seen)


@pytest.mark.parametrize("value", [object(), {1, 2}, math.nan, math.inf, b"x", {1: 2}, Shape])
def test_what_cannot_be_hashed_twice_alike_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="fingerprint"):
        make_fingerprint({"a": value})


def test_changes_are_named_by_key() -> None:
    old = {"rules": {"c4.n_sentences_min": 5, "x": 1}, "redact": ["ip"]}
    new = {"rules": {"c4.n_sentences_min": 3, "x": 1}, "redact": ["ip"], "seed": 4}
    assert find_changes(old, new) == ["rules.c4.n_sentences_min: 5 -> 3", "seed: null -> 4"]
