"""Parquet files: splits by row groups, and rows from a cursor on with only the needed columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tamiz.errors import SourceError
from tamiz.sources import records, selection
from tamiz.sources.files import FoundFile
from tamiz.sources.split import BATCH_ROWS, Chunk, Cursor, Split, TableSource
from tamiz.sources.table import Table, iterate_groups, open_table


def plan_file(file: FoundFile, spec: TableSource, split_bytes: int) -> list[Split]:
    """The splits of one file: consecutive row groups, each split closed once it holds `split_bytes` of text.

    Raises ConfigError for a missing column, SourceError for a file that is not Parquet.
    """
    with open_table(file.address, spec, file.n_bytes) as table:
        groups = [table.file.metadata.row_group(i) for i in range(table.file.num_row_groups)]
        rows = [group.num_rows for group in groups]
        sizes = [group.column(table.index[table.text]).total_uncompressed_size for group in groups]
    splits = []
    start, first = 0, 0
    for stop in range(1, len(groups) + 1):
        n_rows, n_bytes = sum(rows[start:stop]), sum(sizes[start:stop])
        if n_rows and (n_bytes >= split_bytes or stop == len(groups)):
            place = (start, stop, first, n_rows, n_bytes)
            splits.append(Split(spec.name, "parquet", file.path, file.address, *place))
            start, first = stop, first + n_rows
    return splits


def count_selected(split: Split, spec: TableSource, enough: int) -> int:
    """Documents of the split that satisfy `where`, at most `enough`; reads the columns of `where` only."""
    if not spec.where:
        return min(enough, split.n_rows or 0)
    n = 0
    with open_table(split.address, spec) as table:
        unclear = []
        for group in _list_groups(split):
            facts = table.file.metadata.row_group(group)
            if selection.is_group_selected(facts, table.index, spec.where):
                n += facts.num_rows
            else:
                unclear.append(group)
            if n >= enough:
                return enough
        for group in unclear:
            for _, batches in iterate_groups(table, range(group, group + 1), table.where, BATCH_ROWS):
                n += sum(selection.select_rows(batch, spec.where, spec.name).true_count for batch in batches)
            if n >= enough:
                return enough
    return n


def read_parquet(split: Split, spec: TableSource, cursor: Cursor | None) -> Iterator[Chunk]:
    """The chunks of a split from a cursor on; see reading.read_split."""
    at = cursor or Cursor(split.first_position, 0)
    with open_table(split.address, spec) as table:
        starts = _check_unchanged(split, table)
        skipped = sum(1 for start in starts[1:] if start <= at.position)
        groups = _list_groups(split)[skipped:]
        try:
            for group, batches in iterate_groups(table, groups, table.columns):
                first = starts[group - split.start]
                for batch in batches:
                    if split.limit is not None and at.n_selected >= split.limit:
                        return
                    if first + batch.num_rows > at.position:
                        chunk = _make_chunk(split, spec, table, batch.slice(at.position - first), at)
                        at = chunk.cursor
                        yield chunk
                    first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{split.path}, row {at.position}: cannot be read as Parquet: {error}") from error


def _list_groups(split: Split) -> range:
    assert split.stop is not None, "a Parquet split ends at a row group"
    return range(split.start, split.stop)


def _check_unchanged(split: Split, table: Table) -> list[int]:
    """The position of the first row of each row group of the split, and of the row behind it."""
    metadata = table.file.metadata
    present = [group for group in _list_groups(split) if group < metadata.num_row_groups]
    starts = [split.first_position]
    for group in present:
        starts.append(starts[-1] + metadata.row_group(group).num_rows)
    if starts[-1] - starts[0] != split.n_rows:
        raise SourceError(
            f"{split.path}: has {starts[-1] - starts[0]} rows in row groups {split.start} to {split.stop}, the plan "
            f"says {split.n_rows}; it changed since: restore it, or plan a new run"
        )
    return starts


def _make_chunk(split: Split, spec: TableSource, table: Table, batch: pa.RecordBatch, at: Cursor) -> Chunk:
    """The chunk of these rows, of which the first is at the cursor `at`."""
    n_read = batch.num_rows
    selected = np.arange(n_read)
    if spec.where:
        selected = np.flatnonzero(selection.select_rows(batch, spec.where, spec.name).to_numpy(zero_copy_only=False))
    if split.limit is not None and len(selected) >= split.limit - at.n_selected:
        selected = selected[: split.limit - at.n_selected]
        n_read = int(selected[-1]) + 1  # the rows behind the last one wanted are not read
    if len(selected) < batch.num_rows:
        batch = batch.take(pa.array(selected))
    text, quarantine = records.read_text(batch.column(table.text))
    labels = (
        _read_label(batch, table.url),
        _read_label(batch, table.language),
        batch.column(table.score).cast(pa.float64()) if table.score else pa.nulls(batch.num_rows, pa.float64()),
    )
    rows = records.make_batch(split, (at.position + selected).tolist(), text, quarantine, labels)
    n_excluded = n_read - len(selected)
    skipped = {"where": n_excluded} if n_excluded else {}
    return Chunk(rows, skipped, Cursor(at.position + n_read, at.n_selected + len(selected)))


def _read_label(batch: pa.RecordBatch, name: str | None) -> pa.StringArray:
    if name is None:
        return pa.nulls(batch.num_rows, pa.string())
    return records.read_strings(batch.column(name))[0].cast(pa.string())
