"""The sift stage: one unit per split; a unit publishes one part, or several when its file cannot seek."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.run.engine import Report
from tamiz.run.layout import KeptPart
from tamiz.run.ledger import Done, find_done, record_done
from tamiz.run.measuring import Sifted, SiftSettings, sift_batch
from tamiz.schema import RAW
from tamiz.sources.access import HubAccess, use_access
from tamiz.sources.reading import read_split
from tamiz.sources.split import Chunk, Cursor, Damage, Source, Split
from tamiz.store import Folder

PART_BYTES = 256 << 20  # of text read, where a file cannot seek; a killed worker repeats at most one part
_ROLES = ("kept", "bands", "verdicts")
# The columns whose values repeat: a dictionary of the others makes bands and verdicts a tenth larger, slower to write.
_REPEATING = ["source", "language", "failed.list.element", "outcome", "quarantine"]


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
    access: HubAccess
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
        self._stack = ExitStack()
        self._files = {role: folder.publish(f"{place}/{name}.{role}.parquet") for role in _ROLES}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._settings = settings
        self.tally: Counter[str] = Counter()
        self.n_bytes = 0  # of pages: what is left of one is a tenth of what it took to read
        self.damage: list[Damage] = []
        self.dumps: set[str] = set()

    def __enter__(self) -> _PartWriter:
        for file in self._files.values():
            self._stack.enter_context(file)
        return self

    def write(self, sifted: Sifted) -> None:
        """One row group per file (none for an empty table); counters added up."""
        for role, table in zip(_ROLES, (sifted.kept, sifted.bands, sifted.verdicts), strict=True):
            if role not in self._writers:
                writer = pq.ParquetWriter(
                    self._files[role], table.schema, compression="zstd", use_dictionary=_REPEATING
                )
                self._writers[role] = self._stack.enter_context(writer)
            if len(table):
                self._writers[role].write_table(table)
        self.tally.update(sifted.tally)
        self.dumps.update(sifted.bands.column("dump").unique().drop_null().to_pylist())

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
        if kind is None and not self._writers:  # a part without a record still has its three files
            self.write(sift_batch(self._settings, pa.RecordBatch.from_pylist([], schema=RAW)))
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
    use_access(unit.access)
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
                part.tally.update({f"skipped/{reason}": n for reason, n in chunk.skipped.items()})
                part.n_bytes += pc.sum(pc.binary_length(chunk.batch.column("payload"))).as_py() or 0
                cursor = chunk.cursor
                report(len(chunk.batch), sifted.tally["bytes/read"], 0)
                if unit.split.n_rows is None and part.n_bytes + part.tally["bytes/read"] >= unit.part_bytes:
                    is_last = False
                    break
        facts = {
            "source": unit.split.source,
            "cursor": list(cursor) if cursor else None,
            "is_last": is_last,
            "damage": [damage._asdict() for damage in part.damage],
            "dumps": sorted(part.dumps),
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
        KeptPart(
            name=d.unit,
            source=d.facts["source"],
            kept=d.outputs["kept"].path,
            bands=d.outputs["bands"].path,
            verdicts=d.outputs["verdicts"].path,
            n_kept=d.tally["documents/kept"],
            n_bytes=d.tally["bytes/kept"],
        )
        for d in ordered
    ]


def plan_units(
    folder: str,
    place: str,
    settings: SiftSettings,
    splits: list[tuple[Source, Split]],
    done: dict[str, Done],
    access: HubAccess,
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
            cut = SiftUnit(folder, place, settings, spec, split, index, len(parts), cursor, access, part_bytes)
            units.append(cut)
    return units, valid
