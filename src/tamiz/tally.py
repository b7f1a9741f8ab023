"""Tallies: named counters that merge. Every part has one; the run's is their sum, whatever the order.

A name is a path such as `documents/read` or `rules/c4.n_sentences_min/first`. Merging adds counters by name, so
tallies with `EMPTY` form a commutative monoid: the sum does not depend on how documents were cut into parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

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
