from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tamiz.tally import EMPTY, merge_tallies, take_prefix

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
