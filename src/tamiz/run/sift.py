"""The sift stage: one unit per split, or per group of splits when a run has very many.

A unit publishes one part, or several when its file cannot seek.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

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
UNITS_MAX = 8000  # of sift: 4 objects each, and 3 of tokens, leave room for 44,000 others below 100,000 in a run
_PACKED_RATIO = 8  # text bytes in a byte of a packed file, at most: its parts must not become too many either
_ROLES = ("kept", "bands", "verdicts")
# The columns whose values repeat: a dictionary of the others makes bands and verdicts a tenth larger, slower to write.
_REPEATING = ["source", "language", "failed.list.element", "outcome", "quarantine"]


@dataclass(frozen=True)
class SiftUnit:
    """Sift consecutive splits of one source, of which the first has number `first` in the plan, from `cursor` of
    `splits[at]` on, into parts `part-<index>-<piece>`, piece.. upwards. `part_bytes`: text read per part, where a file
    cannot seek."""

    folder: str
    place: str
    settings: SiftSettings
    spec: Source
    splits: tuple[Split, ...]
    first: int
    index: int
    access: HubAccess
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

    def name_part(self, n: int) -> str:
        """The name of the part `n` behind the unit's first."""
        return f"part-{self.index:05d}-{self.piece + n:03d}"

    def go_on(self, parts: Sequence[Done]) -> SiftUnit:
        """What is left of the unit behind its `parts`."""
        if not parts:
            return self
        facts = parts[-1].facts
        cursor = Cursor(*facts["cursor"]) if facts["cursor"] else None
        return replace(self, piece=self.piece + len(parts), at=facts["at"], cursor=cursor)

    def __str__(self) -> str:
        """Names the split and how far it is published; read by whoever must find what kills a worker."""
        left = self.go_on(_find_published(self))
        split = left.splits[left.at]
        position = left.cursor.position if left.cursor else split.first_position
        n_behind = len(left.splits) - left.at - 1
        more = f" or the {n_behind} splits behind it" if n_behind else ""
        return f"source {split.source}, {split.path} (split {left.first + left.at}), behind position {position}{more}"


class _PartWriter:
    """The three files of one part, published together when the `with` block ends well."""

    def __init__(self, folder: Folder, place: str, name: str, settings: SiftSettings) -> None:
        self.name = name
        self._files = {role: folder.publish(f"{place}/{name}.{role}.parquet") for role in _ROLES}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._settings = settings
        self.tally: Counter[str] = Counter()
        self.n_bytes = 0  # of pages: what is left of one is a tenth of what it took to read
        self.damage: list[Damage] = []
        self.dumps: set[str] = set()

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
                writer = pq.ParquetWriter(
                    self._files[role], table.schema, compression="zstd", use_dictionary=_REPEATING
                )
                self._writers[role] = self._stack.enter_context(writer)
            if len(table):
                self._writers[role].write_table(table)
        self.tally.update(sifted.tally)
        self.dumps.update(sifted.bands.column("dump").unique().drop_null().to_pylist())

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
    use_access(unit.access)
    records = _find_published(unit)
    is_last = bool(records) and records[-1].facts["is_last"]
    rest = unit.go_on(records)
    chunks = _read_splits(rest)
    at, cursor = rest.at, rest.cursor
    while not is_last:
        with _PartWriter(folder, unit.place, unit.name_part(len(records)), unit.settings) as part:
            is_last = True
            for number, chunk in chunks:
                sifted = sift_batch(unit.settings, chunk.batch)
                part.write(sifted)
                part.add_damage(chunk)
                part.tally.update({f"skipped/{reason}": n for reason, n in chunk.skipped.items()})
                part.n_bytes += pc.sum(pc.binary_length(chunk.batch.column("payload"))).as_py() or 0
                at, cursor = number, chunk.cursor
                report(len(chunk.batch), sifted.tally["bytes/read"], 0)
                if unit.splits[at].n_rows is None and part.n_bytes + part.tally["bytes/read"] >= unit.part_bytes:
                    is_last = False
                    break
            part.complete()
        facts: dict[str, Any] = {
            "source": unit.spec.name,
            "splits": unit.range,
            "at": at,
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
    return _list_parts(unit, lambda name: find_done(folder, unit.place, name))


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


def count_splits(parts: Iterable[Done]) -> int:
    """Splits that these parts finish: all of a unit with its last part."""
    ends = (part.facts["splits"] for part in parts if part.facts["is_last"])
    return sum(past - first for first, past in ends)


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
    folder: str,
    place: str,
    settings: SiftSettings,
    splits: Sequence[tuple[Source, Split]],
    done: dict[str, Done],
    access: HubAccess,
    part_bytes: int = PART_BYTES,
) -> tuple[list[SiftUnit], list[Done]]:
    """The units still to do, and the valid records there are: of each unit, its parts without a gap."""
    groups = group_splits(splits)
    n_bytes = sum(split.n_bytes for _, split in splits)
    if len(groups) < len(splits):
        part_bytes = max(part_bytes, _PACKED_RATIO * n_bytes // UNITS_MAX)
    units, valid = [], []
    for index, group in enumerate(groups):
        pieces = tuple(splits[i][1] for i in group)
        spec = splits[group.start][0]
        unit = SiftUnit(folder, place, settings, spec, pieces, group.start, index, access, part_bytes)
        parts = _list_parts(unit, done.get)
        valid += parts
        if not parts or not parts[-1].facts["is_last"]:
            units.append(unit.go_on(parts))
    return units, valid


def _list_parts(unit: SiftUnit, find: Callable[[str], Done | None]) -> list[Done]:
    """The unit's parts without a gap; those of another grouping of splits are not its own."""
    parts: list[Done] = []
    while (found := find(unit.name_part(len(parts)))) and found.facts["splits"] == unit.range:
        parts.append(found)
        if found.facts["is_last"]:
            break
    return parts
