"""List the splits of a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tamiz.errors import ConfigError
from tamiz.objects import is_url
from tamiz.sources import files, jsonl, parquet, remote
from tamiz.sources.split import SPLIT_BYTES, HubSource, Listing, ParquetSource, Source, Split

_N_AT_ONCE = 8  # footers behind URLs read at the same time


def list_splits(spec: Source, split_bytes: int = SPLIT_BYTES) -> Listing:
    """The splits of `spec` in the order of its documents, about `split_bytes` of text each.

    A limit is applied here, by counting documents in order, so that it does not depend on how splits are read.
    Raises ConfigError when the source as configured means nothing (no file, no column, no such dataset, subset or
    split, no document), SourceError when a file or the Hub cannot be read.
    """
    if isinstance(spec, HubSource):
        from tamiz.sources import hub  # its libraries take a second to import, and local sources do not need them

        found, revision = hub.find_files(spec)
    else:
        suffixes = files.PARQUET_SUFFIXES if isinstance(spec, ParquetSource) else files.JSONL_SUFFIXES
        find_files = remote.find_files if any(map(is_url, spec.paths)) else files.find_files
        found = find_files(spec.name, spec.paths, suffixes)
        revision = files.name_content(found)
    splits = _plan_files(found, spec, split_bytes)
    chosen = tuple(splits if spec.limit is None else cut_to_limit(splits, spec, spec.limit))
    if not chosen:
        raise ConfigError(f"sources.{spec.name}: no document in {len(found)} files; check what the source names")
    return Listing(chosen, revision, tuple(file.path for file in found))


def _plan_files(found: tuple[files.FoundFile, ...], spec: Source, split_bytes: int) -> Iterator[Split]:
    """Lazily, so that a limit leaves the footers behind it unread."""
    n_at_once = _N_AT_ONCE if any(is_url(file.address) for file in found) else 1
    with ThreadPoolExecutor(n_at_once) as pool:
        for start in range(0, len(found), n_at_once):
            some = found[start : start + n_at_once]
            for splits in pool.map(lambda file: plan_file(file, spec, split_bytes), some):
                yield from splits


def plan_file(file: files.FoundFile, spec: Source, split_bytes: int) -> list[Split]:
    """The splits of one file, without regard to a limit."""
    is_parquet = isinstance(spec, ParquetSource)
    if isinstance(spec, HubSource):
        is_parquet = file.path.endswith(files.PARQUET_SUFFIXES)
    plan = parquet.plan_file if is_parquet else jsonl.plan_file
    return plan(file, spec, split_bytes)


def cut_to_limit(splits: Iterable[Split], spec: Source, limit: int) -> Iterator[Split]:
    """The splits that hold the first `limit` documents which satisfy `where`, the last one limited to its part."""
    left = limit
    for split in splits:
        count = parquet.count_selected if split.kind == "parquet" else jsonl.count_selected
        n = count(split, spec, left)
        if n == left:
            yield replace(split, limit=left)
            return
        left -= n
        yield split
