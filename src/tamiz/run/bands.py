"""Dedup, second step: who lost to whom within one key column and key range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.dedup.duplicates import BOOL, NONE, Losers, Members, find_members, rank_members
from tamiz.run.engine import Report
from tamiz.run.layout import Layout
from tamiz.run.ledger import Done, record_done
from tamiz.run.partition import Slice, find_slice
from tamiz.schema import I32, I64, U64
from tamiz.store import Folder

SCOPES = ("run", "source", "dump")
LOSERS = pa.schema(
    [
        pa.field("loser", pa.int64(), nullable=False),
        pa.field("winner", pa.int64(), nullable=False),
        pa.field("merit", pa.uint64(), nullable=False),
        pa.field("lost_in", pa.uint8(), nullable=False),
    ]
)
_BUCKETS = 10  # the largest of a range are told
_EVERYWHERE = (1 << len(SCOPES)) - 1


@dataclass(frozen=True)
class BandUnit:
    """Find the losers of one key column (`exact`, `band_00`...) among the keys of range number `index` of `count`.

    `bounds`: (first, past) document of every group. `source_starts`: (first document, source number) wherever the
    source changes along the order. `depth`: see rank_members. `n_sorted`: keys in memory at once. Documents
    before `n_older` cannot lose.
    """

    folder: str
    place: str
    column: str
    index: int
    count: int
    slices: tuple[Slice, ...]
    bounds: tuple[tuple[int, int], ...]
    source_starts: tuple[tuple[int, int], ...]
    scope: int
    depth: int
    n_sorted: int
    n_older: int

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"losers-{self.column}-{self.index:04d}"

    def __str__(self) -> str:
        return f"dedup {self.column}, key range {self.index + 1} of {self.count}"


def plan_bands(
    folder: str, place: str, layout: Layout, keys: Sequence[Done], columns: Sequence[str], scope: str, depth: int
) -> Iterator[BandUnit]:
    """One unit per column and range that has keys in it; `keys` are the groups' records, in order."""
    starts = list_source_starts(layout)
    for column in columns:
        for index in range(layout.n_ranges):
            slices = [find_slice(done, group, column, index) for done, group in zip(keys, layout.groups, strict=True)]
            yield BandUnit(
                folder, place, column, index, layout.n_ranges, tuple(s for s in slices if s.n_rows),
                layout.bounds, starts,
                SCOPES.index(scope), 1 if column == "exact" else depth, layout.n_sorted, layout.n_older,
            )  # fmt: skip


def list_source_starts(layout: Layout) -> tuple[tuple[int, int], ...]:
    """(first document, number of the source) wherever the source changes; sources are numbered as they appear."""
    numbers: dict[str, int] = {}
    starts: list[tuple[int, int]] = []
    for group in layout.groups:
        first = group.first
        for part in group.parts:
            number = numbers.setdefault(part.source, len(numbers))
            if not starts or starts[-1][1] != number:
                starts.append((first, number))
            first += part.n_kept
    return tuple(starts)


def find_band_losers(unit: BandUnit, report: Report) -> Done:
    """Work one unit: publish its losers in their order, a row group per group of documents.

    Facts: `buckets`, the members of the largest.
    """
    folder = Folder(unit.folder)
    pieces = list(_gather_slices(unit))
    kept = None
    if len(pieces) > 1:  # a frequent key overfills the range: first find what stands foremost, then compare with it
        for piece in pieces:
            kept = _reduce(unit, _join(kept, _read_entries(folder, piece)))
    buckets: Counter[int] = Counter()
    owned: set[int] = set()
    n_losers = 0
    with (
        folder.publish(f"{unit.place}/{unit.name}.parquet") as file,
        pq.ParquetWriter(file, LOSERS, compression="zstd", compression_level=1) as writer,
    ):
        for piece in pieces:
            entries = _read_entries(folder, piece)
            span = (int(entries.documents[0]), int(entries.documents[-1])) if len(entries.documents) else (0, -1)
            if kept is not None:
                others = (kept.documents < span[0]) | (kept.documents > span[1])
                entries = _join(entries, kept.take(others))
            losers = _find(unit, entries, span, buckets, owned)
            for first, past in unit.bounds:
                rows = slice(*np.searchsorted(losers.loser, (max(first, unit.n_older), past)))
                if rows.start < rows.stop:
                    columns = [pa.array(column[rows]) for column in losers]
                    writer.write_table(pa.Table.from_arrays(columns, schema=LOSERS))
                    n_losers += int(rows.stop - rows.start)
            report(sum(s.n_rows for s in piece), 0, 0)
    done = Done(unit.name, {"losers": file.output}, {"losers": n_losers}, {"buckets": _list_largest(buckets, owned)})
    record_done(folder, unit.place, done)
    return done


def _list_largest(buckets: Counter[int], owned: set[int]) -> list[int]:
    """Sizes of buckets with a document of this run: of the others the sieve let only some through."""
    return sorted((size for key, size in buckets.items() if key in owned), reverse=True)[:_BUCKETS]


class _Entries(NamedTuple):
    """Documents with their keys, in any order but ascending within a slice; `merits` and `dumps` where they count."""

    documents: I64
    keys: U64
    merits: U64 | None
    dumps: I32 | None

    def take(self, index: I64 | BOOL) -> _Entries:
        merits = None if self.merits is None else self.merits[index]
        dumps = None if self.dumps is None else self.dumps[index]
        return _Entries(self.documents[index], self.keys[index], merits, dumps)


def _gather_slices(unit: BandUnit) -> Iterator[list[Slice]]:
    """Consecutive slices that can be sorted together."""
    gathered: list[Slice] = []
    for part in unit.slices:
        if gathered and sum(s.n_rows for s in gathered) + part.n_rows > unit.n_sorted:
            yield gathered
            gathered = []
        gathered.append(part)
    if gathered:
        yield gathered


def _read_entries(folder: Folder, slices: Sequence[Slice]) -> _Entries:
    """Filled slice by slice: no second copy of a column."""
    n = sum(s.n_rows for s in slices)
    documents, keys = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.uint64)
    extras: dict[str, npt.NDArray[np.generic]] = {}
    at = 0
    for part in slices:
        with folder.open(part.path) as file:
            table = pq.ParquetFile(file).read_row_group(part.row_group, use_threads=False)
        stop = at + part.n_rows
        keys[at:stop] = table.column("key").to_numpy()
        documents[at:stop] = table.column("row").to_numpy()
        documents[at:stop] += part.first
        for name in table.schema.names[2:]:
            values = table.column(name).to_numpy()
            extras.setdefault(name, np.empty(n, dtype=values.dtype))[at:stop] = values
        at = stop
    return _Entries(documents, keys, extras.get("merit"), extras.get("dump"))  # type: ignore[arg-type]


def _join(left: _Entries | None, right: _Entries) -> _Entries:
    if left is None:
        return right
    columns = [None if a is None else np.concatenate([a, b]) for a, b in zip(left, right, strict=True)]
    joined = _Entries(*columns)  # type: ignore[arg-type]
    return joined.take(np.argsort(joined.documents, kind="stable"))


def _rank(unit: BandUnit, entries: _Entries) -> tuple[Members, Losers]:
    members = find_members(entries.keys)
    found = entries.take(members.position)
    sources = number_sources(unit.source_starts, found.documents)
    dumps = sources * 0 if found.dumps is None else found.dumps
    scopes = (sources, dumps)
    return members, rank_members(members.bucket, found.documents, found.merits, scopes, unit.scope, unit.depth)


def _find(unit: BandUnit, entries: _Entries, span: tuple[int, int], buckets: Counter[int], owned: set[int]) -> Losers:
    """The losers within `span` (first and last document); its members are added to `buckets`, by key, and the keys of
    these that a document of this run has to `owned`."""
    members, losers = _rank(unit, entries)
    documents = entries.documents[members.position]
    inside = (documents >= span[0]) & (documents <= span[1])
    sizes = np.bincount(members.bucket[inside])
    n_own = np.bincount(members.bucket[inside & (documents >= unit.n_older)], minlength=len(sizes))
    if len(entries.documents) == sum(s.n_rows for s in unit.slices):  # no other piece can have one
        sizes[n_own == 0] = 0
    keys = entries.keys[members.position[np.flatnonzero(np.diff(members.bucket, prepend=-1))]]
    for bucket in np.argsort(sizes, kind="stable")[-_BUCKETS:]:
        buckets[int(keys[bucket])] += int(sizes[bucket])
    owned.update(buckets.keys() & set(keys[np.flatnonzero(n_own)].tolist()))
    chosen = (losers.loser >= span[0]) & (losers.loser <= span[1])
    return losers if chosen.all() else losers.take(chosen)


def _reduce(unit: BandUnit, entries: _Entries) -> _Entries:
    """Without what cannot win: lost in every scope, and to `depth` documents in the chosen one."""
    _, losers = _rank(unit, entries)
    lost = losers.loser[(losers.winner != NONE) & (losers.lost_in == _EVERYWHERE)]
    documents, times = np.unique(lost, return_counts=True)
    return entries.take(~np.isin(entries.documents, documents[times == unit.depth]))


def number_sources(starts: tuple[tuple[int, int], ...], documents: I64) -> I32:
    """int32[n]: the number of the source of each document."""
    firsts = np.array([first for first, _ in starts], dtype=np.int64)
    numbers = np.array([number for _, number in starts], dtype=np.int32)
    return numbers[np.searchsorted(firsts, documents, side="right") - 1]
