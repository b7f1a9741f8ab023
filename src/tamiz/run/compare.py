"""Compare two runs document by document. Memory: 30 bytes per document and run, whatever their texts."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from tamiz.errors import ConfigError
from tamiz.report.comparison import Comparison, Moved
from tamiz.run.fingerprint import find_changes
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.reporting import read_summary
from tamiz.run.texts import read_kept
from tamiz.run.verdicts import Verdicts, map_parts, open_verdicts, read_failures, read_keys
from tamiz.schema import I64, U64
from tamiz.store import Folder

_EXAMPLES = 10
_PACKED, _DUPLICATE, _REJECTED, _QUARANTINED, _ABSENT = range(5)
_NAMES = ("packed", "duplicate", "rejected", "quarantined", "not read")


class _Documents(NamedTuple):
    """A run's documents in the order of their keys: uint64[n] keys, outcome, first failing rule (-1: none), source (an
    index into `sources`), bytes as read, and place (part << 40 | row of the part)."""

    keys: U64
    outcome: I64
    reason: I64
    source: I64
    n_bytes: I64
    place: I64
    rules: list[str]
    sources: list[str]


def compare_runs(a: Folder, b: Folder) -> Comparison:
    """Two finished runs; ConfigError when one is not finished with its own config."""
    opened = [open_verdicts(folder) for folder in (a, b)]
    summaries = [read_summary(folder, config) for folder, (config, _) in zip((a, b), opened, strict=True)]
    for folder, summary in zip((a, b), summaries, strict=True):
        if summary is None:
            raise ConfigError(f"{folder.url}: the run is not finished; `tamiz status` tells how far it is")
    assert summaries[0] is not None
    assert summaries[1] is not None
    documents = [_read_documents(folder, verdicts) for folder, (_, verdicts) in zip((a, b), opened, strict=True)]
    left, entered, tally = _join(documents[0], documents[1])
    return Comparison(
        names=(a.url, b.url),
        summaries=(summaries[0], summaries[1]),
        tally=tally,
        config=find_changes(_list_inputs(a), _list_inputs(b)),
        entered=_describe(b, opened[1][1], documents[1], entered, documents[0]),
        left=_describe(a, opened[0][1], documents[0], left, documents[1]),
    )


def _list_inputs(folder: Folder) -> dict[str, Any]:
    """What the stages of a run depend on, rules with their bounds filled in; not the fingerprints it is made into."""
    record = read_plan_record(folder) or {}
    inputs = {stage: dict(values) for stage, values in record["inputs"].items()}
    sift = inputs.pop("sift")
    sources = {source["spec"]["name"]: source for source in sift.pop("sources")}
    upstream = {"sift", "dedup", "tokens", "config_fingerprint"}
    rest = {stage: {k: v for k, v in values.items() if k not in upstream} for stage, values in inputs.items()}
    return {**sift, "sources": sources, **rest}


def _read_documents(folder: Folder, verdicts: Verdicts) -> _Documents:
    record = read_plan_record(folder) or {}
    lost = _read_duplicate_keys(folder, read_done(folder, record["places"]["dedup"]))
    sources = sorted({part.facts["source"] for part in verdicts.parts})
    columns: list[list[Any]] = [[] for _ in range(6)]
    for number, arrays in enumerate(map_parts(verdicts.parts, lambda part: _read_part(verdicts, part, lost))):
        keys, outcome, reason, n_bytes = arrays
        columns[0].append(keys)
        columns[1].append(outcome)
        columns[2].append(reason)
        columns[3].append(np.full(len(keys), sources.index(verdicts.parts[number].facts["source"]), dtype=np.int16))
        columns[4].append(n_bytes)
        columns[5].append((np.int64(number) << 40) + np.arange(len(keys), dtype=np.int64))
    joined = [np.concatenate(column) for column in columns]
    order = np.argsort(joined[0], kind="stable")
    rules = [rule.name for rule in verdicts.rules]
    return _Documents(*(column[order] for column in joined), rules, sources)  # type: ignore[call-arg]


def _read_part(verdicts: Verdicts, part: Done, lost: U64) -> tuple[U64, Any, Any, I64]:
    pieces: list[tuple[Any, ...]] = [
        (np.zeros(0, np.uint64), np.zeros(0, np.int8), np.zeros(0, np.int16), np.zeros(0, np.int64))
    ]
    for batch in verdicts.read(part, ["doc_id", "n_bytes", "failed", "outcome"]):
        keys = read_keys(batch.column("doc_id"))
        names = batch.column("outcome").to_numpy(zero_copy_only=False)
        outcome = np.where(names == "kept", _PACKED, np.where(names == "rejected", _REJECTED, _QUARANTINED)).astype(
            np.int8
        )
        outcome[np.isin(keys, lost) & (outcome == _PACKED)] = _DUPLICATE
        failures = read_failures(batch.column("failed"), verdicts.rules)
        reason = np.full(len(batch), -1, dtype=np.int16)
        if failures.shape[1]:
            reason = np.where(failures.any(axis=1), failures.argmax(axis=1), -1).astype(np.int16)
        pieces.append((keys, outcome, reason, batch.column("n_bytes").to_numpy()))
    keys, outcome, reason, n_bytes = (np.concatenate(column) for column in zip(*pieces, strict=True))
    return keys, outcome, reason, n_bytes


def _read_duplicate_keys(folder: Folder, done: dict[str, Done]) -> U64:
    keys = [np.zeros(0, dtype=np.uint64)]
    with folder.open(done["duplicates"].outputs["duplicates"].path) as file:
        for batch in pq.ParquetFile(file).iter_batches(columns=["doc_id"], use_threads=False):
            keys.append(read_keys(batch.column("doc_id")))
    return np.concatenate(keys)


def _join(a: _Documents, b: _Documents) -> tuple[I64, I64, dict[str, int]]:
    """Rows of A that left, rows of B that entered, and the counters of a Comparison."""
    in_b, at_b = _look_up(b.keys, a.keys)
    in_a, at_a = _look_up(a.keys, b.keys)
    other_of_a = np.where(in_b, b.outcome[at_b] if len(b.keys) else 0, _ABSENT)
    other_of_b = np.where(in_a, a.outcome[at_a] if len(a.keys) else 0, _ABSENT)
    tally: Counter[str] = Counter()
    only_b = ~in_a
    for documents, chosen, ours, theirs in (
        (a, np.ones(len(a.keys), dtype=np.bool_), a.outcome, other_of_a),
        (b, only_b, np.full(len(b.keys), _ABSENT), b.outcome),
    ):
        code = (documents.source.astype(np.int64) * 25 + ours * 5 + theirs)[chosen]
        for unit, weights in (("documents", None), ("bytes", documents.n_bytes[chosen])):
            sums = np.bincount(code, weights=weights)
            for value in np.flatnonzero(sums):
                names = (documents.sources[value // 25], _NAMES[value // 5 % 5], _NAMES[value % 5])
                tally["\0".join((unit, *names))] += int(sums[value])
    left = np.flatnonzero((a.outcome == _PACKED) & (other_of_a != _PACKED))
    entered = np.flatnonzero((b.outcome == _PACKED) & (other_of_b != _PACKED))
    tally.update(Counter(f"left\0{why}" for why in _list_reasons(b, at_b[left], in_b[left])))
    tally.update(Counter(f"entered\0{why}" for why in _list_reasons(a, at_a[entered], in_a[entered])))
    return left, entered, dict(tally)


def _look_up(keys: U64, wanted: U64) -> tuple[Any, I64]:
    """Whether each wanted key is among the ascending `keys`, and where (0 if not)."""
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = keys[place] == wanted if len(keys) else np.zeros(len(wanted), dtype=np.bool_)
    return found, np.where(found, place, 0)


def _list_reasons(other: _Documents, rows: I64, is_there: Any) -> list[str]:
    """Why these documents are not packed in the other run."""
    reasons = []
    for row, there in zip(rows.tolist(), is_there.tolist(), strict=True):
        outcome = _NAMES[int(other.outcome[row])] if there else "not read"
        reasons.append(other.rules[int(other.reason[row])] if outcome == "rejected" else outcome)
    return reasons


def _describe(folder: Folder, verdicts: Verdicts, ours: _Documents, rows: I64, other: _Documents) -> list[Moved]:
    """The first rows by key, which is a random choice, with their texts as kept."""
    rows = rows[:_EXAMPLES]
    found, at = _look_up(other.keys, ours.keys[rows])
    whys = _list_reasons(other, at, found)
    moved = []
    for row, why in zip(rows.tolist(), whys, strict=True):
        part, place = int(ours.place[row]) >> 40, int(ours.place[row]) & ((1 << 40) - 1)
        moved.append((why, verdicts.read_row(verdicts.parts[part], place, ["doc_id", "origin", "url"])))
    texts = read_kept(folder, verdicts.parts, [value["doc_id"] for _, value in moved])
    return [
        Moved(value["doc_id"].hex(), value["origin"], value["url"], why, texts.get(value["doc_id"], ("", ""))[1])
        for why, value in moved
    ]
