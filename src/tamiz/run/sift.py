"""The sift stage: one unit per split, or per group of splits when a run has very many.

A unit publishes one part, or several when its file cannot seek.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.run.dedup import KeptPart
from tamiz.run.engine import Report
from tamiz.run.ledger import Done, record_done
from tamiz.run.measuring import Sifted, SiftSettings, sift_batch
from tamiz.schema import RAW
from tamiz.sources.reading import read_split
from tamiz.sources.split import Chunk, Cursor, Source, Split
from tamiz.store import Folder

PART_BYTES = 256 << 20  # of text read; a killed worker repeats at most one part
UNITS_MAX = 8000  # of sift: 4 objects each, and 3 of tokens, leave room for 44,000 others below 100,000 in a run
_PACKED_RATIO = 8  # text bytes in a byte of a packed file, at most: its parts must not become too many either
_ROLES = ("kept", "bands", "verdicts")


@dataclass(frozen=True)
class SiftUnit:
    """Sift consecutive splits of one source, of which the first has number `first` in the plan, from `cursor` of
    `splits[at]` on, into parts `part-<index>-<piece>`, piece.. upwards. `part_bytes`: of text, in a part of a file that
    cannot seek."""

    folder: str
    place: str
    settings: SiftSettings
    spec: Source
    splits: tuple[Split, ...]
    first: int
    index: int
    part_bytes: int
    piece: int = 0
    at: int = 0
    cursor: Cursor | None = None

    @property
    def n_bytes(self) -> int:
        """Of text, roughly."""
        return sum(split.n_bytes for split in self.splits)

    @property
    def range(self) -> list[int]:
        """[number of the first split, number past the last one]."""
        return [self.first, self.first + len(self.splits)]

    def __str__(self) -> str:
        split = self.splits[self.at]
        at = f" from position {self.cursor.position}" if self.cursor else ""
        more = f" and {len(self.splits) - self.at - 1} splits behind it" if len(self.splits) > self.at + 1 else ""
        piece = f"{split.start} to {split.stop}{at}"
        return f"source {split.source}, {split.path} (split {self.first + self.at}: {piece}){more}"


class _PartWriter:
    """The three files of one part, published together when the `with` block ends well."""

    def __init__(self, folder: Folder, place: str, name: str, settings: SiftSettings) -> None:
        self.name = name
        self._stack = ExitStack()
        self._files = {role: folder.publish(f"{place}/{name}.{role}.parquet") for role in _ROLES}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._settings = settings
        self.tally: Counter[str] = Counter()

    def __enter__(self) -> _PartWriter:
        for file in self._files.values():
            self._stack.enter_context(file)
        return self

    def write(self, sifted: Sifted) -> None:
        """One row group per file (none for an empty table); counters added up."""
        for role, table in zip(_ROLES, (sifted.kept, sifted.bands, sifted.verdicts), strict=True):
            if role not in self._writers:
                writer = pq.ParquetWriter(self._files[role], table.schema, compression="zstd")
                self._writers[role] = self._stack.enter_context(writer)
            if len(table):
                self._writers[role].write_table(table)
        self.tally.update(sifted.tally)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._writers:  # a part without a record still has its three files
            self.write(sift_batch(self._settings, pa.RecordBatch.from_pylist([], schema=RAW)))
        self._stack.__exit__(kind, error, trace)

    @property
    def done(self) -> Done:
        """The record, after the block."""
        return Done(self.name, {role: file.output for role, file in self._files.items()}, dict(self.tally))


def sift_split(unit: SiftUnit, report: Report) -> list[Done]:
    """Work one unit: publish its parts, each with a record that holds the cursor behind it."""
    folder = Folder(unit.folder)
    chunks = _read_splits(unit)
    at, cursor, is_last = unit.at, unit.cursor, False
    records: list[Done] = []
    while not is_last:
        name = f"part-{unit.index:05d}-{unit.piece + len(records):03d}"
        with _PartWriter(folder, unit.place, name, unit.settings) as part:
            is_last = True
            for number, chunk in chunks:
                sifted = sift_batch(unit.settings, chunk.batch)
                part.write(sifted)
                part.tally["not_selected"] += chunk.n_not_selected
                at, cursor = number, chunk.cursor
                report(len(chunk.batch), sifted.tally["bytes/read"], 0)
                if unit.splits[at].n_rows is None and part.tally["bytes/read"] >= unit.part_bytes:
                    is_last = False
                    break
        facts: dict[str, Any] = {
            "source": unit.splits[0].source,
            "splits": unit.range,
            "at": at,
            "cursor": list(cursor) if cursor else None,
            "is_last": is_last,
        }
        done = Done(part.done.unit, part.done.outputs, part.done.tally, facts)
        record_done(folder, unit.place, done)
        records.append(done)
    return records


def _read_splits(unit: SiftUnit) -> Iterator[tuple[int, Chunk]]:
    """(which of the unit's splits, chunk) in order."""
    for number in range(unit.at, len(unit.splits)):
        cursor = unit.cursor if number == unit.at else None
        for chunk in read_split(unit.splits[number], unit.spec, cursor):
            yield number, chunk


def list_kept(records: list[Done]) -> list[KeptPart]:
    """The parts in document order, as dedup reads them."""
    ordered = sorted(records, key=lambda done: done.unit)
    return [
        KeptPart(d.unit, d.outputs["kept"].path, d.outputs["bands"].path, d.tally["documents/kept"]) for d in ordered
    ]


def group_splits(splits: Sequence[tuple[Source, Split]]) -> list[range]:
    """Which splits a unit works: one, unless there are more than UNITS_MAX; then, in order and source by source, as
    many as make the units about equal in bytes."""
    if len(splits) <= UNITS_MAX:
        return [range(i, i + 1) for i in range(len(splits))]
    share = max(1.0, sum(split.n_bytes for _, split in splits) / UNITS_MAX)
    groups: list[range] = []
    start, n_before, last = 0, 0, (splits[0][0].name, 0)
    for i, (spec, split) in enumerate(splits):
        group = (spec.name, int(n_before / share))
        if group != last:
            groups.append(range(start, i))
            start, last = i, group
        n_before += split.n_bytes
    return [*groups, range(start, len(splits))]


def plan_units(
    folder: str, place: str, settings: SiftSettings, splits: Sequence[tuple[Source, Split]], done: dict[str, Done]
) -> tuple[list[SiftUnit], list[Done]]:
    """The units still to do, and the valid records there are: of each unit, its parts without a gap."""
    groups = group_splits(splits)
    n_bytes = sum(split.n_bytes for _, split in splits)
    part_bytes = PART_BYTES if len(groups) == len(splits) else max(PART_BYTES, _PACKED_RATIO * n_bytes // UNITS_MAX)
    units, valid = [], []
    for index, group in enumerate(groups):
        pieces = tuple(splits[i][1] for i in group)
        unit = SiftUnit(folder, place, settings, splits[group.start][0], pieces, group.start, index, part_bytes)
        parts = _list_parts(unit, done)
        valid += parts
        if not parts or not parts[-1].facts["is_last"]:
            if parts:
                facts = parts[-1].facts
                unit = replace(unit, piece=len(parts), at=facts["at"], cursor=Cursor(*facts["cursor"]))
            units.append(unit)
    return units, valid


def _list_parts(unit: SiftUnit, done: dict[str, Done]) -> list[Done]:
    parts: list[Done] = []
    while (found := done.get(f"part-{unit.index:05d}-{len(parts):03d}")) and found.facts["splits"] == unit.range:
        parts.append(found)
        if found.facts["is_last"]:
            break
    return parts
