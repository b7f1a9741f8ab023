from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.tally import (
    EMPTY,
    TopCounts,
    make_histogram,
    merge_histograms,
    merge_tallies,
    merge_top_counts,
    take_prefix,
)

tallies = st.dictionaries(st.sampled_from(["documents/read", "bytes/read", "rules/a/first"]), st.integers(-5, 10**15))


@given(tallies, tallies, tallies)
def test_merging_is_associative_and_commutative_with_a_zero(a: dict, b: dict, c: dict) -> None:
    left = merge_tallies([merge_tallies([a, b]), c])
    assert left == merge_tallies([a, merge_tallies([b, c])]) == merge_tallies([c, b, a])
    assert merge_tallies([a, EMPTY]) == merge_tallies([a]) == a


def test_merging_adds_counters_by_name_in_sorted_order() -> None:
    merged = merge_tallies([{"b": 2, "a": 1}, {"a": 3, "c": 0}])
    assert merged == {"a": 4, "b": 2, "c": 0}
    assert list(merged) == ["a", "b", "c"]


def test_prefix_is_a_whole_path_component() -> None:
    assert take_prefix({"rules/x/first": 1, "rulesets": 2, "read": 3}, "rules") == {"x/first": 1}


EDGES = np.array([0.0, 0.25, 0.5, 1.0])
VALUES = st.lists(st.one_of(st.floats(-1, 2), st.just(float("nan"))), max_size=30)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_histograms_of_pieces_add_up_to_that_of_the_whole(pieces: list[list[float]]) -> None:
    parts = [make_histogram(np.array(piece, dtype=np.float64), EDGES) for piece in pieces]
    values = [value for piece in pieces for value in piece]
    merged = merge_histograms(reversed(parts))
    assert merged.total == len(values)
    inside = [sum(low <= value < high for value in values) for low, high in itertools.pairwise(EDGES)]
    nulls = sum(math.isnan(value) for value in values)
    low, high = sum(value < 0 for value in values), sum(value >= 1 for value in values)
    assert merged.counts.tolist() == [low, *inside, high, nulls]


def test_histograms_over_other_edges_do_not_merge() -> None:
    parts = [make_histogram(np.zeros(1), EDGES), make_histogram(np.zeros(1), EDGES[:-1])]
    with pytest.raises(ValueError, match="different edges"):
        merge_histograms(parts)


WEIGHTS = st.dictionaries(st.text(alphabet="abcdefgh", min_size=1, max_size=1), st.integers(1, 50), max_size=8)


@given(st.lists(WEIGHTS, min_size=1, max_size=6), st.integers(1, 9), st.randoms())
def test_top_counts_are_short_by_at_most_what_they_say(
    pieces: list[dict[str, int]], capacity: int, order: random.Random
) -> None:
    truth = merge_tallies(pieces)
    parts = [merge_top_counts([TopCounts(capacity, piece)]) for piece in pieces]
    while len(parts) > 1:  # merged as a tree of any shape
        order.shuffle(parts)
        parts.append(merge_top_counts([parts.pop(), parts.pop()]))
    top = parts[0]
    assert len(top.counts) <= capacity
    assert top.missed * capacity <= sum(truth.values())
    for name, weight in truth.items():
        assert weight - top.missed <= top.counts.get(name, 0) <= weight
    if len(truth) <= capacity:
        assert top.counts == truth
