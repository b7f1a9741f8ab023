"""Counts that merge: every part has its own; the run's is their sum, whatever the order.

A tally's name is a path such as `documents/read` or `rules/c4.n_sentences_min/first`. Merging adds counters by name, so
tallies with `EMPTY` form a commutative monoid: the sum does not depend on how documents were cut into parts. So do
histograms over the same edges. `TopCounts` keeps the heaviest of any number of names in bounded memory, and says by
how much a count may be short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Tally = Mapping[str, int]

EMPTY: Tally = {}


def merge_tallies(tallies: Iterable[Tally]) -> dict[str, int]:
    """The sum of tallies, names in sorted order; a name absent from one counts 0 there."""
    total: Counter[str] = Counter()
    for tally in tallies:
        for name, count in tally.items():
            total[name] += count
    return {name: total[name] for name in sorted(total)}


def take_prefix(tally: Tally, prefix: str) -> dict[str, int]:
    """The counters whose name starts with `prefix` + "/", without it."""
    cut = prefix + "/"
    return {name[len(cut) :]: count for name, count in tally.items() if name.startswith(cut)}


@dataclass(frozen=True)
class Histogram:
    """How many values fall between `edges` (float64[n + 1], ascending): `counts` int64[n + 3].

    counts[0] are values below edges[0], counts[i] those in [edges[i - 1], edges[i]), counts[n + 1] those at or above
    edges[n], counts[n + 2] the nulls (NaN).
    """

    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]

    @property
    def total(self) -> int:
        """All values, nulls included."""
        return int(self.counts.sum())


def make_histogram(values: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> Histogram:
    """The histogram of float64[m] values, where NaN is null."""
    is_null = np.isnan(values)
    place = np.searchsorted(edges, values[~is_null], side="right")
    counts = np.bincount(place, minlength=len(edges) + 2).astype(np.int64)
    counts[-1] = int(is_null.sum())
    return Histogram(edges, counts)


def merge_histograms(histograms: Iterable[Histogram]) -> Histogram:
    """The sum of one or more histograms over the same edges; ValueError if their edges differ."""
    first, *rest = histograms
    counts = first.counts.copy()
    for other in rest:
        if not np.array_equal(first.edges, other.edges):
            raise ValueError("histograms over different edges have no sum")
        counts += other.counts
    return Histogram(first.edges, counts)


@dataclass(frozen=True)
class TopCounts:
    """The heaviest names of a stream: at most `capacity` counters, each short of the truth by at most `missed`.

    A name without a counter weighs at most `missed`. With no more names than `capacity`, all counts are exact.
    """

    capacity: int
    counts: Mapping[str, int] = field(default_factory=dict)
    missed: int = 0

    def list_top(self, n: int) -> list[tuple[str, int]]:
        """The `n` heaviest, heaviest first, names breaking ties."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:n]


def merge_top_counts(parts: Iterable[TopCounts]) -> TopCounts:
    """The sum of one or more TopCounts of one capacity, cut back to it.

    Cutting takes the heaviest weight that does not fit off every counter (Misra and Gries 1982, merged as in Agarwal et
    al. 2012, "Mergeable summaries"): `missed` stays below the total weight / `capacity`.
    """
    first, *rest = parts
    total = Counter(first.counts)
    missed = first.missed
    for other in rest:
        for name, count in other.counts.items():
            total[name] += count
        missed += other.missed
    if len(total) > first.capacity:
        cut = sorted(total.values(), reverse=True)[first.capacity]
        total = Counter({name: count - cut for name, count in total.items() if count > cut})
        missed += cut
    return TopCounts(first.capacity, dict(total), missed)
