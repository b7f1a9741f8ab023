"""An open Parquet file: which of its columns are read, and its row groups decoded in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.errors import ConfigError, DamageError, SourceError
from tamiz.sources import opening, records
from tamiz.sources.ranges import RangeFile
from tamiz.sources.split import BATCH_BYTES, BATCH_ROWS, TableSource

# A column chunk is read in pieces of this size: a row group of 870 MB of text takes 40 MB of memory instead of 360,
# at the same speed.
_BUFFER_BYTES = 1 << 20
# Remote: the bytes of consecutive row groups are fetched together up to this size. FineWeb's row groups of 1,000
# documents hold some 2 MB of compressed text each, so that this saves 7 requests of 8. Two windows are in memory: the
# one being read and the one being fetched.
_WINDOW_BYTES = 16 << 20
_PIECE_BYTES = 4 << 20  # remote, when one row group alone is larger than the window
# A batch is put together from steps of few rows, because nothing in a file tells how large its largest text is: a
# dictionary of a megabyte may stand for gigabytes. A step holds no more than this, or 8 times the largest text. 8 rows
# cost 2.6 ms per MB of text, 32 (FineWeb's row groups) 1.1.
_STEP_BYTES = 128 << 20
_STEP_ROWS_MIN = 8

UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What pyarrow raises for damaged bytes; ValueError for a name in the footer that is not UTF-8."""


class MisfitError(ConfigError):
    """A file lacks a column, or its text column is not text: why its `n_rows` records are nothing, as a reason."""

    def __init__(self, message: str, reason: str, n_rows: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.n_rows = n_rows

    def __reduce__(self) -> tuple[type[MisfitError], tuple[str, str, int]]:
        return MisfitError, (str(self), self.reason, self.n_rows)


@dataclass(frozen=True)
class Table:
    """An open Parquet file with the names of the columns wanted of it, None for a label it does not have.

    `raw` is the file below when it is remote; `index` gives each flat column's place in a row group's metadata.
    """

    file: pq.ParquetFile
    raw: RangeFile | None
    index: dict[str, int]
    text: str
    url: str | None
    language: str | None
    score: str | None
    dump: str | None
    where: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The names of all columns wanted, each once."""
        names = (self.text, self.url, self.language, self.score, self.dump, *self.where)
        return list(dict.fromkeys(name for name in names if name is not None))


class Window(NamedTuple):
    """Row groups whose bytes are fetched together: `spans` are the ranges [start, stop) of their wanted columns."""

    groups: range
    spans: list[tuple[int, int]]

    @property
    def is_small(self) -> bool:
        """True when the whole of it may be in memory."""
        return _count_bytes(self.spans) <= _WINDOW_BYTES


@contextlib.contextmanager
def open_table(address: str, spec: TableSource, n_bytes: int | None = None) -> Iterator[Table]:
    """Open a file (`n_bytes` large, if known) and choose its columns.

    Raises MisfitError when the text column or one of `where` is missing or the text is no text, DamageError when the
    file is not whole Parquet, SourceError when it cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        raw = opening.open_ranges(address, n_bytes)
        source = address if raw is None else stack.enter_context(raw)
        buffer_bytes = _BUFFER_BYTES if raw is None else _PIECE_BYTES
        try:
            # Checksums of pages, where the writer made them, cost nothing measurable and find rotten bytes.
            file = pq.ParquetFile(source, buffer_size=buffer_bytes, pre_buffer=False, page_checksum_verification=True)
            _check_footer(file)
        except UNREADABLE as error:
            raise explain_unreadable(address, error) from error
        yield _choose_columns(stack.enter_context(file), raw, address, spec)


def explain_unreadable(address: str, error: Exception) -> SourceError:
    """DamageError when pyarrow did not understand the bytes, SourceError when it did not get them."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
        return SourceError(f"{address}: {error}; put it right, or leave the file out")
    return DamageError(f"{address}: cannot be read as Parquet: {error}; restore it or leave it out")


def _check_footer(file: pq.ParquetFile) -> None:
    """Numbers of rows are believed when planning, so one that a flipped bit has changed must not get so far."""
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    flat = [i for i in range(file.metadata.num_columns) if file.metadata.schema.column(i).max_repetition_level == 0]
    if min(rows, default=0) < 0 or sum(rows) != file.metadata.num_rows:
        raise pa.ArrowInvalid(f"the row groups have {sum(rows)} rows, the file {file.metadata.num_rows}")
    for number, group in enumerate(groups):
        if any(group.column(i).num_values != group.num_rows for i in flat):
            raise pa.ArrowInvalid(f"a column of row group {number} has not {group.num_rows} values")


def _choose_columns(file: pq.ParquetFile, raw: RangeFile | None, address: str, spec: TableSource) -> Table:
    kinds: dict[str, pa.DataType] = {field.name: field.type for field in file.schema_arrow}
    index = {file.metadata.schema.column(i).path: i for i in range(file.metadata.num_columns)}
    _check_columns(kinds, index, address, spec, file.metadata.num_rows)

    def find(name: str, is_right: Callable[[pa.DataType], bool]) -> str | None:
        return name if name in kinds and is_right(kinds[name]) else None

    return Table(
        file,
        raw,
        index,
        spec.text_column,
        find("url", records.is_string_like),
        find("language", records.is_string_like),
        find("language_score", pa.types.is_floating),
        find("dump", records.is_string_like),
        tuple(spec.where),
    )


def _check_columns(
    kinds: dict[str, pa.DataType], index: dict[str, int], address: str, spec: TableSource, n_rows: int
) -> None:
    found = ", ".join(kinds)
    key = f"sources.{spec.name}"
    if spec.text_column not in kinds:
        message = f"{key}.text_column: {address} has no column {spec.text_column!r}; it has {found}"
        raise MisfitError(message, "text_missing", n_rows)
    kind = kinds[spec.text_column]
    if not records.is_string_like(kind):
        message = f"{key}.text_column: column {spec.text_column!r} of {address} is {kind}, not text"
        raise MisfitError(message, "text_not_string", n_rows)
    for name in spec.where:
        if name not in index:
            message = f"{key}.where.{name}: {address} has no such column; it has {found}"
            raise MisfitError(message, "where_missing", n_rows)


def iterate_groups(
    table: Table, groups: range, columns: Sequence[str]
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Each row group's number and its batches, of at most BATCH_ROWS rows and some BATCH_BYTES of text.

    Where batches begin in their row group depends on that group alone, whichever reading starts with.
    """
    windows = list(_plan_windows(table, groups, columns))
    for window, following in zip(windows, [*windows[1:], None], strict=True):
        if table.raw is not None:
            _fetch_window(table.raw, window, following)
        for group in window.groups:
            # One thread: a worker is one core.
            n_rows = _choose_rows(table, group)
            steps = table.file.iter_batches(n_rows, row_groups=[group], columns=columns, use_threads=False)
            yield group, _join_steps(steps)


def _fetch_window(raw: RangeFile, window: Window, following: Window | None) -> None:
    """Have the window's bytes, and begin with those of the next; one too large for memory is read piece by piece."""
    if not window.is_small:
        raw.follow(window.spans)
    elif following is not None and following.is_small:
        raw.keep(window.spans, following.spans)
    else:
        raw.keep(window.spans)


def _choose_rows(table: Table, group: int) -> int:
    facts = table.file.metadata.row_group(group)
    n_bytes: int = max(1, facts.column(table.index[table.text]).total_uncompressed_size)
    n_rows = max(_STEP_ROWS_MIN, _STEP_BYTES // n_bytes)
    return max(1, min(BATCH_ROWS, n_rows, _STEP_BYTES * int(facts.num_rows) // n_bytes))


def _join_steps(steps: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What came before damage is yielded before it is raised."""
    held: list[pa.RecordBatch] = []
    n_rows = n_bytes = 0
    try:
        for packed in steps:
            step = _decode_dictionaries(packed)
            size = step.nbytes
            if held and (n_rows + step.num_rows > BATCH_ROWS or n_bytes + size > BATCH_BYTES):
                yield pa.concat_batches(held)
                held, n_rows, n_bytes = [], 0, 0
            if size > BATCH_BYTES:  # its rows one by one
                yield from (step.slice(i, 1) for i in range(step.num_rows))
                continue
            held.append(step)
            n_rows, n_bytes = n_rows + step.num_rows, n_bytes + size
    except UNREADABLE:
        if held:
            yield pa.concat_batches(held)
        raise
    if held:
        yield pa.concat_batches(held)


def _decode_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every value in full: only so are its bytes known."""
    if not any(pa.types.is_dictionary(field.type) for field in batch.schema):
        return batch
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plan_windows(table: Table, groups: range, columns: Sequence[str]) -> Iterator[Window]:
    """Consecutive row groups to fetch together: a local file needs none, so all of them."""
    if table.raw is None:
        yield Window(groups, [])
        return
    window = Window(groups[:0], [])
    for group in groups:
        spans = find_spans(table, group, columns)
        if window.groups and _count_bytes(window.spans) + _count_bytes(spans) > _WINDOW_BYTES:
            yield window
            window = Window(groups[:0], [])
        start = window.groups.start if window.groups else group
        window = Window(range(start, group + 1), window.spans + spans)
    if window.groups:
        yield window


def find_spans(table: Table, group: int, columns: Sequence[str]) -> list[tuple[int, int]]:
    """The byte ranges [start, stop) of the wanted column chunks of a row group."""
    facts = table.file.metadata.row_group(group)
    spans = []
    for name in columns:
        chunk = facts.column(table.index[name])
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
            start = min(start, chunk.dictionary_page_offset)
        spans.append((start, start + chunk.total_compressed_size))
    return spans


def _count_bytes(spans: Sequence[tuple[int, int]]) -> int:
    return sum(stop - start for start, stop in spans)
