"""The dedup stage from end to end: keys into ranges, losers by range, pairs by group, names, and the published tables.

Every step's units are recorded in a folder of their own, `work-<layout>`, so that a killed run goes on where it was;
with the last record the folder goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from tamiz.run.against import list_older_parts
from tamiz.run.bands import find_band_losers, plan_bands
from tamiz.run.bloom import find_met, plan_filters
from tamiz.run.checking import (
    DEPTH,
    CandidateUnit,
    CompareUnit,
    SetsUnit,
    compare_candidates,
    list_candidates,
    publish_sets,
)
from tamiz.run.dedup import DedupSettings, finish_dedup
from tamiz.run.engine import Report
from tamiz.run.layout import KeptPart, Layout, bound_memory, forecast_dedup, make_layout
from tamiz.run.ledger import Done, read_done
from tamiz.run.merge import HeadUnit, MergeUnit, list_files, merge_group, name_heads
from tamiz.run.partition import PartitionUnit, partition_keys
from tamiz.run.sampling import sample_pairs
from tamiz.run.sieve import SieveUnit, publish_sieve
from tamiz.run.sift import list_kept
from tamiz.run.trust import TrustUnit
from tamiz.store import Folder

# Each group of older documents reads it whole, for each column: no more than the keys of a full group, 32 MB.
_SIEVE_BYTES_MAX = 32 << 20


class RunUnits(Protocol):
    """Work units that have no record under `place` yet; the records of all, in the units' order."""

    def __call__(
        self, place: str, work: Callable[[Any, Report], Done], units: Iterable[Any], report: Report
    ) -> list[Done]: ...


def find_duplicates(
    folder: Folder,
    place: str,
    settings: DedupSettings,
    parts: Sequence[Done],
    run_units: Callable[..., list[Done]],
    report: Report,
) -> None:
    """Publish duplicates.parquet and copies.parquet under `place`, with their records.

    `run_units`: RunUnits, with `memory_bytes` of a unit.
    """
    older, records = list_older_parts(settings.against)
    layout = make_layout([*older, *list_kept(list(parts))], settings.memory, are_texts_read=settings.is_verified)
    dumps = {dump for record in [*parts, *records] for dump in record.facts["dumps"]}
    memory_bytes = settings.memory
    if settings.false_positives is None:
        memory_bytes = bound_memory(layout, settings.memory, are_texts_read=settings.is_verified)
    run_all = partial(run_units, memory_bytes=memory_bytes)
    work_through(folder, place, settings, layout, tuple(sorted(dumps)), run_all, report)


def work_through(
    folder: Folder,
    place: str,
    settings: DedupSettings,
    layout: Layout,
    dumps: tuple[str, ...],
    run_units: RunUnits,
    report: Report,
) -> None:
    """All steps with this layout."""
    work = f"{place}/work-{layout.tag}"
    if settings.false_positives is not None:
        _meet(folder, place, work, settings, layout, dumps, run_units, report)
        return
    root, groups, bounds = folder.url, layout.groups, layout.bounds
    sieves = _make_sieves(root, work, settings, layout, run_units, report)
    common = (settings.columns, layout.n_ranges, dumps, settings.preference)
    cuts = [PartitionUnit(root, work, group, *common, () if group.is_own else sieves) for group in groups]
    keys = run_units(work, partition_keys, cuts, report)
    depth = DEPTH if settings.is_verified else 1
    ranges = plan_bands(root, work, layout, keys, settings.columns, settings.scope, depth)
    bands = run_units(work, find_band_losers, ranges, report)
    losers = tuple((done.outputs["losers"].path, done.unit.startswith("losers-exact")) for done in bands)
    own = [group for group in groups if group.is_own]
    merges = [MergeUnit(root, work, group, losers, bounds) for group in own]
    if settings.is_verified:
        merged, scopes = _compare(root, work, settings, layout, merges, run_units, report)
    else:
        merged, scopes = run_units(work, merge_group, merges, report), []
    pairs = list_files(merged, "pairs")
    theirs = dict(zip((group.index for group in own), pairs, strict=True))
    named = [HeadUnit(root, work, group, pairs, theirs.get(group.index), bounds) for group in groups]
    heads = run_units(work, name_heads, named, report)
    steps = read_done(folder, work).values()
    finish_dedup(folder, place, settings, layout, bands, [*scopes, *merged], heads, steps)


def _make_sieves(
    root: str, work: str, settings: DedupSettings, layout: Layout, run_units: RunUnits, report: Report
) -> tuple[str, ...]:
    """For each column the bitmap of this run's keys; none when there is no older run to look through."""
    if not layout.n_older:
        return ()
    own = tuple(group for group in layout.groups if group.is_own)
    bytes_max = min(settings.memory // 8, _SIEVE_BYTES_MAX)
    units = [SieveUnit(root, work, column, own, bytes_max) for column in settings.columns]
    return list_files(run_units(work, publish_sieve, units, report), "sieve")


def _meet(
    folder: Folder,
    place: str,
    work: str,
    settings: DedupSettings,
    layout: Layout,
    dumps: tuple[str, ...],
    run_units: RunUnits,
    report: Report,
) -> None:
    """All steps with Bloom filters: no keys are cut, nobody knows who won."""
    assert settings.false_positives is not None, "checked by the caller"
    root, columns, rate = folder.url, settings.columns, settings.false_positives
    filters = plan_filters(root, work, layout, columns, settings.scope, dumps, rate, settings.memory)
    bands = run_units(work, find_met, filters, report)
    losers = tuple((done.outputs["losers"].path, done.unit.startswith("losers-exact")) for done in bands)
    merges = [MergeUnit(root, work, group, losers, layout.bounds) for group in layout.groups if group.is_own]
    merged = run_units(work, merge_group, merges, report)
    finish_dedup(folder, place, settings, layout, bands, merged, [], read_done(folder, work).values())


def _compare(
    root: str,
    work: str,
    settings: DedupSettings,
    layout: Layout,
    merges: Sequence[MergeUnit],
    run_units: RunUnits,
    report: Report,
) -> tuple[list[Done], list[Done]]:
    """The pairs that are alike, by group, and the records that count the scopes."""
    assert settings.shape is not None, "checked with the config"
    bounds, ngram = layout.bounds, settings.shape.ngram
    listed = run_units(work, list_candidates, [CandidateUnit(merge) for merge in merges], report)
    candidates = list_files(listed, "candidates")
    sets = [SetsUnit(root, work, group, candidates, bounds, ngram) for group in layout.groups]
    files = list_files(run_units(work, publish_sets, sets, report), "sets")
    units = [
        CompareUnit(root, work, merge.group, own, files, bounds, ngram, settings.threshold)
        for merge, own in zip(merges, candidates, strict=True)
    ]
    return run_units(work, compare_candidates, units, report), listed


def clear_work(folder: Folder, place: str) -> None:
    """Remove what the steps left in between; nothing reads it again."""
    for path in folder.list(f"{place}/work-"):
        folder.remove(path)


def plan_trust(
    folder: Folder, place: str, settings: DedupSettings, duplicates: Done, kept: Sequence[KeptPart]
) -> TrustUnit | None:
    """The unit that measures the sample of near copies; None when there is nothing to sample."""
    if (
        settings.shape is None
        or not settings.sample
        or settings.false_positives is not None
        or not duplicates.tally["duplicates/near"]
    ):
        return None
    pairs = sample_pairs(folder, duplicates.outputs["duplicates"].path, settings.sample, settings.seed)
    if not pairs:
        return None
    older, _ = list_older_parts(settings.against)
    paths = {(part.run, part.name): part.kept for part in [*older, *kept]}
    spots = {(spot.run, spot.part) for pair in pairs for spot in pair}
    name = f"trust-{settings.sample}-{settings.seed}"
    chosen = {key: paths[key] for key in spots}
    return TrustUnit(folder.url, place, name, tuple(pairs), chosen, settings.shape.ngram, settings.threshold)


def _describe_bloom(settings: DedupSettings, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the Bloom index took, and what sorted ranges would have written."""
    if settings.false_positives is None:
        return None
    saved = forecast_dedup(facts["n_documents"], len(settings.columns), settings.memory).running_bytes
    return {
        "false_positives": settings.false_positives,
        "filter_bytes": facts["filter_bytes"],
        "saved_bytes": saved,
    }


def collect_facts(settings: DedupSettings, done: Mapping[str, Done]) -> dict[str, Any]:
    """What the report says about how far dedup can be trusted, as plain values."""
    shape = settings.shape
    facts = done["duplicates"].facts
    return {
        "shape": {"ngram": shape.ngram, "bands": shape.bands, "rows": shape.rows} if shape else None,
        "threshold": settings.threshold,
        "curve": [[s / 20, shape.match_probability(s / 20)] for s in range(1, 21)] if shape else [],
        "scope": settings.scope,
        "bloom": _describe_bloom(settings, facts),
        "n_older": facts["n_older"],
        "n_compared": facts["n_documents"],
        "buckets": [{"column": column, "documents": size} for size, column in facts["buckets"]],
        "most_copied": [
            {"part": part, "row": row, "n_copies": n_copies}
            for part, row, n_copies in done["copies"].facts["most_copied"]
        ],
        "sample": dict(done["trust"].facts) if "trust" in done else None,
    }
