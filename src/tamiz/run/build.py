"""A whole run, from plan to report. Every step first asks the ledger what is already done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from tamiz.config import Config
from tamiz.errors import InterruptedRunError, RunError, TamizError
from tamiz.lease import Hold
from tamiz.report.summary import Summary, build_summary
from tamiz.run.corpus import publish_corpus, withdraw_corpus
from tamiz.run.deduplication import clear_work, collect_facts, find_duplicates, plan_trust
from tamiz.run.engine import LIBRARY_BYTES, MEMORY_BYTES, Engine, Report, Work
from tamiz.run.journal import Journal
from tamiz.run.ledger import Done, forget_done, read_done
from tamiz.run.lines import RULE, collect_lines, remove_lines
from tamiz.run.local import LocalEngine
from tamiz.run.pack import SHARD_TOKEN_BYTES, pack_shard, plan_shards
from tamiz.run.plan import Plan, check_same_run, make_plan, publish_plan
from tamiz.run.progress import Progress
from tamiz.run.quarantine import Allowance, list_damage
from tamiz.run.ray import RayEngine
from tamiz.run.reporting import publish_report
from tamiz.run.sift import PART_BYTES, SiftUnit, list_kept, plan_units, sift_split
from tamiz.run.tokens import TokensUnit, make_tokens, open_tokenizer
from tamiz.run.trust import measure_trust
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
_DEDUP_RECORDS = ("duplicates", "copies")
Say = Callable[[str], None]


def open_engine(config: Config) -> Engine:
    """The engine that `run` asks for."""
    n_workers = None if config.run.workers == "auto" else config.run.workers
    if config.run.engine == "ray":
        return RayEngine(config.run.address, n_workers)
    return LocalEngine(n_workers or len(os.sched_getaffinity(0)))


def build_corpus(config: Config, place: Place, say: Say, part_bytes: int = PART_BYTES) -> Summary:
    """Build or resume the run in `place`; returns the summary, which is published too. Raises TamizError.

    `part_bytes`: text per part of a file that cannot seek.
    """
    folder = Folder(place.run_dir)
    with folder.lock("build") as hold:
        check_same_run(config, folder)
        folder.sweep()
        plan = make_plan(config, folder, place.cache_dir, part_bytes)
        folder.publish_bytes("config.yaml", _dump_config(config))
        publish_plan(folder, plan)
        with closing(open_engine(config)) as engine:
            journal = Journal(folder, engine.n_workers, {stage: plan.place(stage) for stage in plan.inputs})
            try:
                return _Build(config, plan, folder, engine, hold, journal, say).run()
            except InterruptedRunError:
                journal.close("interrupted")
                raise
            except TamizError as error:
                journal.close("failed", str(error))
                _report_failure(folder, say)
                raise


def _report_failure(folder: Folder, say: Say) -> None:
    """The page of a run that failed; nothing that goes wrong with it may hide why the run did."""
    try:
        publish_report(folder)
    except Exception as error:  # whatever it is, the failure of the run is what the user must see
        say(f"the report could not be made: {type(error).__name__}: {error}")


class _Build:
    """The stages in order, each reading what the one before published."""

    def __init__(
        self, config: Config, plan: Plan, folder: Folder, engine: Engine, hold: Hold, journal: Journal, say: Say
    ) -> None:
        self.config, self.plan, self.folder, self.engine, self.say = config, plan, folder, engine, say
        self.hold, self.journal = hold, journal

    def run(self) -> Summary:
        parts = self.sift()
        frequent: list[Done] = []
        if self.config.dedup.lines:
            parts, frequent = self.drop_lines(parts, self.config.dedup.lines.min_copies)
        dedup = self.dedup(parts)
        tokens = self.tokenize(parts, dedup)
        shards = self.pack(tokens)
        summary = self.summarize(parts, frequent, dedup, tokens, shards)
        self.hold.check()
        publish_corpus(self.folder, self.config, self.plan, open_tokenizer(self.plan.tokens), summary, shards)
        self.journal.close("finished")
        self._publish_report(summary)
        return summary

    def sift(self) -> list[Done]:
        place = self.plan.place("sift")
        splits = [(source.spec, split) for source in self.plan.sources for split in source.splits]
        done = read_done(self.folder, place)
        units, parts = plan_units(
            self.folder.url, place, self.plan.sift, splits, done, self.plan.access, self.plan.part_bytes
        )
        if units:
            warm_kernels(self.plan.sift)
        total = sum(split.n_bytes for _, split in splits)
        left = sum(unit.n_bytes for unit in units)
        n_left = sum(len(unit.splits) for unit in units)
        self._tell_resumed("sift", len(splits) - n_left, len(splits), "splits")
        work: Work[SiftUnit, list[Done]] = sift_split
        allowed = {
            source.spec.name: Allowance(source, self.config.max_quarantined(source.spec.name))
            for source in self.plan.sources
        }
        for part in parts:
            allowed[part.facts["source"]].use([part])
        with Progress("sift", total, total - left, self.journal) as progress:
            for unit, records in self.engine.run(work, units, progress.add):
                self.hold.check()
                parts += records
                allowed[unit.spec.name].use(records)
        for allowance in allowed.values():
            allowance.settle()
        parts = sorted(parts, key=lambda done: done.unit)
        if not any(done.tally["documents/kept"] for done in parts):
            raise RunError(f"no document passed the rules; {_name_strictest(parts)}")
        return parts

    def drop_lines(self, parts: list[Done], min_copies: int) -> tuple[list[Done], list[Done]]:
        """The parts without repeated lines, and the records of what those are."""
        place, plan = self.plan.place("lines"), self.plan
        total = sum(part.tally["bytes/kept"] for part in parts)
        with Progress("lines", total, 0, self.journal) as progress:
            records = remove_lines(
                self.folder, place, parts, min_copies, plan.sift.shape, plan.dedup.memory, self._run_units, progress.add
            )
        return records[: len(parts)], records[len(parts) :]

    def dedup(self, parts: list[Done]) -> dict[str, Done]:
        """The records `duplicates` and `copies`, and `trust` if anything was sampled."""
        place, settings = self.plan.place("dedup"), self.plan.dedup
        if "duplicates" not in read_done(self.folder, place):
            with Progress("dedup", 0, 0, self.journal) as progress:
                find_duplicates(self.folder, place, settings, parts, self._run_units, progress.add)
            self.hold.check()
            self.say(f"dedup: {sum(part.tally['documents/kept'] for part in parts):,} documents")
        clear_work(self.folder, place)
        done = {name: record for name, record in read_done(self.folder, place).items() if name in _DEDUP_RECORDS}
        trust = plan_trust(self.folder, place, settings, done["duplicates"], list_kept(parts))
        if trust is not None:
            with Progress("dedup", 0, 0, self.journal) as progress:
                done["trust"] = self._run_units(place, measure_trust, [trust], progress.add)[0]
        return done

    def tokenize(self, parts: list[Done], dedup: dict[str, Done]) -> list[Done]:
        place, repeat = self.plan.place("tokens"), self.plan.repeat
        duplicates, copies = (dedup[name].outputs[name].path for name in _DEDUP_RECORDS)
        units = [
            TokensUnit(self.folder.url, place, self.plan.tokens, part, duplicates, copies, repeat, is_checked=i == 0)
            for i, part in enumerate(list_kept(parts))
        ]
        done = read_done(self.folder, place)
        sizes = {part.unit: part.tally["bytes/kept"] for part in parts}
        total = sum(sizes.values())
        with Progress(
            "tokens", total, sum(size for unit, size in sizes.items() if unit in done), self.journal
        ) as progress:
            return self._run_units(place, make_tokens, units, progress.add)

    def pack(self, tokens: list[Done]) -> list[Done]:
        place = self.plan.place("pack")
        units = plan_shards(self.folder, place, self.plan.pack, self.plan.tokens, tokens)
        self.hold.check()
        for path in self.folder.list("pack/"):
            if not path.startswith(f"{place}/"):  # another packing's records vouch for files about to be overwritten
                withdraw_corpus(self.folder)
                forget_done(self.folder, path.rpartition("/")[0])
        total = sum(done.tally["bytes/train"] + done.tally["bytes/validation"] for done in tokens)
        with Progress("pack", total, 0, self.journal) as progress:
            memory_bytes = LIBRARY_BYTES + SHARD_TOKEN_BYTES * self.plan.pack.shard_tokens
            return self._run_units(place, pack_shard, units, progress.add, memory_bytes)

    def summarize(
        self,
        parts: list[Done],
        frequent: list[Done],
        dedup: dict[str, Done],
        tokens: list[Done],
        shards: list[Done],
    ) -> Summary:
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
            dedup=dedup["duplicates"].tally,
            dedup_facts={**collect_facts(self.plan.dedup, dedup), "lines": collect_lines(parts, frequent)},
            tokens=merge_tallies(done.tally for done in tokens),
            shards=[done.facts for done in shards],
            damage=list_damage(parts),
            sequence_length=self.plan.pack.sequence_length,
            rules=[rule.name for rule in self.plan.sift.rules] + [RULE] * bool(frequent),
        )

    def _publish_report(self, summary: Summary) -> None:
        text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        self.folder.publish_bytes("report/summary.json", text.encode())
        publish_report(self.folder, summary)

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
    dump = config.model_dump(by_alias=True, exclude={"folder"})  # not as JSON: keys of `pack.repeat` are numbers
    minhash = dump["dedup"]["minhash"]
    if minhash and minhash["similarity"] is not None:  # which stands for both
        del minhash["bands"], minhash["rows"]
    return yaml.safe_dump(dump, sort_keys=False, allow_unicode=True).encode()
