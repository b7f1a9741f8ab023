"""A whole run, from plan to report. Every step first asks the ledger what is already done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from tamiz.config import Config
from tamiz.errors import RunError
from tamiz.lease import Hold
from tamiz.report.page import render_page
from tamiz.report.summary import Summary, build_summary
from tamiz.run.corpus import publish_corpus, withdraw_corpus
from tamiz.run.dedup import BAND_BYTES, RANGE_DOCUMENTS, find_band_losers, plan_bands, publish_duplicates
from tamiz.run.engine import LIBRARY_BYTES, MEMORY_BYTES, Engine, Report, Work
from tamiz.run.ledger import Done, forget_done, read_done, start_meter
from tamiz.run.local import LocalEngine
from tamiz.run.pack import SHARD_TOKEN_BYTES, pack_shard, plan_shards
from tamiz.run.plan import Plan, check_same_run, make_plan, publish_plan
from tamiz.run.progress import Progress
from tamiz.run.ray import RayEngine
from tamiz.run.sift import SiftUnit, list_kept, plan_units, sift_split
from tamiz.run.tokens import TokensUnit, make_tokens, open_tokenizer
from tamiz.run.warming import warm_kernels
from tamiz.store import Folder
from tamiz.tally import Tally, merge_tallies


@dataclass(frozen=True)
class Place:
    """Where a run works: its directory (a path or an fsspec URL) and the user's cache."""

    run_dir: str
    cache_dir: Path


class _Named(Protocol):
    @property
    def name(self) -> str: ...


U = TypeVar("U", bound=_Named)
Say = Callable[[str], None]


def open_engine(config: Config) -> Engine:
    """The engine that `run` asks for."""
    n_workers = None if config.run.workers == "auto" else config.run.workers
    if config.run.engine == "ray":
        return RayEngine(config.run.address, n_workers)
    return LocalEngine(n_workers or len(os.sched_getaffinity(0)))


def build_corpus(config: Config, place: Place, say: Say) -> Summary:
    """Build or resume the run in `place`; returns the summary, which is published too. Raises TamizError."""
    folder = Folder(place.run_dir)
    with folder.lock("build") as hold:
        check_same_run(config, folder)
        folder.sweep()
        plan = make_plan(config, folder, place.cache_dir)
        folder.publish_bytes("config.yaml", _dump_config(config))
        publish_plan(folder, plan)
        engine = open_engine(config)
        try:
            return _Build(config, plan, folder, engine, hold, say).run()
        finally:
            engine.close()


class _Build:
    """The stages in order, each reading what the one before published."""

    def __init__(self, config: Config, plan: Plan, folder: Folder, engine: Engine, hold: Hold, say: Say) -> None:
        self.config, self.plan, self.folder, self.engine, self.hold, self.say = config, plan, folder, engine, hold, say

    def run(self) -> Summary:
        parts = self.sift()
        duplicates = self.dedup(parts)
        tokens = self.tokenize(parts, duplicates)
        shards = self.pack(tokens)
        summary = self.summarize(parts, duplicates, tokens, shards)
        self.hold.check()
        publish_corpus(self.folder, self.config, self.plan, open_tokenizer(self.plan.tokens), summary, shards)
        self._publish_report(summary)
        return summary

    def sift(self) -> list[Done]:
        place = self.plan.place("sift")
        splits = [(source.spec, split) for source in self.plan.sources for split in source.splits]
        units, parts = plan_units(self.folder.url, place, self.plan.sift, splits, read_done(self.folder, place))
        if units:
            warm_kernels(self.plan.sift, self.say)
        total = sum(split.n_bytes for _, split in splits)
        left = sum(unit.n_bytes for unit in units)
        n_left = sum(len(unit.splits) for unit in units)
        self._tell_resumed("sift", len(splits) - n_left, len(splits), "splits")
        work: Work[SiftUnit, list[Done]] = sift_split
        with Progress("sift", total, total - left) as progress:
            for _, records in self.engine.run(work, units, progress.add):
                self.hold.check()
                parts += records
        parts = sorted(parts, key=lambda done: done.unit)
        if not any(done.tally["documents/kept"] for done in parts):
            raise RunError(f"no document passed the rules; {_name_strictest(parts)}")
        return parts

    def dedup(self, parts: list[Done]) -> Done:
        place = self.plan.place("dedup")
        kept = list_kept(parts)
        units = plan_bands(self.folder.url, place, kept, self.plan.n_bands, exact=self.plan.exact)
        done = read_done(self.folder, place)
        if "duplicates" in done:
            return done["duplicates"]
        n_kept = sum(part.n_kept for part in kept)
        with Progress("dedup", 0, 0) as progress:
            memory_bytes = LIBRARY_BYTES + BAND_BYTES * min(n_kept, RANGE_DOCUMENTS)
            bands = self._run_units(place, find_band_losers, units, progress.add, memory_bytes)
        self.say(f"dedup: {n_kept:,} documents, {self.plan.n_bands} bands")
        start_meter()
        return publish_duplicates(self.folder, place, kept, bands)

    def tokenize(self, parts: list[Done], duplicates: Done) -> list[Done]:
        place, path = self.plan.place("tokens"), duplicates.outputs["duplicates"].path
        units = [
            TokensUnit(self.folder.url, place, self.plan.tokens, part, path, is_checked=i == 0)
            for i, part in enumerate(list_kept(parts))
        ]
        done = read_done(self.folder, place)
        sizes = {part.unit: part.tally["bytes/kept"] for part in parts}
        total = sum(sizes.values())
        with Progress("tokens", total, sum(size for unit, size in sizes.items() if unit in done)) as progress:
            return self._run_units(place, make_tokens, units, progress.add)

    def pack(self, tokens: list[Done]) -> list[Done]:
        place = self.plan.place("pack")
        units = plan_shards(self.folder, place, self.plan.pack, self.plan.tokens, tokens)
        for path in self.folder.list("pack/"):
            if not path.startswith(f"{place}/"):  # another packing's records vouch for files about to be overwritten
                withdraw_corpus(self.folder)
                forget_done(self.folder, path.rpartition("/")[0])
        total = sum(done.tally["bytes/train"] + done.tally["bytes/validation"] for done in tokens)
        with Progress("pack", total, 0) as progress:
            memory_bytes = LIBRARY_BYTES + SHARD_TOKEN_BYTES * self.plan.pack.shard_tokens
            return self._run_units(place, pack_shard, units, progress.add, memory_bytes)

    def summarize(self, parts: list[Done], duplicates: Done, tokens: list[Done], shards: list[Done]) -> Summary:
        sift: dict[str, Tally] = {source.spec.name: {} for source in self.plan.sources}
        for done in parts:
            name = done.facts["source"]
            sift[name] = merge_tallies([sift[name], done.tally])
        facts: dict[str, Any] = {
            "name": self.config.name,
            "source": self.config.source_names,
            "config_fingerprint": self.plan.pack.config_fingerprint,
            "validation_shards": sum(done.unit.startswith("validation") for done in shards),
        }
        return build_summary(
            facts=facts,
            sift=sift,
            dedup=duplicates.tally,
            tokens=merge_tallies(done.tally for done in tokens),
            shards=[done.facts for done in shards],
            sequence_length=self.plan.pack.sequence_length,
            rules=[rule.name for rule in self.plan.sift.rules],
        )

    def _publish_report(self, summary: Summary) -> None:
        text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        self.folder.publish_bytes("report/summary.json", text.encode())
        self.folder.publish_bytes("report/index.html", render_page(summary).encode())

    def _run_units(
        self, place: str, work: Work[U, Done], units: Iterable[U], report: Report, memory_bytes: int = MEMORY_BYTES
    ) -> list[Done]:
        """Do what the ledger does not have; the records of all units, in the units' order."""
        units = list(units)
        done = read_done(self.folder, place)
        todo = [unit for unit in units if unit.name not in done]
        self._tell_resumed(place.partition("/")[0], len(units) - len(todo), len(units), "units")
        for unit, record in self.engine.run(work, todo, report, memory_bytes):
            self.hold.check()
            done[unit.name] = record
        return [done[unit.name] for unit in units]

    def _tell_resumed(self, stage: str, n_done: int, n_units: int, what: str) -> None:
        if n_done:
            self.say(f"{stage}: {n_done} of {n_units} {what} were done before")


def _name_strictest(parts: list[Done]) -> str:
    """Which rule rejected the most, for the message about an empty corpus."""
    tally = merge_tallies(done.tally for done in parts)
    failed = {name: count for name, count in tally.items() if name.startswith("rules/") and name.endswith("/failed")}
    if not any(failed.values()):
        return f"all {tally.get('documents/read', 0):,} documents read were quarantined"
    name = max(failed, key=lambda key: failed[key])
    return f"{name.split('/')[1]} alone rejects {failed[name]:,} of {tally['documents/read']:,}; loosen it"


def _dump_config(config: Config) -> bytes:
    """The resolved config: defaults filled in, overrides applied."""
    dump = config.model_dump(mode="json", by_alias=True, exclude={"folder"}, exclude_none=False)
    return yaml.safe_dump(dump, sort_keys=False, allow_unicode=True).encode()
