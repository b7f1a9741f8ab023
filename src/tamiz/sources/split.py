"""The values of this room: which records (sources), how they are cut (splits) and what reading yields (chunks)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

SPLIT_BYTES = 256 << 20  # of text, at most: minutes of work to lose when a worker dies, few enough splits to list
SPLIT_BYTES_MIN = 4 << 20  # half a second of work; publishing a part takes 0.05 s
BATCH_ROWS = 1024
BATCH_BYTES = 8 << 20  # of text


@dataclass(frozen=True)
class Bound:
    """What a record's field must satisfy: `min` <= value <= `max`, and value among `one_of`; None asks nothing.

    A null, missing or NaN value satisfies no bound.
    """

    min: float | None = None
    max: float | None = None
    one_of: tuple[str | float, ...] | None = None


@dataclass(frozen=True)
class PathSource:
    """Files: `paths` are files, folders or patterns; only records that satisfy every bound of `where` are read.

    `limit` is a number of documents that satisfy `where`, taken in the order of the files.
    """

    name: str
    paths: tuple[str, ...]
    text_column: str = "text"
    where: Mapping[str, Bound] = field(default_factory=dict)
    limit: int | None = None


class ParquetSource(PathSource):
    """Parquet files."""


class JsonlSource(PathSource):
    """Files of one JSON object per line: .jsonl, .json or .ndjson, plain or with .gz or .zst."""


@dataclass(frozen=True)
class HubSource:
    """One split of one subset of a dataset of the Hugging Face Hub, Parquet or JSONL; as PathSource else.

    `subset` None is the dataset's default one; `revision` (branch, tag or commit) None is its main branch, pinned to
    the commit it has when listed.
    """

    name: str
    dataset: str
    subset: str | None = None
    split: str = "train"
    revision: str | None = None
    text_column: str = "text"
    where: Mapping[str, Bound] = field(default_factory=dict)
    limit: int | None = None


@dataclass(frozen=True)
class WarcSource:
    """WARC and WET files (.warc, .wet), plain or with .gz or .zst; `limit` is a number of pages and texts."""

    name: str
    paths: tuple[str, ...]
    limit: int | None = None


TableSource = ParquetSource | JsonlSource | HubSource
Source = TableSource | WarcSource


@dataclass(frozen=True)
class Split:
    """A bounded piece of a source, the unit of reading. Reading it twice yields the same records.

    source          name of its source
    kind            parquet, jsonl or warc, however the file is reached
    path            of the file inside the source, the same on every machine; goes into doc_id and origin
    address         where to open it: a local path, an hf:// URL pinned to a commit, or an fsspec URL (s3://...)
    start, stop     parquet: row groups [start, stop); jsonl: the lines whose first byte is in [start, stop) of the
                    uncompressed stream; warc: the whole file. stop None: to the end
    first_position  parquet: number of its first row in the file; jsonl and warc: equal to start
    n_rows          records in it, None when only reading it tells
    n_bytes         of text, roughly: Parquet's uncompressed column size, or the file's size for JSONL; the size of WARC
    limit           documents that satisfy `where` to read from it; None: all
    quarantine      the reason why none of its records can be read, though n_rows of them are known of; None: they can
    """

    source: str
    kind: str
    path: str
    address: str
    start: int
    stop: int | None
    first_position: int
    n_rows: int | None
    n_bytes: int
    limit: int | None = None
    quarantine: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Split:
        """The split that `to_json` wrote."""
        return cls(**record)


@dataclass(frozen=True)
class Listing:
    """The splits of a source in the order of its documents.

    `revision` names the content: the commit on the Hub, or a SHA-256 of the local files' paths, sizes and times.
    `files` are the paths inside the source. A limit may leave the last files without splits.
    """

    splits: tuple[Split, ...]
    revision: str
    files: tuple[str, ...]


class Cursor(NamedTuple):
    """Where reading a split goes on: the position of the next record, and the selected ones before it."""

    position: int
    n_selected: int


class Damage(NamedTuple):
    """A stretch of a file that cannot be read, and the records quarantined for it.

    path, position  of the first of them, as in its origin
    reason          as in their rows
    start, stop     bytes [start, stop) of the file as it lies there; equal where it ends too early
    n_rows          those records; 1 when nobody knows how many there were
    """

    path: str
    position: int
    reason: str
    start: int
    stop: int
    n_rows: int


class Chunk(NamedTuple):
    """Some consecutive records of a split.

    `batch` has the columns of schema.RAW and may have no rows; `skipped` counts the records that are no documents of
    the source, by reason: `where` for those that it excludes, and those of the module warc; reading goes on after this
    chunk from `cursor`; `damage` is what was unreadable of the file here.
    """

    batch: pa.RecordBatch
    skipped: Mapping[str, int]
    cursor: Cursor
    damage: tuple[Damage, ...] = ()
