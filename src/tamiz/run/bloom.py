"""`dedup.index: bloom`: keys are looked up in a Bloom filter per column while the band files are read once, in order.

Nothing is written but the losers: no sorted ranges, no names of winners. Filters too large for the memory are cut by
key range, and the column is read once per range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.dedup.bloom import BloomShape, choose_bloom, make_bits, meet_keys
from tamiz.dedup.signature import mix
from tamiz.run.bands import LOSERS, SCOPES, list_source_starts, number_sources
from tamiz.run.engine import Report
from tamiz.run.layout import INTERPRETER_BYTES, Group, Layout
from tamiz.run.ledger import Done, record_done
from tamiz.run.partition import read_dumps, read_keys
from tamiz.schema import I64, U64
from tamiz.store import Folder

_READING_BYTES = 100 << 20  # of a part's keys while they are looked up


@dataclass(frozen=True)
class BloomUnit:
    """Find the documents whose key in `column`, if it is in range `index` of `count`, was met before in their scope.

    `layout`: all documents, those of older runs first. A loser's winner is given as the document behind the last.
    """

    folder: str
    place: str
    layout: Layout
    column: str
    index: int
    count: int
    shape: BloomShape
    scope: str
    dumps: tuple[str, ...]

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"losers-{self.column}-{self.index:04d}"

    def __str__(self) -> str:
        return f"dedup {self.column}, Bloom filter {self.index + 1} of {self.count}"


def share_rate(false_positives: float, n_columns: int) -> float:
    """The rate of each of so many filters that together take at most a share `false_positives` of new documents."""
    return float(1.0 - (1.0 - false_positives) ** (1.0 / max(1, n_columns)))


def choose_filters(n_documents: int, n_columns: int, false_positives: float, memory: int) -> tuple[BloomShape, int]:
    """The shape of one filter, and into how many ranges each column is cut for workers of `memory` bytes."""
    rate = share_rate(false_positives, n_columns)
    allowed = max(1, memory - INTERPRETER_BYTES - _READING_BYTES)
    count = 1
    while (shape := choose_bloom(-(-n_documents // count), rate)).n_words * 8 > allowed:
        count *= 2
    return shape, count


def plan_filters(
    folder: str,
    place: str,
    layout: Layout,
    columns: tuple[str, ...],
    scope: str,
    dumps: tuple[str, ...],
    false_positives: float,
    memory: int,
) -> Iterator[BloomUnit]:
    """One unit per column and range."""
    shape, count = choose_filters(layout.n_documents, len(columns), false_positives, memory)
    for column in columns:
        for index in range(count):
            yield BloomUnit(folder, place, layout, column, index, count, shape, scope, dumps)


def find_met(unit: BloomUnit, report: Report) -> Done:
    """Work one unit: publish LOSERS, a row group per group of documents. Facts: bytes of the filter."""
    folder = Folder(unit.folder)
    bits = make_bits(unit.shape)
    starts = list_source_starts(unit.layout)
    n_losers = 0
    with (
        folder.publish(f"{unit.place}/{unit.name}.parquet") as file,
        pq.ParquetWriter(file, LOSERS, compression="zstd", compression_level=1) as writer,
    ):
        for group in unit.layout.groups:
            found = [np.zeros(0, dtype=np.int64)]
            for documents, keys in _read_parts(folder, unit, group, starts):
                met = meet_keys(bits, unit.shape.n_probes, keys)
                found.append(documents[met == 1])
            losers = np.concatenate(found)
            report(group.n_documents, 0, 0)
            if group.is_own and len(losers):
                writer.write_table(_make_losers(unit, losers))
                n_losers += len(losers)
    facts = {"buckets": [], "filter_bytes": unit.shape.n_words * 8}
    done = Done(unit.name, {"losers": file.output}, {"losers": n_losers}, facts)
    record_done(folder, unit.place, done)
    return done


def _make_losers(unit: BloomUnit, losers: I64) -> pa.Table:
    n = len(losers)
    columns = [
        pa.array(losers),
        pa.array(np.full(n, unit.layout.n_documents)),
        pa.array(np.zeros(n, dtype=np.uint64)),
        pa.array(np.full(n, 1 << SCOPES.index(unit.scope), dtype=np.uint8)),
    ]
    return pa.Table.from_arrays(columns, schema=LOSERS)


def _read_parts(
    folder: Folder, unit: BloomUnit, group: Group, starts: tuple[tuple[int, int], ...]
) -> Iterator[tuple[I64, U64]]:
    """(documents, keys) of the range, part by part; in a scope, a key is mixed with the scope's number."""
    first = group.first
    shift = np.uint64(64 - (unit.count.bit_length() - 1))
    for part in group.parts:
        keys, rows = read_keys(folder, (part,), unit.column)
        if unit.count > 1:
            inside = (keys >> shift) == np.uint64(unit.index)
            keys, rows = keys[inside], rows[inside]
        documents = rows.astype(np.int64) + first
        if unit.scope != "run" and len(keys):
            numbers = number_sources(starts, documents)
            if unit.scope == "dump":
                numbers = read_dumps(folder, part, pa.array(unit.dumps, pa.string()))[rows]
            keys = keys ^ _mix_numbers(numbers.astype(np.int64))
        first += part.n_kept
        yield documents, keys


def _mix_numbers(numbers: I64) -> U64:
    known, at = np.unique(numbers, return_inverse=True)
    mixed: U64 = np.array([mix(np.uint64(number + 2)) for number in known], dtype=np.uint64)[at]
    return mixed
