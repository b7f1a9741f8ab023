"""Sift files in a real worker process and tell what became of every record, and how much memory it took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.run.engine import Report
from tamiz.run.ledger import Done
from tamiz.run.local import LocalEngine
from tamiz.run.measuring import SiftSettings
from tamiz.run.sift import SiftUnit, sift_split
from tamiz.sources import ParquetSource, Source, list_splits, read_split
from tamiz.sources.access import HubAccess
from tamiz.sources.listing import Call, call_here

MEMORY_MAX = 2 << 30


class Sifted(NamedTuple):
    """Verdict rows in document order, kept texts by origin, damage, tallies, and the worker's peak memory in bytes."""

    verdicts: list[dict[str, Any]]
    kept: dict[str, str]
    damage: list[dict[str, Any]]
    records: list[Done]
    peak: int


def sift_measured(unit: SiftUnit, report: Report) -> tuple[list[Done], int]:
    forget_peak()
    return sift_split(unit, report), read_peak()


def count_measured(unit: ParquetSource, report: Report) -> tuple[int, int]:
    """Read a source without sifting it: its bytes of text, and the peak memory."""
    forget_peak()
    chunks = (chunk for split in list_splits(unit).splits for chunk in read_split(split, unit))
    return sum(pc.sum(pc.binary_length(chunk.batch.column("text"))).as_py() or 0 for chunk in chunks), read_peak()


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def read_peak() -> int:
    """The most memory in bytes this process has taken since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def sift_files(
    engine: LocalEngine, settings: SiftSettings, run_dir: Path, spec: Source, part_bytes: int, call: Call = call_here
) -> Sifted:
    """Sift a whole source, planned by `call`; the books of every part balance, or an assertion fails."""
    units = [
        SiftUnit(str(run_dir), "sift", settings, spec, (split,), index, index, HubAccess(), part_bytes)
        for index, split in enumerate(list_splits(spec, call=call).splits)
    ]
    results = sorted((r for _, r in engine.run(sift_measured, units, lambda *_: None)), key=lambda r: r[0][0].unit)
    records = [done for some, _ in results for done in some]
    for done in records:
        check_books(run_dir, done)
    kept = {row["origin"]: row["text"] for row in read_rows(run_dir, records, "kept")}
    damage = [stretch for done in records for stretch in done.facts["damage"]]
    return Sifted(read_rows(run_dir, records, "verdicts"), kept, damage, records, max(peak for _, peak in results))


def read_rows(run_dir: Path, records: Iterable[Done], role: str) -> list[dict[str, Any]]:
    return [row for done in records for row in pq.read_table(run_dir / done.outputs[role].path).to_pylist()]


def check_books(run_dir: Path, done: Done) -> None:
    """Documents and bytes add up, in the tally and against the rows that were published."""
    tally = done.tally
    for what in ("documents", "bytes"):
        ends = sum(tally.get(f"{what}/{end}", 0) for end in ("quarantined", "rejected", "kept", "cleaned"))
        assert tally[f"{what}/read"] == ends, what
    verdicts = read_rows(run_dir, [done], "verdicts")
    assert len(verdicts) == tally["documents/read"]
    origins = [row["origin"] for row in verdicts]
    assert len(set(origins)) == len(origins)
    for outcome in ("kept", "rejected", "quarantined"):
        assert sum(row["outcome"] == outcome for row in verdicts) == tally[f"documents/{outcome}"]
    assert all((row["quarantine"] is not None) == (row["outcome"] == "quarantined") for row in verdicts)
    lost = sum(stretch["n_rows"] for stretch in done.facts["damage"])
    assert lost <= tally["documents/quarantined"], json.dumps(done.facts["damage"])
