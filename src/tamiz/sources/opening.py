"""Open the address of a split: a local path, an hf:// URL pinned to a commit, or an fsspec URL."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from tamiz.errors import SourceError
from tamiz.objects import is_url
from tamiz.sources import remote
from tamiz.sources.ranges import RangeFile

_STREAM_BYTES = 1 << 20
_REMOTE_STREAM_BYTES = 8 << 20  # one request each


def open_ranges(address: str, n_bytes: int | None = None) -> RangeFile | None:
    """The remote file at `address` for reading in ranges (`n_bytes` large, if known); None when it is a local path."""
    if not is_url(address):
        return None
    if not address.startswith("hf://"):
        return remote.open_ranges(address, n_bytes)
    from tamiz.sources import hub  # its libraries take a second to import, and local sources do not need them

    return hub.open_ranges(address, n_bytes)


def open_stream(address: str, stop: int | None = None) -> BinaryIO:
    """The file at `address` for reading from front to back (it can seek), mostly up to `stop`. Raises SourceError."""
    raw = open_ranges(address)
    if raw is not None:
        raw.follow([(0, raw.seek(0, io.SEEK_END) if stop is None else stop)])
        raw.seek(0)
        return cast(BinaryIO, io.BufferedReader(raw, _REMOTE_STREAM_BYTES))
    try:
        return open(address, "rb", buffering=_STREAM_BYTES)
    except OSError as error:
        raise SourceError(f"{address}: {error.strerror}; restore it or leave it out") from error
