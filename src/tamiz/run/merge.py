"""Dedup, third and fourth step: a group's losers over all bands, then the names of what they lost to.

Pairs travel twice: sorted by the winner's group, so that one unit reads the names of one group's documents, and back
sorted by the loser's group. Nothing is held for documents of more than one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.dedup.duplicates import NONE, Losers, merge_losers
from tamiz.run.bands import SCOPES
from tamiz.run.engine import Report
from tamiz.run.layout import Group
from tamiz.run.ledger import Done, record_done
from tamiz.schema import DOC_ID, I64
from tamiz.store import Folder

Bounds = tuple[tuple[int, int], ...]  # (first, past) document of every group

_PAIR = [
    pa.field("loser", pa.int64(), nullable=False),
    pa.field("winner", pa.int64(), nullable=False),
    pa.field("is_exact", pa.bool_(), nullable=False),
    pa.field("n_bands", pa.int32(), nullable=False),
    pa.field("similarity", pa.float64(), nullable=True),  # null until it is measured or estimated
]
PAIRS = pa.schema(_PAIR)
NAMED = pa.schema([*_PAIR, pa.field("lost_to", DOC_ID, nullable=True)])
HEADS = pa.schema(
    [
        pa.field("document", pa.int64(), nullable=False),
        pa.field("n_direct", pa.int64(), nullable=False),  # documents that lost to it
        pa.field("lost_to", pa.int64(), nullable=False),  # what it lost to itself, or NONE
    ]
)


@dataclass(frozen=True)
class MergeUnit:
    """Merge the bands' losers among the documents of `group`. `losers`: (file, is it of the exact hash)."""

    folder: str
    place: str
    group: Group
    losers: tuple[tuple[str, bool], ...]
    bounds: Bounds

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"merged-{self.group.index:05d}"

    def __str__(self) -> str:
        return f"dedup, duplicates of {self.group.parts[0].name} to {self.group.parts[-1].name}"


@dataclass(frozen=True)
class HeadUnit:
    """Name what others lost to among the documents of `group`. `merged`: the merge's file of each group."""

    folder: str
    place: str
    group: Group
    merged: tuple[str, ...]
    own: str | None
    bounds: Bounds

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"heads-{self.group.index:05d}"

    def __str__(self) -> str:
        return f"dedup, winners of {self.group.parts[0].name} to {self.group.parts[-1].name}"


def merge_group(unit: MergeUnit, report: Report) -> Done:
    """Work one unit: publish PAIRS of the group, a row group per group of winners; count what each scope removes."""
    folder = Folder(unit.folder)
    exact, near = (read_losers(folder, unit, is_exact) for is_exact in (True, False))
    verdicts = merge_losers(unit.group.n_documents, exact, near, unit.group.first)
    lost = np.flatnonzero(verdicts.lost_to != NONE)
    columns = [
        pa.array(lost + unit.group.first),
        pa.array(verdicts.lost_to[lost]),
        pa.array(verdicts.is_exact[lost]),
        pa.array(verdicts.n_bands[lost]),
        pa.nulls(len(lost), pa.float64()),
    ]
    tally = {f"scopes/{scope}": int((verdicts.lost_in & (1 << i) > 0).sum()) for i, scope in enumerate(SCOPES)}
    done = publish_pairs(folder, unit.place, unit.name, pa.Table.from_arrays(columns, schema=PAIRS), unit.bounds, tally)
    report(unit.group.n_documents, 0, 0)
    return done


def read_losers(folder: Folder, unit: MergeUnit, exact: bool) -> Iterator[Losers]:
    """The losers of the group, range by range, of the exact hash or of the bands."""
    for path, is_exact in unit.losers:
        if is_exact == exact:
            table = read_between(folder, path, "loser", unit.group.first, unit.group.past)
            yield Losers(*(table.column(name).to_numpy() for name in table.schema.names))


def publish_pairs(
    folder: Folder, place: str, name: str, pairs: pa.Table, bounds: Bounds, tally: dict[str, int]
) -> Done:
    """Publish PAIRS in row groups by the winner's group, within them by loser; their number by kind is counted."""
    with folder.publish(f"{place}/{name}.parquet") as file:
        write_sorted(file, pairs, PAIRS, "winner", bounds)
    n_exact = int(pairs.column("is_exact").to_numpy().sum())
    tally = {**tally, "duplicates/exact": n_exact, "duplicates/near": len(pairs) - n_exact}
    done = Done(name, {"pairs": file.output}, tally)
    record_done(folder, place, done)
    return done


def name_heads(unit: HeadUnit, report: Report) -> Done:
    """Work one unit: publish NAMED, a row group per group of losers, and HEADS in the order of documents."""
    folder = Folder(unit.folder)
    first, past = unit.group.first, unit.group.past
    found = [read_between(folder, path, "winner", first, past) for path in unit.merged]
    pairs = pa.concat_tables([PAIRS.empty_table(), *found])
    winner = pairs.column("winner").to_numpy()
    named = pairs.append_column(NAMED.field("lost_to"), _read_names(folder, unit.group, winner - first))
    with folder.publish(f"{unit.place}/{unit.name}.parquet") as file:
        write_sorted(file, named, NAMED, "loser", unit.bounds)
    documents, counts = np.unique(winner, return_counts=True)
    lost_to = np.full(len(documents), NONE, dtype=np.int64)
    if unit.own is not None and len(documents):
        with folder.open(unit.own) as own:
            table = pq.read_table(own, columns=["loser", "winner"])
        losers, winners = table.column("loser").to_numpy(), table.column("winner").to_numpy()
        order = np.argsort(losers)
        at = np.searchsorted(losers[order], documents)
        at = order[np.minimum(at, len(order) - 1)] if len(order) else at * 0
        lost = losers[at] == documents if len(order) else np.zeros(len(documents), dtype=np.bool_)
        lost_to[lost] = winners[at[lost]]
    heads = pa.Table.from_arrays(
        [pa.array(documents), pa.array(counts.astype(np.int64)), pa.array(lost_to)], schema=HEADS
    )
    with folder.publish(f"{unit.place}/{unit.name}.counts.parquet") as other:
        pq.write_table(heads, other, compression="zstd", compression_level=1)
    done = Done(unit.name, {"named": file.output, "heads": other.output}, {})
    record_done(folder, unit.place, done)
    report(unit.group.n_documents, 0, 0)
    return done


def read_between(folder: Folder, path: str, column: str, first: int, past: int) -> pa.Table:
    """The rows whose `column` (int64) is in [first, past), from the row groups that have some."""
    with folder.open(path) as file:
        parquet = pq.ParquetFile(file)
        place = parquet.schema_arrow.names.index(column)
        groups = []
        for group in range(parquet.num_row_groups):
            statistics = parquet.metadata.row_group(group).column(place).statistics
            if statistics is not None and statistics.min < past and statistics.max >= first:
                groups.append(group)
        table = parquet.read_row_groups(groups, use_threads=False)
    values = table.column(column).to_numpy()
    inside = (values >= first) & (values < past)
    return table if inside.all() else table.filter(pa.array(inside))


def write_sorted(file: pa.PythonFile, table: pa.Table, schema: pa.Schema, column: str, bounds: Bounds) -> None:
    """Write a row group per group of `column`, within it by loser."""
    firsts = np.array([first for first, _ in bounds], dtype=np.int64)
    group = np.searchsorted(firsts, table.column(column).to_numpy(), side="right")
    order = np.lexsort((table.column("loser").to_numpy(), group))
    table, group = table.take(pa.array(order)), group[order]
    cuts = np.flatnonzero(np.diff(group)) + 1
    with pq.ParquetWriter(file, schema, compression="zstd", compression_level=1) as writer:
        for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(table)], strict=True):
            if stop > start:
                writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)


def _read_names(folder: Folder, group: Group, rows: I64) -> pa.Array:
    """The doc_ids at these rows of the group (in any order), reading a part at a time."""
    names = np.zeros((len(rows), 16), dtype=np.uint8)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = 0
    for part in group.parts:
        start, stop = np.searchsorted(ordered, (first, first + part.n_kept))
        if start < stop:
            names[order[start:stop]] = read_doc_ids(part.open_folder(folder), part.bands)[ordered[start:stop] - first]
        first += part.n_kept
    return pa.FixedSizeBinaryArray.from_buffers(DOC_ID, len(rows), [None, pa.py_buffer(names)])


def read_doc_ids(folder: Folder, bands: str) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """uint8[n, 16]: the doc_ids of a band file."""
    with folder.open(bands) as file:
        column = pq.read_table(file, columns=["doc_id"], use_threads=False, pre_buffer=False).column(0).combine_chunks()
    data = np.frombuffer(column.buffers()[1] or b"", dtype=np.uint8).reshape(-1, 16)
    return data[column.offset : column.offset + len(column)]


def list_files(records: Sequence[Done], role: str) -> tuple[str, ...]:
    """The files of a role, in the records' order."""
    return tuple(done.outputs[role].path for done in records)
