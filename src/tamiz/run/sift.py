"""The sift stage: one unit per split; a unit publishes one part, or several when its file cannot seek."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.run.dedup import KeptPart
from tamiz.run.engine import Report
from tamiz.run.ledger import Done, find_done, record_done
from tamiz.run.measuring import Sifted, SiftSettings, sift_batch
from tamiz.schema import RAW
from tamiz.sources.reading import read_split
from tamiz.sources.split import Chunk, Cursor, Damage, Source, Split
from tamiz.store import Folder

PART_BYTES = 256 << 20  # of text read, where a file cannot seek; a killed worker repeats at most one part
_ROLES = ("kept", "bands", "verdicts")


@dataclass(frozen=True)
class SiftUnit:
    """Sift split number `index` of the plan from `cursor` on, into parts `part-<index>-<piece>`, piece.. upwards.

    `part_bytes`: text read per part, where a file cannot seek.
    """

    folder: str
    place: str
    settings: SiftSettings
    spec: Source
    split: Split
    index: int
    piece: int
    cursor: Cursor | None
    part_bytes: int = PART_BYTES

    def name_part(self, n: int) -> str:
        """The name of the part `n` behind the unit's first."""
        return f"part-{self.index:05d}-{self.piece + n:03d}"

    def __str__(self) -> str:
        """Names the split and how far it is published; read by whoever must find what kills a worker."""
        published = _find_published(self)
        cursor = Cursor(*published[-1].facts["cursor"]) if published else self.cursor
        position = cursor.position if cursor else self.split.first_position
        return f"source {self.split.source}, {self.split.path} (split {self.index}), behind position {position}"


class _PartWriter:
    """The three files of one part, published together when the `with` block ends well."""

    def __init__(self, folder: Folder, place: str, name: str, settings: SiftSettings) -> None:
        self.name = name
        self._files = {role: folder.publish(f"{place}/{name}.{role}.parquet") for role in _ROLES}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._settings = settings
        self.tally: Counter[str] = Counter()
        self.damage: list[Damage] = []

    def __enter__(self) -> _PartWriter:
        with ExitStack() as stack:  # the third may fail to open: then the other two are not left behind
            for file in self._files.values():
                stack.enter_context(file)
            self._stack = stack.pop_all()
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

    def complete(self) -> None:
        """A part without a record still has its three files."""
        if not self._writers:
            self.write(sift_batch(self._settings, pa.RecordBatch.from_pylist([], schema=RAW)))

    def add_damage(self, chunk: Chunk) -> None:
        """Note what the chunk could not read; the rows lost with one stretch of a file are one entry."""
        for damage in chunk.damage:
            last = self.damage[-1] if self.damage else None
            if last and (last.path, last.reason, last.start) == (damage.path, damage.reason, damage.start):
                self.damage[-1] = last._replace(n_rows=last.n_rows + damage.n_rows)
            else:
                self.damage.append(damage)
            if damage.n_rows == 1:  # nobody knows how many documents these bytes held
                self.tally["bytes/damaged"] += damage.stop - damage.start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def done(self) -> Done:
        """The record, after the block."""
        return Done(self.name, {role: file.output for role, file in self._files.items()}, dict(self.tally))


def sift_split(unit: SiftUnit, report: Report) -> list[Done]:
    """Work one unit: publish its parts, each with a record that holds the cursor behind it.

    What a worker that died has published of the unit is taken as it is.
    """
    folder = Folder(unit.folder)
    records = _find_published(unit)
    cursor = Cursor(*records[-1].facts["cursor"]) if records else unit.cursor
    is_last = bool(records) and records[-1].facts["is_last"]
    chunks = read_split(unit.split, unit.spec, cursor)
    while not is_last:
        with _PartWriter(folder, unit.place, unit.name_part(len(records)), unit.settings) as part:
            is_last = True
            for chunk in chunks:
                sifted = sift_batch(unit.settings, chunk.batch)
                part.write(sifted)
                part.add_damage(chunk)
                part.tally["not_selected"] += chunk.n_not_selected
                cursor = chunk.cursor
                report(len(chunk.batch), sifted.tally["bytes/read"], 0)
                if unit.split.n_rows is None and part.tally["bytes/read"] >= unit.part_bytes:
                    is_last = False
                    break
            part.complete()
        facts = {
            "source": unit.split.source,
            "cursor": list(cursor) if cursor else None,
            "is_last": is_last,
            "damage": [damage._asdict() for damage in part.damage],
        }
        done = Done(part.done.unit, part.done.outputs, part.done.tally, facts)
        record_done(folder, unit.place, done)
        records.append(done)
    return records


def _find_published(unit: SiftUnit) -> list[Done]:
    """The records of the unit's parts there are, without a gap."""
    folder = Folder(unit.folder)
    records: list[Done] = []
    while done := find_done(folder, unit.place, unit.name_part(len(records))):
        records.append(done)
        if done.facts["is_last"]:
            break
    return records


def list_kept(records: list[Done]) -> list[KeptPart]:
    """The parts in document order, as dedup reads them."""
    ordered = sorted(records, key=lambda done: done.unit)
    return [
        KeptPart(d.unit, d.outputs["kept"].path, d.outputs["bands"].path, d.tally["documents/kept"]) for d in ordered
    ]


def plan_units(
    folder: str,
    place: str,
    settings: SiftSettings,
    splits: list[tuple[Source, Split]],
    done: dict[str, Done],
    part_bytes: int = PART_BYTES,
) -> tuple[list[SiftUnit], list[Done]]:
    """The units still to do, and the valid records there are: of each split, its parts without a gap."""
    units, valid = [], []
    for index, (spec, split) in enumerate(splits):
        parts: list[Done] = []
        while (name := f"part-{index:05d}-{len(parts):03d}") in done:
            parts.append(done[name])
            if parts[-1].facts["is_last"]:
                break
        valid += parts
        if not parts or not parts[-1].facts["is_last"]:
            cursor = Cursor(*parts[-1].facts["cursor"]) if parts else None
            units.append(SiftUnit(folder, place, settings, spec, split, index, len(parts), cursor, part_bytes))
    return units, valid
