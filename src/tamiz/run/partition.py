"""Dedup, first step: a group's keys, column by column, cut into key ranges, in one file that is read by slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.dedup.duplicates import order_floats
from tamiz.dedup.sieve import match_keys
from tamiz.run.engine import Report
from tamiz.run.layout import Group, KeptPart
from tamiz.run.ledger import Done, record_done
from tamiz.schema import I32, U64
from tamiz.store import Folder

_NO_DUMP = -1


@dataclass(frozen=True)
class Preference:
    """Who wins in a bucket: documents of older runs, then of the sources in `sources` in that order, then of others;
    between equals the most (least if not `descending`) of `metric` (None: the first; `n_bytes`: of the kept text)."""

    sources: tuple[str, ...] = ()
    metric: str | None = None
    descending: bool = True

    @property
    def is_order(self) -> bool:
        """Whether the order of documents alone decides."""
        return not self.sources and self.metric is None


@dataclass(frozen=True)
class PartitionUnit:
    """Cut the keys of `columns` of one group into `n_ranges` ranges. `dumps`: the run's, numbered by their place.
    `sieves`: of an older run's group, for each column the bitmap of the keys that count; others are left out."""

    folder: str
    place: str
    group: Group
    columns: tuple[str, ...]
    n_ranges: int
    dumps: tuple[str, ...]
    preference: Preference
    sieves: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"keys-{self.group.index:05d}"

    def __str__(self) -> str:
        return f"dedup, keys of {self.group.parts[0].name} to {self.group.parts[-1].name}"


@dataclass(frozen=True)
class Slice:
    """The keys of one column and range in one group's file: row group number `row_group`, of `n_rows` rows.

    `first`: what to add to `row` to get a document's index in the order.
    """

    path: str
    row_group: int
    n_rows: int
    first: int


def partition_keys(unit: PartitionUnit, report: Report) -> Done:
    """Work one unit: publish (key, row in the group[, merit][, dump]), one row group per column and range that has any.

    Facts: `counts`, (column, documents of each range). 50 bytes per document of the group, one column at a time.
    """
    folder = Folder(unit.folder)
    extras = _read_extras(folder, unit)
    schema = pa.schema(
        [("key", pa.uint64()), ("row", pa.uint32()), *((n, pa.array(v).type) for n, v in extras.items())]
    )
    counts: list[tuple[str, list[int]]] = []  # in the file's order, which a mapping would lose in its record
    writer_options = {
        "compression": "none",  # keys are hashes
        "use_dictionary": list(extras),
        "column_encoding": {"key": "PLAIN", "row": "DELTA_BINARY_PACKED"},
        "write_statistics": False,
    }
    with (
        folder.publish(f"{unit.place}/{unit.name}.parquet") as file,
        pq.ParquetWriter(file, schema, **writer_options) as writer,
    ):
        for column in unit.columns:
            counts.append((column, []))
            for table in _cut_column(folder, unit, column, extras, schema):
                counts[-1][1].append(len(table))
                if len(table):
                    writer.write_table(table, row_group_size=len(table))
    report(unit.group.n_documents, 0, 0)
    done = Done(unit.name, {"keys": file.output}, {}, {"counts": counts})
    record_done(folder, unit.place, done)
    return done


def find_slice(done: Done, group: Group, column: str, index: int) -> Slice:
    """Where range number `index` of `column` lies in the file of `done`; empty ranges have no row group."""
    before = 0
    for name, counts in done.facts["counts"]:
        if name == column:
            before += sum(n > 0 for n in counts[:index])
            return Slice(done.outputs["keys"].path, before, counts[index], group.first)
        before += sum(n > 0 for n in counts)
    raise KeyError(column)


def _cut_column(
    folder: Folder, unit: PartitionUnit, column: str, extras: dict[str, npt.NDArray[np.generic]], schema: pa.Schema
) -> Iterator[pa.Table]:
    keys, rows = read_keys(folder, unit.group.parts, column)
    if unit.sieves:
        path = unit.sieves[unit.columns.index(column)]
        known = match_keys(np.frombuffer(folder.read_bytes(path), dtype=np.uint64), keys)
        keys, rows = keys[known], rows[known]
    if unit.n_ranges > 1:
        shift = np.uint64(64 - (unit.n_ranges.bit_length() - 1))
        ranges = (keys >> shift).astype(np.uint16 if unit.n_ranges <= 1 << 16 else np.uint32)
        order = np.argsort(ranges, kind="stable")  # a radix sort for uint16; rows stay ascending within a range
        cuts = np.searchsorted(ranges[order], np.arange(unit.n_ranges + 1))
        keys, rows = keys[order], rows[order]
    else:
        cuts = np.array([0, len(keys)])
    for start, stop in pairwise(cuts):
        row = rows[start:stop]
        columns = [pa.array(keys[start:stop]), pa.array(row), *(pa.array(values[row]) for values in extras.values())]
        yield pa.Table.from_arrays(columns, schema=schema)


def read_keys(folder: Folder, parts: Sequence[KeptPart], column: str) -> tuple[U64, npt.NDArray[np.uint32]]:
    """The keys of consecutive parts, and each one's row among their documents; documents without a key left out."""
    keys, rows, first = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.uint32)], 0
    for part in parts:
        with part.open_folder(folder).open(part.bands) as file:
            values = pq.read_table(file, columns=[column]).column(0).combine_chunks()
        if values.null_count:
            rows.append(
                np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).astype(np.uint32) + np.uint32(first)
            )
        else:
            rows.append(np.arange(first, first + len(values), dtype=np.uint32))
        keys.append(values.drop_null().to_numpy())
        first += part.n_kept
    return np.concatenate(keys), np.concatenate(rows)


def _read_extras(folder: Folder, unit: PartitionUnit) -> dict[str, npt.NDArray[np.generic]]:
    """`merit` uint64 unless the order decides, `dump` int32 if the run has any: one value per row of the group."""
    extras: dict[str, npt.NDArray[np.generic]] = {}
    if not unit.preference.is_order:
        merits = [_read_merits(folder, part, unit.preference) for part in unit.group.parts]
        extras["merit"] = np.concatenate([np.zeros(0, dtype=np.uint64), *merits])
    if unit.dumps:
        names = pa.array(unit.dumps, pa.string())
        dumps = [read_dumps(folder, part, names) for part in unit.group.parts]
        extras["dump"] = np.concatenate([np.zeros(0, dtype=np.int32), *dumps])
    return extras


def _read_merits(folder: Folder, part: KeptPart, preference: Preference) -> U64:
    """uint64[n_kept]: 8 bits of priority over 56 bits of the value."""
    if part.run is not None:
        return np.zeros(part.n_kept, dtype=np.uint64)
    known = preference.sources
    priority = 1 + (known.index(part.source) if part.source in known else len(known))
    merits = np.full(part.n_kept, priority << 56, dtype=np.uint64)
    if preference.metric is not None:
        merits |= order_floats(_read_values(folder, part, preference.metric), descending=preference.descending)
    return merits


def _read_values(folder: Folder, part: KeptPart, metric: str) -> npt.NDArray[np.float64]:
    if metric == "n_bytes":
        with folder.open(part.kept) as file:
            column = pq.read_table(file, columns=["n_bytes"]).column(0)
    else:
        with folder.open(part.verdicts) as file:
            table = pq.read_table(file, columns=[metric, "doc_id"])
        with folder.open(part.bands) as file:
            names = pq.read_table(file, columns=["doc_id"]).column(0)
        column = table.column(0).take(pc.index_in(names, value_set=table.column("doc_id")))
    values: npt.NDArray[np.float64] = column.cast(pa.float64()).to_numpy()  # null becomes NaN
    return values


def read_dumps(folder: Folder, part: KeptPart, names: pa.Array) -> I32:
    """int32[n_kept]: the place of each document's dump in `names`, -1 for none."""
    with part.open_folder(folder).open(part.bands) as file:
        column = pq.read_table(file, columns=["dump"], read_dictionary=["dump"]).column(0).combine_chunks()
    number = pc.fill_null(pc.index_in(column.dictionary, value_set=names), _NO_DUMP).to_numpy()
    at = pc.fill_null(column.indices, len(number)).to_numpy()
    numbers: I32 = np.append(number, _NO_DUMP)[at].astype(np.int32)
    return numbers
