"""WARC and WET files: pages (HTML sent with status 200) and texts; every other record is counted by its reason.

Records left out: warc_request, warc_metadata, ... (after the type of the record), warc_unknown_type, warc_status (not
200), warc_content_type (neither HTML nor, in a conversion record, plain text). Reasons of pages that cannot be read:
those of warc_records and responses, http_empty, invalid_utf8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from tamiz.errors import SourceError
from tamiz.sources import opening, records
from tamiz.sources.files import FoundFile
from tamiz.sources.responses import BodyError, decode_body, parse_response
from tamiz.sources.split import BATCH_BYTES, BATCH_ROWS, Chunk, Cursor, Split, WarcSource
from tamiz.sources.tape import Tape, find_frames, is_record_at
from tamiz.sources.warc_records import Record, iterate_records

_LEFT_OUT = frozenset({"warcinfo", "request", "metadata", "revisit", "resource", "continuation"})
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_HTML_START = re.compile(rb"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)


class Page(NamedTuple):
    """A row to be: a payload with the charset its header names, or a text, or the reason why there is neither."""

    url: str | None
    payload: bytes | None = None
    charset: str | None = None
    text: str | None = None
    quarantine: str | None = None


def plan_file(file: FoundFile, spec: WarcSource) -> list[Split]:
    """One split: where a record begins inside the file, only reading it from the start tells for certain."""
    if file.n_bytes == 0:
        return []
    return [Split(spec.name, "warc", file.path, file.address, 0, None, 0, None, file.n_bytes)]


def count_selected(split: Split, enough: int) -> int:
    """Pages and texts of the file, at most `enough`; reads the file up to that one."""
    n = 0
    for chunk in read_warc(split, None):
        n += chunk.batch.num_rows
        if n >= enough:
            return enough
    return n


def read_warc(split: Split, cursor: Cursor | None) -> Iterator[Chunk]:
    """The chunks of a file from a cursor on; see reading.read_split."""
    at = cursor or Cursor(split.first_position, 0)
    if at.position >= split.n_bytes:
        return
    with opening.open_stream(split.address) as stream:
        draft = _Draft(split)
        try:
            frames = find_frames(stream, split.path)
            # A position inside a frame is no place to begin at, nor is one of something that was no record.
            is_start = frames is None or is_record_at(stream, frames, at.position)
            tape = Tape(stream, frames, at.position if is_start else 0)
            for record in iterate_records(tape):
                if record.position < at.position:
                    continue
                if draft.is_full:
                    chunk = draft.close(at, record.position)
                    at, draft = chunk.cursor, _Draft(split)
                    yield chunk
                if split.limit is not None and at.n_selected + draft.n_rows >= split.limit:
                    break
                draft.add(record)
        except OSError as error:
            raise SourceError(f"{split.path}: {error.strerror}; restore the file or leave it out") from error
        if draft.n_seen:
            yield draft.close(at, split.n_bytes)


class _Draft:
    """The records of the chunk being read."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._pages: list[Page] = []
        self._positions: list[int] = []
        self._skipped: Counter[str] = Counter()
        self._n_bytes = 0

    @property
    def n_rows(self) -> int:
        return len(self._positions)

    @property
    def n_seen(self) -> int:
        return self.n_rows + self._skipped.total()

    @property
    def is_full(self) -> bool:
        return self.n_seen >= BATCH_ROWS or self._n_bytes >= BATCH_BYTES

    def add(self, record: Record) -> None:
        page = read_page(record)
        if isinstance(page, str):
            self._skipped[page] += 1
            return
        self._pages.append(page)
        self._positions.append(record.position)
        self._n_bytes += len(page.payload or page.text or "")

    def close(self, at: Cursor, position: int) -> Chunk:
        url, payload, charset, text, quarantine = list(zip(*self._pages, strict=True)) or [()] * len(Page._fields)
        n = self.n_rows
        labels = (
            pa.array(url, pa.string()),
            pa.nulls(n, pa.string()),
            pa.nulls(n, pa.float64()),
            pa.nulls(n, pa.string()),
        )
        batch = records.make_batch(
            self._split,
            self._positions,
            pa.array(text, pa.large_string()),
            pa.array(quarantine, pa.string()),
            labels,
            (pa.array(payload, pa.large_binary()), pa.array(charset, pa.string())),
        )
        return Chunk(batch, dict(self._skipped), Cursor(position, at.n_selected + n))


def read_page(record: Record) -> Page | str:
    """The page or text of a record, or the reason why it is none and is left out."""
    if not record.headers or record.damage == "warc_bad_packing":
        # How much is unpacked before damage shows depends on where reading began, so what it says is not used.
        return Page(None, quarantine=record.damage)
    kind = record.headers.get("warc-type", "").lower()
    if kind in _LEFT_OUT:
        return f"warc_{kind}"
    if kind not in ("response", "conversion"):
        return "warc_unknown_type"
    url = record.headers.get("warc-target-uri", "").strip("<>") or None
    if record.damage:
        return Page(url, quarantine=record.damage)
    content_type = _find_type(record.headers.get("content-type", ""))
    if kind == "response":
        return _read_response(record, url) if content_type == "application/http" else "warc_content_type"
    if content_type != "text/plain":
        return "warc_content_type"
    try:
        return Page(url, text=record.block.decode())
    except UnicodeDecodeError:
        return Page(url, quarantine="invalid_utf8")


def _read_response(record: Record, url: str | None) -> Page | str:
    response = parse_response(record.block)
    if response is None:
        return Page(url, quarantine="http_bad_header")
    if response.status != 200:
        return "warc_status"
    stated = response.fields.get("content-type", "")
    content_type = _find_type(stated) or _find_type(record.headers.get("warc-identified-payload-type", ""))
    if content_type and content_type not in _HTML_TYPES:
        return "warc_content_type"
    try:
        payload = decode_body(response)
    except BodyError as error:
        return Page(url, quarantine=error.reason)
    if not content_type and _HTML_START.match(payload) is None:
        return "warc_content_type"
    charset = _CHARSET.search(stated)
    if not payload:
        return Page(url, quarantine="http_empty")
    return Page(url, payload, charset[1] if charset else None)


def _find_type(value: str) -> str:
    """The media type of a Content-Type, in lower case, without its parameters."""
    return value.partition(";")[0].strip().lower()
