"""List the splits of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from tamiz.errors import ConfigError, DamageError
from tamiz.objects import is_url
from tamiz.sources import files, jsonl, parquet, remote, warc
from tamiz.sources.split import (
    SPLIT_BYTES,
    SPLIT_BYTES_MIN,
    HubSource,
    JsonlSource,
    Listing,
    ParquetSource,
    Source,
    Split,
    WarcSource,
)
from tamiz.sources.table import MisfitError

_N_AT_ONCE = 8  # footers read together; those behind URLs at the same time
_N_SPLITS = 32  # wanted of a source too small for splits of SPLIT_BYTES: several for each core of a usual machine
_DOCUMENT_BYTES = 4096  # of a web page's text, about


T = TypeVar("T")


class Call(Protocol):
    """Calls `function`, which is about the files called `name`, perhaps in another process; returns or raises what it
    does. Raises DamageError too, when that process did not survive it.
    """

    def __call__(self, name: str, function: Callable[..., T], *arguments: object) -> T: ...


def call_here(name: str, function: Callable[..., T], *arguments: object) -> T:
    """A Call in this process."""
    return function(*arguments)


class Planned(NamedTuple):
    """The splits of a file, and why they are one of quarantined records if they are."""

    splits: list[Split]
    refused: DamageError | MisfitError | None


def list_splits(spec: Source, split_bytes: int | None = None, call: Call = call_here) -> Listing:
    """The splits of `spec` in the order of its documents, about `split_bytes` of text each (None: see below).

    A limit is applied here, by counting documents in order, so that it does not depend on how splits are read.
    A Parquet file that is damaged or lacks a column is one split of quarantined records, as long as others are not.
    `call` reads Parquet.
    Raises ConfigError when the source as configured means nothing (no file, no column, no such dataset, subset or
    split, no document), SourceError when a file or the Hub cannot be read.
    """
    if isinstance(spec, HubSource):
        from tamiz.sources import hub  # its libraries take a second to import, and local sources do not need them

        found, revision = hub.find_files(spec)
    else:
        find_files = remote.find_files if any(map(is_url, spec.paths)) else files.find_files
        found = find_files(spec.name, spec.paths, _choose_suffixes(spec))
        revision = files.name_content(found)
    split_bytes = split_bytes or choose_split_bytes(sum(file.n_bytes for file in found), spec.limit)
    refused: list[DamageError | MisfitError] = []
    splits = _plan_files(found, spec, split_bytes, refused, call)
    chosen = tuple(splits if spec.limit is None else _cut_to_limit(splits, spec, spec.limit, call))
    if not chosen:
        raise ConfigError(f"sources.{spec.name}: no document in {len(found)} files; check what the source names")
    if refused and all(split.quarantine for split in chosen):
        raise refused[0]
    return Listing(chosen, revision, tuple(file.path for file in found))


def _choose_suffixes(spec: ParquetSource | JsonlSource | WarcSource) -> tuple[str, ...]:
    if isinstance(spec, WarcSource):
        return files.WARC_SUFFIXES
    return files.PARQUET_SUFFIXES if isinstance(spec, ParquetSource) else files.JSONL_SUFFIXES


def choose_split_bytes(n_bytes: int, limit: int | None) -> int:
    """The size of splits for files of `n_bytes` in all: small ones for a small source, so that every worker has some.

    A function of the source alone: neither the workers nor the machine change the splits.
    """
    if limit is not None:
        n_bytes = min(n_bytes, limit * _DOCUMENT_BYTES)
    return min(max(n_bytes // _N_SPLITS, SPLIT_BYTES_MIN), SPLIT_BYTES)


def _plan_files(
    found: tuple[files.FoundFile, ...],
    spec: Source,
    split_bytes: int,
    refused: list[DamageError | MisfitError],
    call: Call,
) -> Iterator[Split]:
    """Lazily, so that a limit leaves the footers behind it unread; why a file cannot be read is added to `refused`."""
    n_at_once = _N_AT_ONCE if spec.limit is None or any(is_url(file.address) for file in found) else 1
    for start in range(0, len(found), n_at_once):
        for planned in _plan_some(found[start : start + n_at_once], spec, split_bytes, call):
            refused += [planned.refused] if planned.refused else []
            yield from planned.splits


def _plan_some(some: Sequence[files.FoundFile], spec: Source, split_bytes: int, call: Call) -> list[Planned]:
    """If the process that does it does not survive, each file has one of its own."""
    if not any(_is_parquet(file, spec) for file in some):
        return _try_files(some, spec, split_bytes)
    try:
        return call(", ".join(file.path for file in some), _try_files, some, spec, split_bytes)
    except DamageError as error:
        if len(some) == 1:
            return [_refuse(some[0], spec, error)]
        return [planned for file in some for planned in _plan_some([file], spec, split_bytes, call)]


def _try_files(found: Sequence[files.FoundFile], spec: Source, split_bytes: int) -> list[Planned]:
    n_at_once = len(found) if any(is_url(file.address) for file in found) else 1
    with ThreadPoolExecutor(n_at_once) as pool:
        return list(pool.map(lambda file: _try_file(file, spec, split_bytes), found))


def _try_file(file: files.FoundFile, spec: Source, split_bytes: int) -> Planned:
    try:
        return Planned(plan_file(file, spec, split_bytes), None)
    except (DamageError, MisfitError) as error:
        return _refuse(file, spec, error)


def _refuse(file: files.FoundFile, spec: Source, error: DamageError | MisfitError) -> Planned:
    """One split of quarantined records: as many as the file has, or one when nobody knows."""
    n_rows, reason = (error.n_rows, error.reason) if isinstance(error, MisfitError) else (1, "parquet_unreadable")
    place = (0, None, 0, n_rows, file.n_bytes)
    return Planned([Split(spec.name, "parquet", file.path, file.address, *place, quarantine=reason)], error)


def _is_parquet(file: files.FoundFile, spec: Source) -> bool:
    return isinstance(spec, ParquetSource) or (
        isinstance(spec, HubSource) and file.path.endswith(files.PARQUET_SUFFIXES)
    )


def plan_file(file: files.FoundFile, spec: Source, split_bytes: int) -> list[Split]:
    """The splits of one file, without regard to a limit."""
    if isinstance(spec, WarcSource):
        return warc.plan_file(file, spec)
    plan = parquet.plan_file if _is_parquet(file, spec) else jsonl.plan_file
    return plan(file, spec, split_bytes)


def _cut_to_limit(splits: Iterable[Split], spec: Source, limit: int, call: Call) -> Iterator[Split]:
    """The splits that hold the first `limit` documents which satisfy `where`, the last one limited to its part."""
    left = limit
    for split in splits:
        if split.quarantine == "where_missing":  # nobody knows which of its rows satisfy it
            yield split
            continue
        if isinstance(spec, WarcSource):
            n = warc.count_selected(split, left)
        elif split.kind == "parquet":
            n = call(split.path, parquet.count_selected, split, spec, left)
        else:
            n = jsonl.count_selected(split, spec, left)
        if n == left:
            yield replace(split, limit=left)
            return
        left -= n
        yield split
