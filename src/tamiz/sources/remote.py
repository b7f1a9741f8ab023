"""Files behind fsspec URLs (s3://bucket/crawl/*.parquet): which ones a list of patterns means; their byte ranges."""

from __future__ import annotations

import glob
import posixpath
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tamiz.errors import ConfigError, SourceError
from tamiz.objects import insist, open_url
from tamiz.sources.files import FoundFile
from tamiz.sources.ranges import RangeFile

_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")  # what file systems call it


def find_files(source: str, patterns: Sequence[str], suffixes: Sequence[str]) -> tuple[FoundFile, ...]:
    """As files.find_files, for URLs of one file system; the same files have the same paths as in a local folder.

    Raises ConfigError when a pattern means no file, SourceError when the store does not answer.
    """
    key = f"sources.{source}.paths"
    schemes = {pattern.partition("://")[0] for pattern in patterns}
    if len(schemes) > 1 or not all("://" in pattern for pattern in patterns):
        raise ConfigError(f"{key}: local paths and URLs, or URLs of several kinds, are mixed; make a source of each")
    found: dict[str, dict[str, Any]] = {}
    tops = []
    for pattern in patterns:
        fs, path = open_url(pattern, key)
        try:
            matches, top = _expand(fs, path, tuple(suffixes))
        except OSError as error:
            raise SourceError(f"source {source}: cannot list {pattern}: {error}") from error
        if not matches:
            raise ConfigError(f"{key}: no object matches {pattern!r}")
        found |= matches
        tops.append(top)
    top = posixpath.commonpath(tops)
    scheme = schemes.pop()
    return tuple(
        FoundFile(posixpath.relpath(name, top), f"{scheme}://{name.lstrip('/')}", int(facts["size"]), _read_time(facts))
        for name, facts in sorted(found.items(), key=lambda item: posixpath.relpath(item[0], top))
    )


def _expand(fs: Any, path: str, suffixes: tuple[str, ...]) -> tuple[dict[str, dict[str, Any]], str]:
    """The files that `path` means with what is known about them, and the folder that no wildcard can change."""
    if glob.has_magic(path) and not insist(lambda: fs.exists(path)):  # a name may contain [ or ?
        found = insist(lambda: fs.glob(path, detail=True))
        fixed = path.split("/")
        magic = next(i for i, part in enumerate(fixed) if glob.has_magic(part))
        top = "/".join(fixed[:magic])
        return {name: facts for name, facts in found.items() if facts["type"] == "file"}, top
    if insist(lambda: fs.isfile(path)):
        return {path: insist(lambda: fs.info(path))}, posixpath.dirname(path)
    found = insist(lambda: fs.find(path, detail=True))
    return {name: facts for name, facts in found.items() if name.endswith(suffixes)}, path


def _read_time(facts: dict[str, Any]) -> int:
    value = next((facts[name] for name in _TIMES if facts.get(name) is not None), 0)
    if isinstance(value, datetime):
        return int(value.timestamp() * 1e9)
    return int(value * 1e9) if isinstance(value, int | float) else 0


def open_ranges(address: str, n_bytes: int | None = None) -> RangeFile:
    """The object at `address` (`n_bytes` large, if known) for reading in ranges. Raises SourceError."""
    fs, path = open_url(address, "sources")

    def fetch(start: int, stop: int) -> bytes:
        try:
            data: bytes = insist(lambda: fs.cat_file(path, start=start, end=stop))
        except OSError as error:
            raise SourceError(f"{address}, byte {start}: {error}; restore it or leave it out") from error
        if len(data) != stop - start:
            raise SourceError(f"{address}, byte {start}: {len(data)} bytes came instead of {stop - start}; it changed")
        return data

    try:
        return RangeFile(fetch, n_bytes if n_bytes is not None else int(insist(lambda: fs.size(path))))
    except OSError as error:
        raise SourceError(f"{address}: {error}; restore it or leave it out") from error
