"""An open Parquet file: which of its columns are read, and its row groups decoded in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.errors import ConfigError, SourceError
from tamiz.sources import opening, records
from tamiz.sources.ranges import RangeFile
from tamiz.sources.split import BATCH_BYTES, BATCH_ROWS, TableSource

# A column chunk is read in pieces of this size: a row group of 870 MB of text takes 40 MB of memory instead of 360,
# at the same speed.
_BUFFER_BYTES = 1 << 20
# Remote: the bytes of consecutive row groups are fetched together up to this size. FineWeb's row groups of 1,000
# documents hold some 2 MB of compressed text each, so that this saves 7 requests of 8.
_WINDOW_BYTES = 16 << 20
_PIECE_BYTES = 4 << 20  # remote, when one row group alone is larger than the window


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
    where: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The names of all columns wanted, each once."""
        names = (self.text, self.url, self.language, self.score, *self.where)
        return list(dict.fromkeys(name for name in names if name is not None))


@contextlib.contextmanager
def open_table(address: str, spec: TableSource, n_bytes: int | None = None) -> Iterator[Table]:
    """Open a file (`n_bytes` large, if known) and choose its columns.

    Raises ConfigError when the text column or one of `where` is missing or has the wrong type, SourceError when the
    file cannot be opened as Parquet.
    """
    with contextlib.ExitStack() as stack:
        raw = opening.open_ranges(address, n_bytes)
        source = address if raw is None else stack.enter_context(raw)
        buffer_bytes = _BUFFER_BYTES if raw is None else _PIECE_BYTES
        try:
            # Checksums of pages, where the writer made them, cost nothing measurable and find rotten bytes.
            file = pq.ParquetFile(source, buffer_size=buffer_bytes, pre_buffer=False, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"{address}: cannot be read as Parquet: {error}; restore it or leave it out") from error
        yield _choose_columns(stack.enter_context(file), raw, address, spec)


def _choose_columns(file: pq.ParquetFile, raw: RangeFile | None, address: str, spec: TableSource) -> Table:
    kinds: dict[str, pa.DataType] = {field.name: field.type for field in file.schema_arrow}
    index = {file.metadata.schema.column(i).path: i for i in range(file.metadata.num_columns)}
    _check_columns(kinds, index, address, spec)

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
        tuple(spec.where),
    )


def _check_columns(kinds: dict[str, pa.DataType], index: dict[str, int], address: str, spec: TableSource) -> None:
    found = ", ".join(kinds)
    key = f"sources.{spec.name}"
    if spec.text_column not in kinds:
        raise ConfigError(f"{key}.text_column: {address} has no column {spec.text_column!r}; it has {found}")
    kind = kinds[spec.text_column]
    if not records.is_string_like(kind):
        raise ConfigError(f"{key}.text_column: column {spec.text_column!r} of {address} is {kind}, not text")
    for name in spec.where:
        if name not in index:
            raise ConfigError(f"{key}.where.{name}: {address} has no such column; it has {found}")


def iterate_groups(
    table: Table, groups: range, columns: Sequence[str], n_rows: int | None = None
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Each row group's number and its batches of `n_rows` rows (None: an average batch holds BATCH_BYTES of text).

    Batches begin at multiples of that number in their row group, whichever group reading starts with.
    """
    for window in _plan_windows(table, groups, columns):
        if table.raw is not None and len(window) > 1:
            table.raw.keep(span for group in window for span in _find_spans(table, group, columns))
        for group in window:
            size = n_rows or _choose_rows(table, group)
            # One thread: a worker is one core.
            yield group, table.file.iter_batches(size, row_groups=[group], columns=columns, use_threads=False)


def _choose_rows(table: Table, group: int) -> int:
    facts = table.file.metadata.row_group(group)
    n_bytes: int = facts.column(table.index[table.text]).total_uncompressed_size
    return max(1, min(BATCH_ROWS, BATCH_BYTES * int(facts.num_rows) // max(n_bytes, 1)))


def _plan_windows(table: Table, groups: range, columns: Sequence[str]) -> Iterator[range]:
    """Consecutive row groups to fetch together: a local file needs none, so all of them."""
    if table.raw is None:
        yield groups
        return
    start, n_bytes = groups.start, 0
    for group in groups:
        size = sum(last - first for first, last in _find_spans(table, group, columns))
        if group > start and n_bytes + size > _WINDOW_BYTES:
            yield range(start, group)
            start, n_bytes = group, 0
        n_bytes += size
    if start < groups.stop:
        yield range(start, groups.stop)


def _find_spans(table: Table, group: int, columns: Sequence[str]) -> list[tuple[int, int]]:
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
