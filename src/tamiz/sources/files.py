"""Local files: which ones a list of patterns means, their names inside the source, and the name of their content."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from tamiz.errors import ConfigError, SourceError

PARQUET_SUFFIXES = (".parquet",)
JSONL_SUFFIXES = tuple(kind + packing for kind in (".jsonl", ".ndjson", ".json") for packing in ("", ".gz", ".zst"))
WARC_SUFFIXES = tuple(kind + packing for kind in (".warc", ".wet") for packing in ("", ".gz", ".zst"))


@dataclass(frozen=True)
class FoundFile:
    """A file of a source: path inside the source, address to open it, size in bytes, time of change in ns (0: none)."""

    path: str
    address: str
    n_bytes: int
    changed_ns: int = 0


def find_files(source: str, patterns: Sequence[str], suffixes: Sequence[str]) -> tuple[FoundFile, ...]:
    """The files that the patterns mean, sorted by path.

    A pattern is a file, a folder (every file below it with one of `suffixes`) or has `*`, `?`, `[...]`, `**`. Paths
    inside the source are relative to the deepest folder that all patterns share before their first wildcard.
    Raises ConfigError when a pattern means no file.
    """
    top = os.path.commonpath([_find_fixed_part(pattern) for pattern in patterns]) if patterns else ""
    found: dict[str, FoundFile] = {}
    for pattern in patterns:
        names = _expand(pattern, suffixes)
        if not names:
            raise ConfigError(f"sources.{source}.paths: no file matches {pattern!r} (looked from {os.getcwd()})")
        for name in names:
            path = os.path.relpath(name, top).replace(os.sep, "/")
            found[path] = _measure(source, path, name)
    if not found:
        raise ConfigError(f"sources.{source}.paths: the list is empty; name at least one file, folder or pattern")
    return tuple(found[path] for path in sorted(found))


def _expand(pattern: str, suffixes: Sequence[str]) -> list[str]:
    if os.path.isfile(pattern):  # a name may contain [ or ?
        return [os.path.abspath(pattern)]
    if os.path.isdir(pattern):
        below = glob.iglob(os.path.join(glob.escape(pattern), "**", "*"), recursive=True)
        return [os.path.abspath(name) for name in below if name.endswith(tuple(suffixes)) and os.path.isfile(name)]
    return [os.path.abspath(name) for name in glob.iglob(pattern, recursive=True) if os.path.isfile(name)]


def _find_fixed_part(pattern: str) -> str:
    """The folder of a pattern that no wildcard can change, absolute."""
    whole = os.path.abspath(pattern)
    if os.path.isdir(pattern):
        return whole
    if os.path.isfile(pattern):
        return os.path.dirname(whole)
    fixed = []
    for part in os.path.dirname(whole).split(os.sep):
        if glob.has_magic(part):
            break
        fixed.append(part)
    return os.sep.join(fixed) or os.sep


def _measure(source: str, path: str, name: str) -> FoundFile:
    try:
        facts = os.stat(name)
        path.encode()
    except OSError as error:
        raise SourceError(f"source {source}: cannot read {name}: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise SourceError(f"source {source}: the name of {name!r} is not UTF-8; rename the file") from error
    return FoundFile(path, name, facts.st_size, facts.st_mtime_ns)


def name_content(files: Sequence[FoundFile]) -> str:
    """A SHA-256 over path, size and time of change of the files, in hexadecimal: another one means other content."""
    lines = "".join(f"{file.path}\0{file.n_bytes}\0{file.changed_ns}\n" for file in files)
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()
