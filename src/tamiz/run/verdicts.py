"""Verdicts as they are read again: part by part, only the wanted columns, in bounded memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.config import Config
from tamiz.decide.rules import Rule
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record, read_run_config
from tamiz.run.settings import make_all_rules
from tamiz.schema import U64
from tamiz.store import Folder

BATCH_ROWS = 1 << 16  # some 20 MB with every column of the FineWeb recipe

BOOL = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True)
class Verdicts:
    """The verdicts a run has published: valid parts in document order, the rules they were made by, their columns.

    A run that is not finished has some of its parts, or none.
    """

    folder: Folder
    parts: tuple[Done, ...]
    rules: tuple[Rule, ...]
    columns: frozenset[str]

    def read(self, part: Done, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batches of one part, about BATCH_ROWS rows each, with these columns in this order.

        Row groups are joined: sift writes one for every 1,024 documents, and a batch costs the same whatever its size.
        """
        with self.folder.open(part.outputs["verdicts"].path) as file:
            parquet = pq.ParquetFile(file)
            groups: list[int] = []
            n_rows = 0
            for group in range(parquet.num_row_groups):
                groups.append(group)
                n_rows += parquet.metadata.row_group(group).num_rows
                if n_rows >= BATCH_ROWS or group == parquet.num_row_groups - 1:
                    table = parquet.read_row_groups(groups, columns=list(columns), use_threads=False)
                    yield from table.select(list(columns)).combine_chunks().to_batches()
                    groups, n_rows = [], 0

    def read_row(self, part: Done, row: int, columns: Sequence[str]) -> dict[str, Any]:
        """One row of one part; reads one row group."""
        with self.folder.open(part.outputs["verdicts"].path) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):
                n_rows = parquet.metadata.row_group(group).num_rows
                if row < n_rows:
                    values = (
                        parquet.read_row_group(group, columns=list(columns), use_threads=False)
                        .slice(row, 1)
                        .to_pylist()
                    )
                    return dict(values[0])
                row -= n_rows
        raise IndexError(f"{part.unit} has no such row")


def open_verdicts(folder: Folder) -> tuple[Config, Verdicts]:
    """The run's own config and its verdicts; needs neither the sources nor the models of the run."""
    config = read_run_config(folder)
    record = read_plan_record(folder) or {}
    records = read_done(folder, record["places"]["sift"])
    parts = tuple(sorted(records.values(), key=lambda done: done.unit))
    columns: frozenset[str] = frozenset()
    if parts:
        with folder.open(parts[0].outputs["verdicts"].path) as file:
            columns = frozenset(pq.read_schema(file).names)
    return config, Verdicts(folder, parts, tuple(make_all_rules(config)), columns)


def map_parts(parts: Sequence[Done], work: Callable[[Done], T]) -> Iterator[T]:
    """`work` on every part, on as many threads as there are cores; results in the parts' order, few waiting at once.

    Threads, not processes: the time goes into reading Parquet and comparing columns, which hold no interpreter lock.
    """
    n_threads = len(os.sched_getaffinity(0))
    running: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for part in parts:
            running.append(pool.submit(work, part))
            if len(running) > 2 * n_threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def read_failures(failed: pa.ListArray, rules: Sequence[Rule]) -> BOOL:
    """bool[n_documents, n_rules] from the `failed` column of a batch."""
    names = pa.array([rule.name for rule in rules], type=pa.string())
    which = pc.index_in(failed.flatten(), value_set=names).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(failed)), np.diff(failed.offsets.to_numpy()))
    failures = np.zeros((len(failed), len(rules)), dtype=np.bool_, order="F")
    failures[rows, which.astype(np.int64)] = True
    return failures


def find_kept(failures: BOOL) -> BOOL:
    """bool[n]: no rule fails."""
    is_rejected = np.zeros(len(failures), dtype=np.bool_)
    for i in range(failures.shape[1]):
        is_rejected |= failures[:, i]
    return ~is_rejected


def read_keys(doc_ids: pa.FixedSizeBinaryArray) -> U64:
    """uint64[n]: the first 8 bytes of each doc_id. A doc_id is a hash, so the smallest keys are a uniform sample."""
    data = np.frombuffer(doc_ids.buffers()[1], dtype=np.uint8)
    rows = data[doc_ids.offset * 16 : (doc_ids.offset + len(doc_ids)) * 16].reshape(-1, 16)
    return np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
