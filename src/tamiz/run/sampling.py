"""Which of the removed near copies are looked at closer: a sample that depends on the seed and their doc_ids alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.schema import DUPLICATES, U64
from tamiz.store import Folder

_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # splitmix64 (Steele et al. 2014)


class Spot(NamedTuple):
    """Where a document stands: the run (None: this one), the part, its row in the part's KEPT."""

    run: str | None
    part: str
    row: int


class _Sample:
    """The `size` near copies with the smallest seeded hash of their doc_id: which ones depends on nothing else."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, np.uint64(seed)
        self.order: U64 = np.zeros(0, dtype=np.uint64)
        self.rows = DUPLICATES.empty_table()

    def add(self, table: pa.Table) -> None:
        near = table.filter(pc.and_(pc.equal(table.column("kind"), "near"), table.column("lost_to").is_valid()))
        if not len(near):
            return
        names = pc.cast(near.column("doc_id"), pa.binary()).to_pylist()
        x = np.array([int.from_bytes(name[:8], "little") for name in names], dtype=np.uint64) ^ self._seed
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
        order = np.concatenate([self.order, x])
        chosen = np.sort(np.argsort(order, kind="stable")[: self._size])
        self.order = order[chosen]
        self.rows = pa.concat_tables([self.rows, near]).take(pa.array(chosen))


def sample_pairs(folder: Folder, duplicates: str, size: int, seed: int) -> list[tuple[Spot, Spot]]:
    """(removed, lost to) of at most `size` near copies, chosen by a hash of their doc_id and the seed."""
    sample = _Sample(size, seed)
    with folder.open(duplicates) as file:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups if size else 0):
            sample.add(parquet.read_row_group(group, use_threads=False))
    return [
        (Spot(None, row["part"], row["row"]), Spot(row["lost_to_run"], row["lost_to_part"], row["lost_to_row"]))
        for row in sample.rows.to_pylist()
    ]
