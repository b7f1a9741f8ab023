"""A rule is a bound on a metric; a document is kept when no rule fails. All failing rules are recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Fails = Literal["below", "above", "not_above", "not_in"]


@dataclass(frozen=True)
class Rule:
    """One bound on one metric.

    `name` is the config key and the reject reason ("gopher_quality.n_words_min"). A document fails `below` when the
    metric < bound, `above` when > bound, `not_above` when <= bound, `not_in` when the metric (a string) is none of
    `labels`. A null or NaN metric could not be measured and passes every numeric rule; it fails `not_in`.
    """

    name: str
    metric: str
    fails: Fails
    bound: float = 0.0
    labels: tuple[str, ...] = ()

    @property
    def recipe(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".", 1)[0]


def make_rules(recipe: str, bounds: Mapping[str, float | None]) -> list[Rule]:
    """The rules of one recipe from `{"n_words_min": 50.0, ...}`; a bound that is None switches its rule off."""
    rules = []
    for key, bound in bounds.items():
        if bound is None:
            continue
        metric, side = key.rsplit("_", 1)
        rules.append(Rule(f"{recipe}.{key}", metric, "below" if side == "min" else "above", float(bound)))
    return rules


def find_failures(metrics: Mapping[str, pa.Array], rules: Sequence[Rule]) -> npt.NDArray[np.bool_]:
    """bool[n_documents, n_rules]: True where the document fails the rule. `metrics`: name -> column of the batch."""
    n_documents = len(next(iter(metrics.values()))) if metrics else 0
    failures = np.zeros((n_documents, len(rules)), dtype=np.bool_, order="F")  # worked on rule by rule
    for i, rule in enumerate(rules):
        failures[:, i] = _fail_one(metrics[rule.metric], rule)
    return failures


def _fail_one(column: pa.Array, rule: Rule) -> npt.NDArray[np.bool_]:
    if rule.fails == "not_in":
        listed = pc.is_in(column, value_set=pa.array(rule.labels, type=pa.string()))  # null is never listed
        return ~np.asarray(listed.to_numpy(zero_copy_only=False), dtype=np.bool_)
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)  # null becomes NaN, and NaN compares false
    if rule.fails == "below":
        return np.asarray(values < rule.bound)
    if rule.fails == "above":
        return np.asarray(values > rule.bound)
    return np.asarray(values <= rule.bound)


def list_failures(failures: npt.NDArray[np.bool_], rules: Sequence[Rule]) -> pa.ListArray:
    """list<string>[n_documents]: the names of all rules each document fails, in recipe order."""
    _, which = np.nonzero(failures)
    offsets = np.concatenate([[0], np.cumsum(failures.sum(axis=1))]).astype(np.int32)
    names = pa.array([rule.name for rule in rules], type=pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(which.astype(np.int64))))


def count_failures(failures: npt.NDArray[np.bool_], rules: Sequence[Rule]) -> dict[str, int]:
    """Counters `rules.<name>.failed` / `.alone` / `.first` (documents) of one batch.

    failed: documents that fail the rule; alone: documents no other rule rejects; first: documents for which it is the
    first failing rule in recipe order.
    """
    n_failed = np.zeros(len(failures), dtype=np.int16)
    counts = {}
    for i, rule in enumerate(rules):
        counts[f"rules/{rule.name}/failed"] = int(np.count_nonzero(failures[:, i]))
        counts[f"rules/{rule.name}/alone"] = 0
        counts[f"rules/{rule.name}/first"] = int(np.count_nonzero(failures[:, i] & (n_failed == 0)))
        n_failed += failures[:, i]
    is_alone = n_failed == 1
    for i, rule in enumerate(rules):
        counts[f"rules/{rule.name}/alone"] = int(np.count_nonzero(failures[:, i] & is_alone))
    return counts
