"""The curve of one rule: what would be kept at each of many bounds, counted in one pass over the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tamiz.decide.rules import Rule
from tamiz.errors import ConfigError
from tamiz.report.answer import Sweep
from tamiz.run.ledger import Done
from tamiz.run.question import Question, find_key, make_new_rules, make_overrides
from tamiz.run.verdicts import Verdicts, find_kept, map_parts, open_verdicts, read_failures
from tamiz.run.whatif import count_packed, find_new_failures, find_readable
from tamiz.schema import F64, I64
from tamiz.store import Folder

_MOST_STEPS = 2000


def sweep_rule(folder: Folder, question: Question, spec: str) -> Sweep:
    """The curve of `rule=a:b:step`, with the question's other changes in force."""
    name, bounds = parse_sweep(spec)
    config, verdicts = open_verdicts(folder)
    if not verdicts.parts:
        raise ConfigError(f"{folder.url}: no verdicts yet; sift has not finished a part")
    overrides = make_overrides(question, config)
    key = find_key(name, "--sweep")
    name = key.removeprefix("rules.")
    new = make_new_rules(verdicts, folder, [*overrides, f"{key}={bounds[0]!r}"])
    swept = next((rule for rule in new if rule.name == name), None)
    if swept is None or swept.fails == "not_in":
        raise ConfigError(f"--sweep {name}: not a rule with a number")
    others = [rule for rule in new if rule.name != name]
    grid = np.array(bounds, dtype=np.float64)
    curves = list(map_parts(verdicts.parts, partial(_sweep_part, verdicts, others, swept, grid)))
    documents, n_bytes = (np.sum([curve[i] for curve in curves], axis=0) for i in (0, 1))
    packed = count_packed(folder)
    kept = sum(part.tally["bytes/read"] - part.tally["bytes/rejected"] for part in verdicts.parts)
    now = next((rule.bound for rule in verdicts.rules if rule.name == name), None)
    per_byte = packed["tokens"] / kept if packed and kept else None
    return Sweep(name, bounds, documents.tolist(), n_bytes.tolist(), now, per_byte)


def parse_sweep(spec: str) -> tuple[str, list[float]]:
    """`rule=a:b:step` -> the rule and its bounds, decimal arithmetic so that 0.1:0.3:0.1 ends at 0.3."""
    name, _, span = spec.partition("=")
    try:
        first, last, step = (Decimal(part) for part in span.split(":"))
        count = int((last - first) / step) + 1
    except (InvalidOperation, ValueError, ZeroDivisionError, OverflowError):
        count = 0
    if not 2 <= count <= _MOST_STEPS:
        raise ConfigError(
            f"--sweep {spec!r}: write rule=from:to:step with 2 to {_MOST_STEPS} steps, for instance "
            "gopher_quality.n_words_min=20:100:10"
        )
    return name, [float(first + i * step) for i in range(count)]


def _sweep_part(verdicts: Verdicts, others: Sequence[Rule], swept: Rule, grid: F64, part: Done) -> tuple[I64, I64]:
    """Documents and bytes kept at each bound of the ascending grid: values counted between bounds, then summed."""
    changed = [rule for rule in others if rule not in set(verdicts.rules)]
    columns = ["n_bytes", "outcome", "failed", *sorted({swept.metric, *(rule.metric for rule in changed)})]
    documents, n_bytes = (np.zeros(len(grid), dtype=np.int64) for _ in range(2))
    for batch in verdicts.read(part, columns):
        is_read = find_readable(batch)
        before = read_failures(batch.column("failed"), verdicts.rules)
        after = find_new_failures(batch, before, verdicts.rules, others, changed, is_read)
        rest = is_read & find_kept(after)
        values = batch.column(swept.metric).cast(pa.float64()).to_numpy(zero_copy_only=False)[rest]
        sizes = batch.column("n_bytes").to_numpy()[rest]
        documents += _count_kept(values, np.ones_like(sizes), swept, grid)
        n_bytes += _count_kept(values, sizes, swept, grid)
    return documents, n_bytes


def _count_kept(values: F64, weights: I64, rule: Rule, grid: F64) -> I64:
    """int64[len(grid)]: the weight of values that pass the rule at each bound; NaN passes all."""
    is_null = np.isnan(values)
    side: Any = "right" if rule.fails == "below" else "left"
    place = np.searchsorted(grid, values[~is_null], side=side)
    sums = np.zeros(len(grid) + 1, dtype=np.int64)
    np.add.at(sums, place, weights[~is_null])
    free = int(weights[is_null].sum())
    if rule.fails == "above":  # kept where value <= bound: at place and beyond
        return np.asarray(np.cumsum(sums)[:-1] + free)
    return np.asarray(np.cumsum(sums[::-1])[::-1][1:] + free)  # kept where the bound is before place
