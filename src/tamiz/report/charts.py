"""Histograms as SVG paths, and the stops of a threshold's slider.

Drawn here rather than by a charting library in the page: Vega, Vega-Lite and Vega-Embed are 850 kB of script and a
second of start for thirty charts, and their colours do not follow the reader's light or dark setting; a path is 1 kB,
is there before any script runs, prints, and takes its colour from the style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tamiz.report.findings import RuleFact, is_fraction
from tamiz.schema import F64, I64
from tamiz.tally import Histogram

WIDTH, HEIGHT = 600, 60  # of one side of a chart, in the units of its viewBox
_MOST_BARS = 75
_TICK_PERCENT = 14  # between the labels of an axis, at least
MOST_STOPS = 250  # a place among them fits a byte


class Chart(NamedTuple):
    """One or two series over shared bins: paths in a viewBox of WIDTH x HEIGHT each.

    Two series have bars as high as the logarithm of their count: most metrics are 0 on most documents, and what matters
    is the few near the threshold. `bins`: left edge in percent, label, counts above and below of every bar that is not
    empty. `ticks`: (percent, label). `nulls`: values that could not be measured. `label`: the chart in a sentence.
    """

    above: str
    below: str
    bins: Sequence[tuple[float, str, int, int]]
    ticks: Sequence[tuple[float, str]]
    edges: F64
    nulls: int
    label: str

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the width; its bars' scale is equal width per bin."""
        return _place(value, self.edges)


def _place(value: float, edges: F64) -> float:
    return round(100 * float(np.interp(value, edges, np.arange(len(edges)))) / (len(edges) - 1), 2)


def draw_histogram(
    above: Histogram, below: Histogram | None = None, marks: Iterable[float] = (), what: str = "documents"
) -> Chart:
    """Crop to where there is anything (and to `marks`), join neighbouring bins down to _MOST_BARS, draw."""
    edges, up, down = _crop(above, below, list(marks))
    scale = (lambda n: math.log2(1 + n)) if below else float
    most = scale(max(1, up.max(initial=0), down.max(initial=0)))
    width = WIDTH / len(up)
    heights = [[HEIGHT * scale(int(count)) / most for count in side] for side in (up, down)]
    bins = [
        (round(100 * i / len(up), 2), f"{show(edges[i])} to {show(edges[i + 1])}", int(up[i]), int(down[i]))
        for i in range(len(up))
        if up[i] or down[i]
    ]
    ticks = _choose_ticks(edges)
    nulls = int(above.counts[-1]) + (int(below.counts[-1]) if below else 0)
    paths = [_draw_bars(heights[0], width, -1), _draw_bars(heights[1], width, 1)]
    return Chart(paths[0], paths[1], bins, ticks, edges, nulls, _describe(above, below, what))


def _choose_ticks(edges: F64) -> list[tuple[float, str]]:
    """Round values between the edges, as many as have room: 0, then 1, 2 or 5 times a power of ten."""
    low, high = float(edges[0]), float(edges[-1])
    is_even = np.allclose(np.diff(edges), edges[1] - edges[0])
    if is_even:
        steps = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 2, 5)]
        step = next(step for step in steps if 100 * step / (high - low) >= _TICK_PERCENT)
        values = [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    else:
        tens = [10.0**power for power in range(-1, 8)]
        values = [0.0, *tens, *(2 * ten for ten in tens), *(5 * ten for ten in tens)]  # the roundest first
    ticks: list[tuple[float, str]] = []
    for value in values:
        at = _place(value, edges)
        if low <= value <= high and all(abs(at - other) >= _TICK_PERCENT for other, _ in ticks):
            ticks.append((at, show(value)))
    return sorted(ticks)


def _crop(above: Histogram, below: Histogram | None, marks: list[float]) -> tuple[F64, I64, I64]:
    """Edges and counts, what lies outside the edges added to the outermost bins."""
    pair = [_fold(above), _fold(below) if below else np.zeros(len(above.edges) - 1, dtype=np.int64)]
    used = np.flatnonzero(pair[0] + pair[1])
    marked = [int(np.searchsorted(above.edges, mark, side="right")) - 1 for mark in marks]
    inside = [min(max(i, 0), len(above.edges) - 2) for i in marked]
    low = min([*used[:1].tolist(), *inside], default=0)
    high = max([*used[-1:].tolist(), *inside], default=0) + 1
    if high - low < 4:
        low, high = max(low - 2, 0), min(high + 2, len(above.edges) - 1)
    factor = -(-(high - low) // _MOST_BARS)
    high = min(high + (low - high) % factor, len(above.edges) - 1)
    starts = np.arange(low, high, factor)
    sums = [np.add.reduceat(side[low:high], starts - low) for side in pair]
    return np.append(above.edges[starts], above.edges[high]), sums[0], sums[1]


def _fold(histogram: Histogram) -> I64:
    counts = histogram.counts[1:-2].copy()
    counts[0] += histogram.counts[0]
    counts[-1] += histogram.counts[-2]
    return counts


def _draw_bars(heights: Sequence[float], width: float, direction: int) -> str:
    base = HEIGHT if direction < 0 else 0
    gap = width * 0.12
    return "".join(
        f"M{i * width + gap / 2:.1f} {base}v{direction * max(height, 1):.1f}h{width - gap:.1f}V{base}z"
        for i, height in enumerate(heights)
        if height
    )


def _describe(above: Histogram, below: Histogram | None, what: str) -> str:
    sides = [("kept: ", above), ("rejected: ", below)] if below else [("", above)]
    told = []
    for name, side in sides:
        quartiles = [find_quantile(side, q) for q in (0.25, 0.5, 0.75)]
        spread = f", a quarter below {show(quartiles[0])}, half below {show(quartiles[1])}, three quarters below "
        told.append(f"{name}{side.total:,} {what}" + (spread + show(quartiles[2]) if side.total else ""))
    return "Histogram; " + "; ".join(told)


def find_quantile(histogram: Histogram, q: float) -> float:
    """Roughly: the upper edge of the bin in which the quantile falls."""
    counts = _fold(histogram)
    at = int(np.searchsorted(np.cumsum(counts), q * counts.sum()))
    return float(histogram.edges[min(at + 1, len(histogram.edges) - 1)])


def show(value: float) -> str:
    """Three significant digits, with separators: 0.125, 4.7, 1,230, 12,300."""
    if value == 0:
        return "0"
    if abs(value) < 1000:
        return f"{value:.3g}"
    return f"{float(f'{value:.3g}'):,.0f}"


def make_stops(rule: RuleFact, values: F64) -> list[float]:
    """The bounds a slider can take, ascending; the run's and the published one are among them, none is far outside."""
    if is_fraction(rule.metric):
        grid = [i / 1000 for i in range(10)] + [0.01, 0.015] + [i / 100 for i in range(2, 101)]
    else:
        whole = rule.metric.startswith("n_") or rule.metric.endswith("_terms")
        small = [float(i) for i in range(21)] if whole else [i / 2 for i in range(41)]
        grid = small + [float(f"{20 * 1.06**i:.2g}") for i in range(1, 200)]
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    inside = [stop for stop in sorted(set(grid)) if stop <= high]
    beyond = [stop for stop in sorted(set(grid)) if stop > high][:1]
    below = [stop for stop in inside if stop <= low][:-1]
    own = {rule.bound} | ({rule.published} if rule.published is not None else set())
    stops = sorted({*inside[len(below) :], *beyond, *own})
    while len(stops) > MOST_STOPS:
        stops = sorted({*stops[::2], *own})
    return stops


def place_values(rule: RuleFact, stops: Sequence[float], values: F64) -> tuple[np.ndarray, bool]:
    """uint8[n]: how many stops each value passes, counted so that one comparison decides: (places, is_minimum).

    is_minimum: the value passes stop k when k < place; otherwise when k >= place. A null passes every stop.
    """
    is_minimum = rule.fails != "above"
    side: Literal["left", "right"] = "right" if rule.fails == "below" else "left"
    places = np.searchsorted(np.array(stops), np.nan_to_num(values), side=side)
    places[np.isnan(values)] = 255 if is_minimum else 0
    return places.astype(np.uint8), is_minimum
