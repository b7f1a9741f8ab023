"""How far a run is, stage by stage, while it runs and after, and why a stage would run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tamiz.run.corpus import MANIFEST
from tamiz.run.fingerprint import find_changes, make_fingerprint, to_plain
from tamiz.run.journal import read_journal
from tamiz.run.ledger import Done, read_done
from tamiz.run.pack import plan_shards
from tamiz.run.plan import Plan, read_plan_record
from tamiz.run.sift import plan_units
from tamiz.store import Folder


@dataclass(frozen=True)
class StageStatus:
    """Units done, and to do in all (None: not known before the stage in front of it is done)."""

    stage: str
    n_done: int
    n_units: int | None
    documents: int


def describe_status(folder: Folder, plan: Plan) -> str:
    """A table of the stages; what the build is doing; what differs from the fingerprints of the directory's plan.

    At most 80 columns but for a failure's own message.
    """
    journal = read_journal(folder)
    lines = [
        f"{plan.name} in {folder.url}",
        "",
        f"{'stage':8}{'units done':>12}{'left':>8}{'documents':>14}{'MB/s':>9}",
    ]
    lines[-1] += f"{'docs/s':>10}{'tokens/s':>11}"
    for status in count_stages(folder, plan):
        clock = journal["stages"].get(status.stage) if journal else None
        left = "?" if status.n_units is None else f"{status.n_units - status.n_done:,}"
        rates = _show_rates(clock) if status.stage != "dedup" else ""  # its clock counts keys, one a band and document
        line = f"{status.stage:8}{status.n_done:>12,}{left:>8}{status.documents:>14,}{rates}"
        lines.append(line.rstrip())
    lines += ["", *_tell_state(folder, journal), *_tell_reruns(folder, plan)]
    return "\n".join(lines)


def count_stages(folder: Folder, plan: Plan) -> list[StageStatus]:
    """The four stages by the ledger, which alone says what is done."""
    splits = [(source.spec, split) for source in plan.sources for split in source.splits]
    done = {stage: read_done(folder, plan.place(stage)) for stage in plan.inputs}
    place, sifted = plan.place("sift"), done["sift"]
    units, parts = plan_units(folder.url, place, plan.sift, splits, sifted, plan.access, plan.part_bytes)
    is_sifted = not units
    n_left = sum(len(unit.splits) for unit in units)
    stages = [StageStatus("sift", len(splits) - n_left, len(splits), _sum(parts, "documents/read"))]
    n_kept = _sum(parts, "documents/kept")
    is_deduplicated = "duplicates" in done["dedup"]  # its steps clear their own records away when they end
    stages.append(StageStatus("dedup", int(is_deduplicated), 1, n_kept * is_deduplicated))
    tokens = list(done["tokens"].values())
    n_documents = sum(_sum(tokens, f"documents/{which}") for which in ("train", "validation"))
    stages.append(StageStatus("tokens", len(tokens), len(parts) if is_sifted else None, n_documents))
    is_tokenized = is_sifted and len(tokens) == len(parts)
    n_shards = _count_shards(folder, plan, tokens) if is_tokenized else None
    packed = sum(shard.facts["documents"] for shard in done["pack"].values())
    stages.append(StageStatus("pack", len(done["pack"]), n_shards, packed))
    return stages


def _sum(records: list[Done], name: str) -> int:
    return sum(done.tally.get(name, 0) for done in records)


def _count_shards(folder: Folder, plan: Plan, tokens: list[Done]) -> int:
    ordered = sorted(tokens, key=lambda done: done.unit)
    return len(plan_shards(folder, plan.place("pack"), plan.pack, plan.tokens, ordered))


def _show_rates(clock: dict[str, Any] | None) -> str:
    """MB, documents and tokens per second of all the stage's time; empty for a stage without a clock."""
    if not clock or not clock["seconds"]:
        return ""
    seconds = clock["seconds"]
    rates = [f"{clock['bytes'] / 1e6 / seconds:,.1f}" if clock["bytes"] else "-"]
    rates += [f"{clock[what] / seconds:,.0f}" if clock[what] else "-" for what in ("documents", "tokens")]
    return f"{rates[0]:>9}{rates[1]:>10}{rates[2]:>11}"


def _tell_state(folder: Folder, journal: dict[str, Any] | None) -> list[str]:
    is_finished = folder.exists(MANIFEST)
    if journal is None or journal["state"] == "finished":
        return ["the corpus is finished" if is_finished else "the corpus is not finished; the build command goes on"]
    where = f"{journal['workers']} workers on {journal['host']}, process {journal['pid']}"
    if journal["state"] == "running":
        lines = [f"running: {journal['stage'] or 'planning'} with {where}"]
        clock = journal["stages"].get(journal["stage"])
        return lines + ([_tell_time_left(clock)] if clock else [])
    if journal["state"] == "stopped":
        ago = f"{journal['silent_seconds']:,.0f} s"
        return [f"stopped without a word {ago} ago in {journal['stage'] or 'planning'} ({where}): killed, or the",
                "machine died; the same build command goes on"]  # fmt: skip
    lines = [f"{journal['state']} in {journal['stage'] or 'planning'}; the same build command goes on"]
    return lines + ([f"  {journal['message']}"] if journal["message"] else [])


def _tell_time_left(clock: dict[str, Any]) -> str:
    total, done = clock["total_bytes"], clock["done_bytes"] + clock["session_bytes"]
    rate = clock["session_bytes"] / clock["session_seconds"] if clock["session_seconds"] else 0.0
    if total <= 1:
        return f"{clock['session_seconds']:,.0f} s so far"
    left = f"about {format_seconds(max(total - done, 0) / rate)} left" if rate else "time left not known yet"
    return f"about {done / 1e6:,.0f} of {total / 1e6:,.0f} MB ({min(done / total, 1):.0%}), {left}"


def format_seconds(seconds: float) -> str:
    """45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def _tell_reruns(folder: Folder, plan: Plan) -> list[str]:
    record = read_plan_record(folder) or {"inputs": {}}
    lines = []
    for stage, inputs in plan.inputs.items():
        old = record["inputs"].get(stage)
        if old is not None and make_fingerprint(old) != make_fingerprint(inputs):
            lines.append(f"{stage} would run again:")
            lines += [f"  {change}" for change in find_changes(old, to_plain(inputs))]
    return lines
