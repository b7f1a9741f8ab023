"""What a run's verdicts tell: counts that merge, part by part, into the numbers and charts of the page.

`count_batch` turns a batch of verdicts into Findings, `merge_findings` adds them up. A Findings is as large after ten
million documents as after ten thousand: histograms over fixed edges, the heaviest names, the nearest examples, and the
sample of documents with the smallest keys, which is uniform because a doc_id is a hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamiz.schema import F64, I64, U64
from tamiz.tally import Histogram, Tally, TopCounts, make_histogram, merge_histograms, merge_tallies, merge_top_counts

SAMPLE = 10_000  # documents whose verdicts the page carries; all of them, if there are no more
EXAMPLES = 10  # documents shown on either side of a threshold
NAMES = 20_000  # hosts, languages, folders counted at once: a count is short by less than 1/20,000 of the total
QUARANTINED = 10  # positions shown per reason

BOOL = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RuleFact:
    """A rule as the page shows it; see decide.rules.Rule.

    `published`: the recipe's own bound, None if it has none. A rule that is off in the run (`is_on` False) is shown
    too if its metric was measured, at its published bound.
    """

    name: str
    metric: str
    fails: str
    bound: float
    labels: tuple[str, ...]
    published: float | None
    is_on: bool = True


class Example(NamedTuple):
    """A document near a threshold; `order` sorts: those the rule decides alone first, then by distance, then by key."""

    order: tuple[int, float, int]
    source: str
    origin: str
    url: str | None
    doc_id: bytes
    value: float | str | None
    n_failed: int  # rules that fail it, this one included


@dataclass(frozen=True)
class Sample:
    """Documents with the smallest keys: keys uint64[n] ascending, n_bytes int64[n], metrics name -> float64[n] (NaN =
    null), failed bool[n, n_rules]."""

    keys: U64
    n_bytes: I64
    metrics: Mapping[str, F64]
    failed: BOOL


@dataclass(frozen=True)
class Findings:
    """Mergeable; `rules`, those that are on first, are the same in all that are merged.

    tally        documents/<outcome>, bytes/<outcome> (text as read), documents/read, and per rule
                 rules/<name>/failed|alone|first (documents) and bytes/<name>/failed|alone
    overlap      int64[n_on, n_on]: documents that fail both; the diagonal is `failed`
    kept, rejected  histogram of every metric
    top          TopCounts by what is counted: `hosts/kept` (bytes), `languages/rejected` (documents)...
    passing, failing  examples by rule, nearest first
    quarantined  positions by reason
    """

    rules: Sequence[RuleFact]
    tally: Tally
    overlap: I64
    kept: Mapping[str, Histogram]
    rejected: Mapping[str, Histogram]
    top: Mapping[str, TopCounts]
    passing: Mapping[str, Sequence[Example]]
    failing: Mapping[str, Sequence[Example]]
    quarantined: Mapping[str, Sequence[str]]
    sample: Sample = field(repr=False)


def is_fraction(metric: str) -> bool:
    """True for metrics that are shares of something, nearly always 0..1."""
    return metric.startswith("frac_") or (metric.endswith(("_per_word", "_score")) and metric != "domain_score")


def make_edges(metric: str) -> F64:
    """Fixed edges: hundredths for shares; eighths of an octave from 1/8 to 2^24 for counts and lengths."""
    if is_fraction(metric):
        return np.arange(101) / 100
    return np.concatenate([[0.0], 2.0 ** (np.arange(-24, 193) / 8)])


def count_batch(batch: pa.RecordBatch, rules: Sequence[RuleFact], failures: BOOL, keys: U64) -> Findings:
    """The findings of one batch of verdicts; failures bool[n, n_on], keys uint64[n] from the doc_ids."""
    outcome = batch.column("outcome")
    is_kept = _equals(outcome, "kept")
    is_rejected = _equals(outcome, "rejected")
    n_bytes = batch.column("n_bytes").to_numpy()
    metrics = {name: _read_numbers(batch.column(name)) for name in _list_numbers(batch.schema)}
    n_failed = failures.sum(axis=1)
    return Findings(
        rules=rules,
        tally=_count(rules, failures, n_failed, n_bytes, is_kept, is_rejected),
        overlap=_count_overlap(failures),
        kept={name: make_histogram(values[is_kept], make_edges(name)) for name, values in metrics.items()},
        rejected={name: make_histogram(values[is_rejected], make_edges(name)) for name, values in metrics.items()},
        top=_count_names(batch, n_bytes, is_kept, is_rejected),
        **_find_examples(batch, rules, failures, n_failed, metrics, keys),
        quarantined=_list_quarantined(batch),
        sample=_take_sample(batch, failures, n_bytes, metrics, keys, is_kept | is_rejected),
    )


def _list_on(rules: Sequence[RuleFact]) -> list[RuleFact]:
    return [rule for rule in rules if rule.is_on]


def _equals(column: pa.Array, value: str) -> BOOL:
    return np.asarray(pc.equal(column, value).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _list_numbers(schema: pa.Schema) -> list[str]:
    """The metric columns that are numbers."""
    metrics = schema.names[schema.names.index("n_bytes") + 1 : schema.names.index("failed")]
    return [name for name in metrics if not pa.types.is_string(schema.field(name).type)]


def _read_numbers(column: pa.Array) -> F64:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _count(
    rules: Sequence[RuleFact], failures: BOOL, n_failed: I64, n_bytes: I64, is_kept: BOOL, is_rejected: BOOL
) -> Tally:
    tally = {"documents/read": len(failures), "bytes/read": int(n_bytes.sum())}
    for outcome, mask in (("kept", is_kept), ("rejected", is_rejected), ("quarantined", ~(is_kept | is_rejected))):
        tally[f"documents/{outcome}"] = int(mask.sum())
        tally[f"bytes/{outcome}"] = int(n_bytes[mask].sum())
    before = np.zeros(len(failures), dtype=np.int64)
    for i, rule in enumerate(_list_on(rules)):
        fails = failures[:, i]
        alone = fails & (n_failed == 1)
        tally |= {
            f"rules/{rule.name}/failed": int(fails.sum()),
            f"rules/{rule.name}/alone": int(alone.sum()),
            f"rules/{rule.name}/first": int((fails & (before == 0)).sum()),
            f"bytes/{rule.name}/failed": int(n_bytes[fails].sum()),
            f"bytes/{rule.name}/alone": int(n_bytes[alone].sum()),
        }
        before += fails
    return tally


def _count_overlap(failures: BOOL) -> I64:
    """int64[n_on, n_on]. No matrix product: BLAS would start threads under those that already read parts."""
    overlap = np.zeros((failures.shape[1],) * 2, dtype=np.int64)
    used = [i for i in range(failures.shape[1]) if failures[:, i].any()]
    for at, i in enumerate(used):
        rows = failures[failures[:, i]]
        for j in used[at:]:
            overlap[i, j] = overlap[j, i] = np.count_nonzero(rows[:, j])
    return overlap


def _count_names(batch: pa.RecordBatch, n_bytes: I64, is_kept: BOOL, is_rejected: BOOL) -> dict[str, TopCounts]:
    names: dict[str, pa.Array] = {
        "hosts": _find_hosts(batch.column("url")),
        "folders": _find_folders(batch),
        "sources": batch.column("source").cast(pa.string()),
    }
    if "language" in batch.schema.names:
        names["languages"] = pc.fill_null(batch.column("language"), "unknown")
    sides = {"kept": is_kept, "rejected": is_rejected}
    top = {}
    for what, column in names.items():
        for side, mask in sides.items():
            table = pa.table({"name": column, "documents": np.ones(len(batch), dtype=np.int64), "bytes": n_bytes})
            sums = (
                table.filter(pa.array(mask))
                .group_by("name", use_threads=False)
                .aggregate([("documents", "sum"), ("bytes", "sum")])
            )
            keys = sums.column("name").to_pylist()
            for unit in ("documents", "bytes"):
                counts = dict(zip(keys, sums.column(f"{unit}_sum").to_pylist(), strict=True))
                counts = {name: count for name, count in counts.items() if name and count}
                top[f"{what}/{side}/{unit}"] = merge_top_counts([TopCounts(NAMES, counts)])
    return top


def _find_hosts(url: pa.StringArray) -> pa.StringArray:
    """The host of each URL in lower case without `www.`; null where there is none."""
    pattern = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?(?:www\.)?(?P<host>[^/:?#]+)"
    return pc.utf8_lower(pc.struct_field(pc.extract_regex(url, pattern), [0]))


def _find_folders(batch: pa.RecordBatch) -> pa.StringArray:
    """`source: folder` of each origin; in FineWeb's layout the folder is the dump."""
    folder = pc.struct_field(pc.extract_regex(batch.column("origin"), r"^(?P<folder>.*)/[^/]*$"), [0])
    return pc.binary_join_element_wise(batch.column("source").cast(pa.string()), pc.fill_null(folder, "."), ": ")


def _find_examples(
    batch: pa.RecordBatch,
    rules: Sequence[RuleFact],
    failures: BOOL,
    n_failed: I64,
    metrics: Mapping[str, F64],
    keys: U64,
) -> dict[str, dict[str, list[Example]]]:
    """The nearest documents on either side of every rule. Those that would change sides alone come first: failing, the
    ones that no other rule fails; passing, the ones that are kept."""
    found: dict[str, dict[str, list[Example]]] = {"passing": {}, "failing": {}}
    is_readable = pc.is_null(batch.column("quarantine")).to_numpy(zero_copy_only=False)
    for i, rule in enumerate(rules):
        values = metrics.get(rule.metric)
        distance = np.zeros(len(batch)) if values is None else np.abs(values - rule.bound)
        fails = failures[:, i] if rule.is_on else np.asarray(_is_beyond(rule, metrics[rule.metric]))
        near = is_readable & ~np.isnan(distance)
        for side, mask in (("failing", fails), ("passing", ~fails)):
            wanted = int(side == "failing" and rule.is_on)
            rows = np.flatnonzero(mask & near)
            is_shared = n_failed[rows] != wanted
            if np.count_nonzero(~is_shared) >= EXAMPLES:
                rows, is_shared = rows[~is_shared], is_shared[~is_shared]
            if len(rows) > EXAMPLES and not is_shared.any():  # sorting few is much faster than sorting all
                rows = rows[distance[rows] <= np.partition(distance[rows], EXAMPLES - 1)[EXAMPLES - 1]]
                is_shared = np.zeros(len(rows), dtype=np.bool_)
            rows = rows[np.lexsort((keys[rows], distance[rows], is_shared))[:EXAMPLES]]
            found[side][rule.name] = [
                _make_example(batch, rule, int(row), int(n_failed[row]), wanted, float(distance[row]), int(keys[row]))
                for row in rows
            ]
    return found


def _is_beyond(rule: RuleFact, values: F64) -> BOOL:
    return values < rule.bound if rule.fails == "below" else values > rule.bound


def _make_example(
    batch: pa.RecordBatch, rule: RuleFact, row: int, n_failed: int, wanted: int, distance: float, key: int
) -> Example:
    source, origin, url, doc_id, value = (
        batch.column(name)[row].as_py() for name in ("source", "origin", "url", "doc_id", rule.metric)
    )
    return Example((int(n_failed != wanted), distance, key), source, origin, url, doc_id, value, n_failed)


def _list_quarantined(batch: pa.RecordBatch) -> dict[str, list[str]]:
    rows = batch.filter(pc.is_valid(batch.column("quarantine")))
    found: dict[str, list[str]] = {}
    for reason, source, origin in zip(
        *(rows.column(name).to_pylist() for name in ("quarantine", "source", "origin")), strict=True
    ):
        if len(found.setdefault(reason, [])) < QUARANTINED:
            found[reason].append(f"{source}: {origin}")
    return found


def _take_sample(
    batch: pa.RecordBatch,
    failures: BOOL,
    n_bytes: I64,
    metrics: Mapping[str, F64],
    keys: U64,
    is_readable: BOOL,
) -> Sample:
    rows = np.flatnonzero(is_readable)
    rows = rows[np.argsort(keys[rows], kind="stable")[:SAMPLE]]
    values = {name: column[rows] for name, column in metrics.items()}
    return Sample(keys[rows], n_bytes[rows], values, failures[rows])


def merge_findings(parts: Iterable[Findings]) -> Findings:
    """The findings of one or more parts together, in the order given (it only orders quarantined positions)."""
    parts = list(parts)
    first = parts[0]
    return Findings(
        rules=first.rules,
        tally=merge_tallies(part.tally for part in parts),
        overlap=np.sum([part.overlap for part in parts], axis=0),
        kept={name: merge_histograms(part.kept[name] for part in parts) for name in first.kept},
        rejected={name: merge_histograms(part.rejected[name] for part in parts) for name in first.rejected},
        top={name: merge_top_counts(part.top[name] for part in parts) for name in first.top},
        passing={rule.name: _merge_examples(part.passing[rule.name] for part in parts) for rule in first.rules},
        failing={rule.name: _merge_examples(part.failing[rule.name] for part in parts) for rule in first.rules},
        quarantined=_merge_quarantined(part.quarantined for part in parts),
        sample=_merge_samples([part.sample for part in parts]),
    )


def _merge_examples(parts: Iterable[Sequence[Example]]) -> list[Example]:
    return sorted((example for part in parts for example in part), key=lambda example: example.order)[:EXAMPLES]


def _merge_quarantined(parts: Iterable[Mapping[str, Sequence[str]]]) -> dict[str, list[str]]:
    merged: dict[str, list[str]] = {}
    for part in parts:
        for reason, origins in part.items():
            merged[reason] = [*merged.get(reason, []), *origins][:QUARANTINED]
    return merged


def _merge_samples(samples: Sequence[Sample]) -> Sample:
    keys = np.concatenate([sample.keys for sample in samples])
    chosen = np.argsort(keys, kind="stable")[:SAMPLE]
    metrics = {
        name: np.concatenate([sample.metrics[name] for sample in samples])[chosen] for name in samples[0].metrics
    }
    n_bytes = np.concatenate([sample.n_bytes for sample in samples])[chosen]
    return Sample(keys[chosen], n_bytes, metrics, np.concatenate([sample.failed for sample in samples])[chosen])
