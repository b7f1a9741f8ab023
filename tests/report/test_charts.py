from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.decide.rules import Rule, find_failures
from tamiz.report.charts import MOST_STOPS, draw_histogram, make_stops, place_values
from tamiz.report.findings import RuleFact, make_edges
from tamiz.report.page import LONG, clip_text, dump_json
from tamiz.tally import make_histogram

VALUES = st.lists(st.one_of(st.sampled_from([0, 0.01, 0.1, 0.3, 1, 2, 50]), st.floats(0, 1e7), st.just(float("nan"))))


@pytest.mark.parametrize("fails", ["below", "above", "not_above"])
@pytest.mark.parametrize("metric", ["frac_dup_lines", "n_words", "domain_score"])
@given(values=VALUES, bound=st.sampled_from([0.0, 0.1, 0.3, 2.0, 50.0, 123.4]))
def test_a_place_decides_as_the_rule_does_at_every_stop(
    fails: str, metric: str, values: list[float], bound: float
) -> None:
    fact = RuleFact("r.x", metric, fails, bound, (), None)
    column = np.array(values, dtype=np.float64)
    stops = make_stops(fact, column)
    assert bound in stops
    assert stops == sorted(set(stops))
    assert len(stops) <= MOST_STOPS + 2
    places, is_minimum = place_values(fact, stops, column)
    for k, stop in enumerate(stops):
        rule = Rule("r.x", metric, fails, stop)  # type: ignore[arg-type]
        failures = find_failures({metric: pa.array(values, pa.float64(), from_pandas=True)}, [rule])[:, 0]
        kept = k < places if is_minimum else k >= places
        assert (kept == ~failures).all()


@given(VALUES, VALUES, st.floats(0, 1e6))
def test_a_chart_shows_every_document_once(kept: list[float], rejected: list[float], mark: float) -> None:
    edges = make_edges("n_words")
    sides = [make_histogram(np.array(side, dtype=np.float64), edges) for side in (kept, rejected)]
    chart = draw_histogram(sides[0], sides[1], [mark])
    nulls = sum(np.isnan(value) for value in [*kept, *rejected])
    assert sum(up + down for _, _, up, down in chart.bins) + nulls == len(kept) + len(rejected)
    assert chart.nulls == nulls
    assert 0 <= chart.place(mark) <= 100
    assert all(0 <= x <= 100 for x, _ in chart.ticks)
    assert chart.above.count("M") == sum(up > 0 for _, _, up, _ in chart.bins)


@given(st.text())
def test_a_clipped_text_is_a_beginning_of_bounded_size(text: str) -> None:
    for whole in (text, text * 500):
        clipped = clip_text(whole)
        assert whole.startswith(clipped.removesuffix("…")) or whole == clipped
        assert len(clipped) <= LONG + 1
        assert sum(5 if c in "<>&'\"" else len(c.encode("utf-8", "replace")) for c in clipped) <= 1803


def test_json_in_a_script_element_cannot_end_it() -> None:
    assert "<" not in dump_json({"a": "</script><!--", "b": ["&", ">"]})
