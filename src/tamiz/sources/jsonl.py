"""JSONL files: splits by byte ranges, and records from a cursor on, the unreadable ones with a reason.

Reasons: bad_json, not_an_object, text_missing (no such key, or null), text_not_string, invalid_utf8, lone_surrogate
(JSON can spell half a character, UTF-8 cannot hold it), record_too_long, and for a line that a damaged stretch of a
packed file is part of, what packing.Hole says. A position is an offset in the unpacked stream, where one byte stands
for such a stretch, so that no two records have the same.
"""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa

from tamiz.errors import SourceError
from tamiz.sources import opening, packing, records, selection
from tamiz.sources.files import FoundFile
from tamiz.sources.packing import Hole
from tamiz.sources.split import BATCH_BYTES, BATCH_ROWS, Chunk, Cursor, Damage, Split, TableSource

# A longer line is quarantined without being held in memory. Parsed, a line of `[],[],` takes 30 times its size.
LINE_BYTES_MAX = 32 << 20
_BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """What a line says: a text, or the reason why there is none; labels are None when missing or of another type."""

    text: str | None
    quarantine: str | None
    url: str | None = None
    language: str | None = None
    score: float | None = None
    dump: str | None = None


def plan_file(file: FoundFile, spec: TableSource, split_bytes: int) -> list[Split]:
    """The splits of one file: byte ranges of `split_bytes`, or the whole of a packed one; none for an empty file."""
    if file.n_bytes == 0:
        return []
    if packing.is_packed(file.path):
        return [Split(spec.name, "jsonl", file.path, file.address, 0, None, 0, None, file.n_bytes)]
    starts = range(0, file.n_bytes, split_bytes)
    stops = [*starts[1:], file.n_bytes]
    return [
        Split(spec.name, "jsonl", file.path, file.address, start, stop, start, None, stop - start)
        for start, stop in zip(starts, stops, strict=True)
    ]


def count_selected(split: Split, spec: TableSource, enough: int) -> int:
    """Documents of the split that satisfy `where`, at most `enough`; reads the split up to that one."""
    n = 0
    for chunk in read_jsonl(split, spec, None):
        n += chunk.batch.num_rows
        if n >= enough:
            return enough
    return n


def read_jsonl(split: Split, spec: TableSource, cursor: Cursor | None) -> Iterator[Chunk]:
    """The chunks of a split from a cursor on; see reading.read_split."""
    at = cursor or Cursor(split.first_position, 0)
    with opening.open_stream(split.address, split.stop) as packed:
        stream, holes = packing.unpack(packed, split.path)
        position = at.position
        draft = _Draft(split, spec)
        try:
            position = _find_line(stream, split, position)
            _take_hole(holes, position)
            while split.limit is None or at.n_selected + len(draft.positions) < split.limit:
                line, n_bytes = _read_line(stream) if split.stop is None or position < split.stop else (b"", 0)
                if n_bytes == 0:
                    break
                draft.add(line, position, _take_hole(holes, position + n_bytes))
                position += n_bytes
                if draft.n_seen >= BATCH_ROWS or draft.n_bytes >= BATCH_BYTES:
                    chunk = draft.close(at, position)
                    at, draft = chunk.cursor, _Draft(split, spec)
                    yield chunk
        except OSError as error:  # the disk's or the network's fault: not the same on every run, so nothing is lost
            cause = error.strerror or str(error) or type(error).__name__
            raise SourceError(
                f"{split.path}, byte {position} (unpacked): {cause}; put it right, or leave the file out"
            ) from None
        if draft.n_seen:
            yield draft.close(at, position)


def _find_line(stream: BinaryIO, split: Split, position: int) -> int:
    """Go to the first line that begins at or behind `position`; returns where that is.

    Raises SourceError when the file is shorter than the split.
    """
    if packing.is_packed(split.path):
        left = position
        while left and (piece := stream.read(min(left, 1 << 20))):
            left -= len(piece)
        return position
    n_bytes = stream.seek(0, io.SEEK_END)
    if split.stop is not None and n_bytes < split.stop:
        raise SourceError(
            f"{split.path}: has {n_bytes} bytes, the plan says {split.stop} or more; it changed since: restore it, or "
            f"plan a new run"
        )
    if position == split.start and position > 0:  # perhaps in the middle of a line, which the split before reads
        stream.seek(position - 1)
        while (piece := stream.readline(LINE_BYTES_MAX)) and not piece.endswith(b"\n"):
            pass
    else:
        stream.seek(position)
    return stream.tell()


def _read_line(stream: BinaryIO) -> tuple[bytes | None, int]:
    """The next line (None when it is too long to hold) and its length in bytes, 0 at the end."""
    line = stream.readline(LINE_BYTES_MAX)
    if len(line) < LINE_BYTES_MAX or line.endswith(b"\n"):
        return line, len(line)
    n_bytes = len(line)
    while (piece := stream.readline(LINE_BYTES_MAX)) and not piece.endswith(b"\n"):
        n_bytes += len(piece)
    return None, n_bytes + len(piece)


def _take_hole(holes: deque[Hole], stop: int) -> Hole | None:
    """The hole whose line break is the last byte before `stop`; those before it are forgotten."""
    hole = None
    while holes and holes[0].position < stop:
        hole = holes.popleft()
    return hole if hole and hole.position == stop - 1 else None


class _Draft:
    """The records of the chunk being read; a blank line is no record."""

    def __init__(self, split: Split, spec: TableSource) -> None:
        self._split = split
        self._spec = spec
        self._records: list[Record] = []
        self._damage: list[Damage] = []
        self.positions: list[int] = []
        self.n_seen = 0
        self.n_bytes = 0

    def add(self, line: bytes | None, position: int, hole: Hole | None) -> None:
        if hole is None and line is not None and line.isspace():
            return
        self.n_seen += 1
        record = Record(None, hole.reason if hole else "record_too_long")
        if hole:
            self._damage.append(Damage(self._split.path, position, hole.reason, hole.start, hole.stop, 1))
        elif line is not None:
            self.n_bytes += len(line)
            read = read_line(line.removeprefix(_BOM) if position == 0 else line, self._spec)
            if read is None:
                return
            record = read
        self._records.append(record)
        self.positions.append(position)

    def close(self, at: Cursor, position: int) -> Chunk:
        columns = list(zip(*self._records, strict=True)) or [()] * len(Record._fields)
        text, quarantine, url, language, score, dump = columns
        labels = (
            pa.array(url, pa.string()), pa.array(language, pa.string()), pa.array(score, pa.float64()),
            pa.array(dump, pa.string()),
        )  # fmt: skip
        text, quarantine = pa.array(text, pa.large_string()), pa.array(quarantine, pa.string())
        batch = records.make_batch(self._split, self.positions, text, quarantine, labels)
        n_rows = len(self.positions)
        n_excluded = self.n_seen - n_rows
        skipped = {"where": n_excluded} if n_excluded else {}
        return Chunk(batch, skipped, Cursor(position, at.n_selected + n_rows), tuple(self._damage))


def read_line(line: bytes, spec: TableSource) -> Record | None:
    """The record on a line; None when `where` does not select it. What cannot be parsed is always selected."""
    keep = _keep_string
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _read_leniently(line)
        if isinstance(value, Record):
            return value
        keep = _keep_encodable
    if not isinstance(value, dict):
        return Record(None, "not_an_object")
    if spec.where and not selection.is_selected(value, spec.where):
        return None
    url, language, score = value.get("url"), value.get("language"), value.get("language_score")
    is_score = isinstance(score, (int, float)) and not isinstance(score, bool)
    labels = keep(url), keep(language), float(value["language_score"]) if is_score else None, keep(value.get("dump"))
    text = value.get(spec.text_column)
    if isinstance(text, str):
        text = keep(text)
        return Record(text, "lone_surrogate" if text is None else None, *labels)
    return Record(None, "text_missing" if text is None else "text_not_string", *labels)


def _read_leniently(line: bytes) -> Any:
    """The value by Python's own parser, which takes NaN, huge numbers and lone surrogates too; or why it failed."""
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        return Record(None, "invalid_utf8")
    except (ValueError, RecursionError):  # ValueError also for a number of more than 4,300 digits
        return Record(None, "bad_json")


def _keep_string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _keep_encodable(value: Any) -> str | None:
    """`value` if it is a string that UTF-8 can hold; orjson makes no other ones, Python's parser does."""
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
