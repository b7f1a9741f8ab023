"""Parquet files: splits by row groups, and rows from a cursor on with only the needed columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tamiz.errors import DamageError, SourceError
from tamiz.sources import records, selection
from tamiz.sources.files import FoundFile
from tamiz.sources.split import BATCH_ROWS, Chunk, Cursor, Damage, Split, TableSource
from tamiz.sources.table import UNREADABLE, Table, explain_unreadable, find_spans, iterate_groups, open_table


def plan_file(file: FoundFile, spec: TableSource, split_bytes: int) -> list[Split]:
    """The splits of one file: consecutive row groups, each split closed once it holds `split_bytes` of text.

    Raises what open_table does.
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
    if split.quarantine is not None or not spec.where:
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
            n += _count_in_group(table, group, spec)
            if n >= enough:
                return enough
    return n


def _count_in_group(table: Table, group: int, spec: TableSource) -> int:
    """A row that cannot be read is always selected."""
    n = n_read = 0
    try:
        for _, batches in iterate_groups(table, range(group, group + 1), table.where):
            for batch in batches:
                n += selection.select_rows(batch, spec.where, spec.name).true_count
                n_read += batch.num_rows
    except UNREADABLE as error:
        if not isinstance(explain_unreadable(spec.name, error), DamageError):
            raise
    n_rows: int = table.file.metadata.row_group(group).num_rows
    return n + n_rows - n_read


def read_parquet(split: Split, spec: TableSource, cursor: Cursor | None) -> Iterator[Chunk]:
    """The chunks of a split from a cursor on; see reading.read_split."""
    at = cursor or Cursor(split.first_position, 0)
    with open_table(split.address, spec) as table:
        starts = _check_unchanged(split, table)
        skipped = sum(1 for start in starts[1:] if start <= at.position)
        for group, batches in iterate_groups(table, _list_groups(split)[skipped:], table.columns):
            first, stop = starts[group - split.start : group - split.start + 2]
            for chunk in _read_group(split, spec, table, at, (first, batches)):
                at = chunk.cursor
                yield chunk
            if split.limit is not None and at.n_selected >= split.limit:
                return
            for chunk in lose_rows(split, at, stop, "parquet_unreadable", _find_bytes(table, group)):
                at = chunk.cursor
                yield chunk


def _read_group(
    split: Split, spec: TableSource, table: Table, at: Cursor, group: tuple[int, Iterator[pa.RecordBatch]]
) -> Iterator[Chunk]:
    """The chunks of a row group (its first position, its batches) from a cursor on, as far as it can be read."""
    first, batches = group
    try:
        for batch in batches:
            if split.limit is not None and at.n_selected >= split.limit:
                return
            if first + batch.num_rows > at.position:
                chunk = _make_chunk(split, spec, table, batch.slice(at.position - first), at)
                at = chunk.cursor
                yield chunk
            first += batch.num_rows
    except UNREADABLE as error:
        why = explain_unreadable(f"{split.path}, row {at.position}", error)
        if not isinstance(why, DamageError):
            raise why from error


def _find_bytes(table: Table, group: int) -> tuple[int, int]:
    """Where the wanted columns of a row group lie in the file: bytes [start, stop)."""
    spans = find_spans(table, group, table.columns)
    return min(start for start, _ in spans), max(stop for _, stop in spans)


def lose_rows(split: Split, at: Cursor, stop: int, reason: str, where: tuple[int, int]) -> Iterator[Chunk]:
    """Chunks of the rows from a cursor to `stop`, none of which can be read; `where`: bytes of the file they take."""
    while at.position < stop and (split.limit is None or at.n_selected < split.limit):
        n = min(BATCH_ROWS, stop - at.position, BATCH_ROWS if split.limit is None else split.limit - at.n_selected)
        batch = records.make_lost_batch(split, range(at.position, at.position + n), reason)
        damage = Damage(split.path, at.position, reason, *where, n)
        at = Cursor(at.position + n, at.n_selected + n)
        yield Chunk(batch, {}, at, (damage,))


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
        _read_label(batch, table.dump),
    )
    rows = records.make_batch(split, (at.position + selected).tolist(), text, quarantine, labels)
    n_excluded = n_read - len(selected)
    skipped = {"where": n_excluded} if n_excluded else {}
    return Chunk(rows, skipped, Cursor(at.position + n_read, at.n_selected + len(selected)))


def _read_label(batch: pa.RecordBatch, name: str | None) -> pa.StringArray:
    if name is None:
        return pa.nulls(batch.num_rows, pa.string())
    return records.read_strings(batch.column(name))[0].cast(pa.string())
