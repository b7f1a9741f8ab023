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
from tamiz.run.ledger import Done, record_done
from tamiz.run.measuring import Sifted, SiftSettings, sift_batch
from tamiz.schema import RAW
from tamiz.sources.reading import read_split
from tamiz.sources.split import Cursor, Source, Split
from tamiz.store import Folder

PART_BYTES = 256 << 20  # of text read; a killed worker repeats at most one part
_ROLES = ("kept", "bands", "verdicts")
# The columns whose values repeat: a dictionary of the others makes bands and verdicts a tenth larger, slower to write.
_REPEATING = ["source", "language", "failed.list.element", "outcome", "quarantine"]


@dataclass(frozen=True)
class SiftUnit:
    """Sift split number `index` of the plan from `cursor` on, into parts `part-<index>-<piece>`, piece.. upwards."""

    folder: str
    place: str
    settings: SiftSettings
    spec: Source
    split: Split
    index: int
    piece: int
    cursor: Cursor | None

    def __str__(self) -> str:
        at = f" from position {self.cursor.position}" if self.cursor else ""
        piece = f"{self.split.start} to {self.split.stop}{at}"
        return f"source {self.split.source}, {self.split.path} (split {self.index}: {piece})"


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
                writer = pq.ParquetWriter(
                    self._files[role], table.schema, compression="zstd", use_dictionary=_REPEATING
                )
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
    chunks = read_split(unit.split, unit.spec, unit.cursor)
    cursor, is_last = unit.cursor, False
    records: list[Done] = []
    while not is_last:
        name = f"part-{unit.index:05d}-{unit.piece + len(records):03d}"
        with _PartWriter(folder, unit.place, name, unit.settings) as part:
            is_last = True
            for chunk in chunks:
                sifted = sift_batch(unit.settings, chunk.batch)
                part.write(sifted)
                part.tally["not_selected"] += chunk.n_not_selected
                cursor = chunk.cursor
                report(len(chunk.batch), sifted.tally["bytes/read"], 0)
                if unit.split.n_rows is None and part.tally["bytes/read"] >= PART_BYTES:
                    is_last = False
                    break
        facts = {"source": unit.split.source, "cursor": list(cursor) if cursor else None, "is_last": is_last}
        done = Done(part.done.unit, part.done.outputs, part.done.tally, facts)
        record_done(folder, unit.place, done)
        records.append(done)
    return records


def list_kept(records: list[Done]) -> list[KeptPart]:
    """The parts in document order, as dedup reads them."""
    ordered = sorted(records, key=lambda done: done.unit)
    return [
        KeptPart(d.unit, d.outputs["kept"].path, d.outputs["bands"].path, d.tally["documents/kept"]) for d in ordered
    ]


def plan_units(
    folder: str, place: str, settings: SiftSettings, splits: list[tuple[Source, Split]], done: dict[str, Done]
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
            units.append(SiftUnit(folder, place, settings, spec, split, index, len(parts), cursor))
    return units, valid
