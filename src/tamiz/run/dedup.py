"""The dedup stage: one unit per (key column, key range) over all parts, then one merge into duplicates.parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.dedup.duplicates import NONE, Losers, find_losers, merge_losers
from tamiz.run.engine import Report
from tamiz.run.ledger import Done, record_done
from tamiz.schema import DOC_ID, DUPLICATES, I64, U64, check_batch
from tamiz.store import Folder

RANGE_DOCUMENTS = 20_000_000  # documents sorted at once: 1 GB
BAND_BYTES = 50  # of memory for each: key, index and sorting
_LOSERS = pa.schema([pa.field("loser", pa.int64(), nullable=False), pa.field("winner", pa.int64(), nullable=False)])


@dataclass(frozen=True)
class KeptPart:
    """One part as dedup sees it: its name, where its KEPT and band files are, and how many documents it kept."""

    name: str
    kept: str
    bands: str
    n_kept: int


@dataclass(frozen=True)
class BandUnit:
    """Find the losers of one key column (`exact`, `band_00`...) among the keys of range number `index` of `count`."""

    folder: str
    place: str
    parts: tuple[KeptPart, ...]
    column: str
    index: int
    count: int

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"{self.column}-{self.index:03d}"

    def __str__(self) -> str:
        return f"dedup {self.column}, key range {self.index + 1} of {self.count}"


def plan_bands(folder: str, place: str, parts: Sequence[KeptPart], n_bands: int, *, exact: bool) -> list[BandUnit]:
    """The units: as many equal key ranges per column as keep each under RANGE_DOCUMENTS."""
    total = sum(part.n_kept for part in parts)
    count = 1 << max(0, (-(-total // RANGE_DOCUMENTS) - 1)).bit_length()
    columns = ["exact"] * exact + [f"band_{i:02d}" for i in range(n_bands)]
    return [BandUnit(folder, place, tuple(parts), column, index, count) for column in columns for index in range(count)]


def find_band_losers(unit: BandUnit, report: Report) -> Done:
    """Work one unit: read the column of all parts, keep the keys of the range, publish who lost to whom."""
    folder = Folder(unit.folder)
    documents, keys = _read_keys(folder, unit)
    losers = find_losers(documents, keys)
    table = pa.table([pa.array(losers.loser), pa.array(losers.winner)], schema=_LOSERS)
    with folder.publish(f"{unit.place}/{unit.name}.parquet") as file:
        pq.write_table(table, file, compression="zstd")
    done = Done(unit.name, {"losers": file.output}, {"losers": len(losers.loser)})
    record_done(folder, unit.place, done)
    report(len(documents), 0, 0)
    return done


def _read_keys(folder: Folder, unit: BandUnit) -> tuple[I64, U64]:
    shift = np.uint64(64 - (unit.count.bit_length() - 1))
    documents, keys, first = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)], 0
    for part in unit.parts:
        with folder.open(part.bands) as file:
            column = pq.read_table(file, columns=[unit.column]).column(0).combine_chunks()
        index = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        values = column.drop_null().to_numpy()
        if unit.count > 1:
            inside = (values >> shift) == np.uint64(unit.index)
            index, values = index[inside], values[inside]
        documents.append(index + first)
        keys.append(values)
        first += part.n_kept
    return np.concatenate(documents), np.concatenate(keys)


def publish_duplicates(folder: Folder, place: str, parts: Sequence[KeptPart], bands: Sequence[Done]) -> Done:
    """Merge the units' losers and publish `duplicates.parquet`, in document order, with its record."""
    exact = [_read_losers(folder, done) for done in bands if done.unit.startswith("exact")]
    near = [_read_losers(folder, done) for done in bands if not done.unit.startswith("exact")]
    verdicts = merge_losers(sum(part.n_kept for part in parts), exact, near)
    identity = _Identity(folder, parts)
    losers = np.flatnonzero(verdicts.lost_to != NONE)
    n_bytes = 0
    with (
        folder.publish(f"{place}/duplicates.parquet") as file,
        pq.ParquetWriter(file, DUPLICATES, compression="zstd") as writer,
    ):
        for part, first, doc_ids, sizes in identity.walk():
            here = losers[(losers >= first) & (losers < first + part.n_kept)]
            if not len(here):
                continue
            n_bytes += int(sizes[here - first].sum())
            table = pa.table(
                {
                    "part": pa.array([part.name] * len(here), type=pa.string()),
                    "row": pa.array(here - first),
                    "doc_id": doc_ids.take(pa.array(here - first)),
                    "lost_to": identity.find(verdicts.lost_to[here]),
                    "kind": pc.if_else(pa.array(verdicts.is_exact[here]), "exact", "near"),
                    "n_bands": pa.array(verdicts.n_bands[here]),
                },
                schema=DUPLICATES,
            )
            check_batch(table, DUPLICATES, "dedup -> pack")
            writer.write_table(table)
    n_exact = int(verdicts.is_exact.sum())
    tally = {
        "documents/duplicate": len(losers),
        "duplicates/exact": n_exact,
        "duplicates/near": len(losers) - n_exact,
        "bytes/duplicate": n_bytes,
    }
    done = Done("duplicates", {"duplicates": file.output}, tally)
    record_done(folder, place, done)
    return done


def _read_losers(folder: Folder, done: Done) -> Losers:
    with folder.open(done.outputs["losers"].path) as file:
        table = pq.read_table(file)
    return Losers(table.column("loser").to_numpy(), table.column("winner").to_numpy())


class _Identity:
    """doc_ids by index in the order: 16 bytes a document, read once while walking (a winner comes before its loser)."""

    def __init__(self, folder: Folder, parts: Sequence[KeptPart]) -> None:
        self._folder, self._parts = folder, parts
        self._doc_ids: list[pa.Array] = []

    def walk(self) -> Iterator[tuple[KeptPart, int, pa.Array, I64]]:
        """(part, index of its first document, doc_ids, bytes of the kept texts) part by part."""
        first = 0
        for part in self._parts:
            with self._folder.open(part.kept) as file:
                table = pq.read_table(file, columns=["doc_id", "n_bytes"])
            self._doc_ids.append(table.column("doc_id").combine_chunks())
            yield part, first, self._doc_ids[-1], table.column("n_bytes").to_numpy()
            first += part.n_kept

    def find(self, index: I64) -> pa.Array:
        """The doc_ids of documents already walked over."""
        return pa.chunked_array(self._doc_ids, type=DOC_ID).take(pa.array(index)).combine_chunks()


def read_duplicate_rows(folder: Folder, duplicates: str, part: str) -> I64:
    """Rows of `part`'s KEPT that are duplicates, ascending."""
    with folder.open(duplicates) as file:
        table = pq.read_table(file, columns=["row"], filters=[("part", "==", part)])
    rows: I64 = table.column("row").to_numpy()
    return rows
