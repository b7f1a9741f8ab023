"""The plan: which splits of which sources at which revision, and each stage's fingerprint. A value that prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamiz.config import Config
from tamiz.config_file import read_config
from tamiz.errors import ConfigError, SourceError
from tamiz.pack.shards import choose_dtype
from tamiz.run.against import find_older_runs, list_older_parts
from tamiz.run.bloom import choose_filters, share_rate
from tamiz.run.dedup import DedupSettings
from tamiz.run.fingerprint import dump_canonical, make_fingerprint, to_plain
from tamiz.run.isolation import Isolation
from tamiz.run.layout import forecast_dedup
from tamiz.run.measuring import SiftSettings
from tamiz.run.pack import PackSettings
from tamiz.run.progress import tell_waits
from tamiz.run.settings import (
    describe_dedup,
    describe_sift,
    make_dedup_settings,
    make_hub_access,
    make_pack_settings,
    make_sift_settings,
    make_source_specs,
    make_token_settings,
)
from tamiz.run.sift import PART_BYTES
from tamiz.run.tokens import TokenSettings, open_tokenizer
from tamiz.sources.access import HubAccess, use_access
from tamiz.sources.listing import Call, list_splits
from tamiz.sources.split import HubSource, Source, Split
from tamiz.store import Folder

PLAN = "plan.json"


@dataclass(frozen=True)
class PlannedSource:
    """A source with its splits in document order and the revision they were pinned to."""

    spec: Source
    revision: str
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class Plan:
    """Everything a run reads; execution only reads the plan. Stage places are relative to the run directory."""

    name: str
    sources: tuple[PlannedSource, ...]
    sift: SiftSettings
    tokens: TokenSettings
    pack: PackSettings
    dedup: DedupSettings
    repeat: tuple[tuple[int, int], ...]  # (n_copies from which on, times packed)
    access: HubAccess  # how the Hub is reached; never part of a fingerprint
    inputs: dict[str, dict[str, Any]]  # stage -> fingerprint inputs, each with its upstream's fingerprint
    config_folder: str
    part_bytes: int

    def place(self, stage: str) -> str:
        """`<stage>/<fingerprint>`, where the stage's outputs and records are."""
        return f"{stage}/{make_fingerprint(self.inputs[stage])}"


def make_plan(config: Config, folder: Folder, cache_dir: Path, part_bytes: int = PART_BYTES) -> Plan:
    """List the sources, unless plan.json already pins the same ones, and fingerprint the stages.

    `part_bytes` is part of sift's fingerprint: a run has parts of one size.
    """
    sift = make_sift_settings(config, cache_dir)
    access = make_hub_access(config, cache_dir)
    use_access(access)
    against = find_older_runs(config, sift.shape)
    dedup = make_dedup_settings(config, sift.shape, against)
    record = read_plan_record(folder) or {"sources": []}
    pinned = {source["spec"]["name"]: source for source in record["sources"]}
    try:
        with tell_waits(), closing(Isolation(access)) as isolation:
            sources = tuple(_plan_source(spec, pinned.get(spec.name), isolation) for spec in make_source_specs(config))
    except SourceError as error:
        raise SourceError(f"{error}{_offer_sample(config)}") from error
    tokens, pack = make_token_settings(config, cache_dir), make_pack_settings(config)
    repeat = tuple(sorted(config.pack.repeat.items()))
    tokenizer = open_tokenizer(tokens)
    choose_dtype(tokenizer.n_vocab, pack.dtype)  # an impossible dtype is an error now, not after sift
    read = [
        {"spec": to_plain(source.spec), "revision": source.revision, "cuts": fingerprint_cuts(source.splits)}
        for source in sources
    ]
    inputs: dict[str, dict[str, Any]] = {"sift": {**describe_sift(sift), "part_bytes": part_bytes, "sources": read}}
    upstream = "sift"
    if config.dedup.lines:
        inputs["lines"] = {"sift": make_fingerprint(inputs["sift"]), "min_copies": config.dedup.lines.min_copies}
        upstream = "lines"
    inputs["dedup"] = {upstream: make_fingerprint(inputs[upstream]), **describe_dedup(dedup, against)}
    inputs["tokens"] = {
        "dedup": make_fingerprint(inputs["dedup"]),
        "tokenizer": tokenizer.fingerprint,
        "eos": tokens.eos,
        "bos": tokens.bos,
        "holdout": tokens.holdout,
        "seed": tokens.seed,
        "repeat": repeat,
    }
    inputs["pack"] = {"tokens": make_fingerprint(inputs["tokens"]), **to_plain(pack)}
    folder_name = str(config.folder.resolve())
    return Plan(config.name, sources, sift, tokens, pack, dedup, repeat, access, inputs, folder_name, part_bytes)


def fingerprint_cuts(splits: Sequence[Split]) -> str:
    """Of where splits begin and end: parts are named by the number of their split, so other cuts are other parts."""
    return make_fingerprint({"cuts": [[s.path, s.start, s.stop, s.limit] for s in splits]})


def _plan_source(spec: Source, pinned: dict[str, Any] | None, call: Call) -> PlannedSource:
    """A Hub source keeps the commit it was pinned to; local files are looked at again, for they may have changed."""
    if pinned is not None and isinstance(spec, HubSource) and to_plain(spec) == pinned["spec"]:
        splits = tuple(Split.from_json(split) for split in pinned["splits"])
        return PlannedSource(spec, pinned["revision"], splits)
    listing = list_splits(spec, call=call)
    if not listing.splits:
        raise SourceError(f"source {spec.name} is empty: {len(listing.files)} files without a record that is selected")
    return PlannedSource(spec, listing.revision, listing.splits)


def _offer_sample(config: Config) -> str:
    """Where to go when a source cannot be reached: only said, never gone."""
    for name, source in config.sources.items():
        if source.kind == "sample" and name not in config.source_names:
            return f". Without a network: make corpus CONFIG={config.name}.yaml SOURCE={name}"
    return ""


def publish_plan(folder: Folder, plan: Plan) -> None:
    """Write plan.json: sources, revisions, splits, the stages' places and the inputs of their fingerprints.

    With `tokens` and `places`, `tamiz verify` needs neither the config nor the files it names.
    """
    sources = [
        {"spec": to_plain(source.spec), "revision": source.revision, "splits": [s.to_json() for s in source.splits]}
        for source in plan.sources
    ]
    record = {
        "name": plan.name,
        "config_folder": plan.config_folder,
        "sources": sources,
        "tokens": plan.tokens,
        "places": {stage: plan.place(stage) for stage in plan.inputs},
        "inputs": plan.inputs,
    }
    folder.publish_bytes(PLAN, (dump_canonical(record) + "\n").encode())


def read_plan_record(folder: Folder) -> dict[str, Any] | None:
    """plan.json as plain values, or None before the first plan."""
    return json.loads(folder.read_bytes(PLAN)) if folder.exists(PLAN) else None


def read_run_config(folder: Folder, overrides: Sequence[str] = ()) -> Config:
    """The run's own copy of its config, with `overrides` over it. Raises ConfigError when the folder is no run."""
    record = read_plan_record(folder)
    if record is None:
        raise ConfigError(f"{folder.url}: not a run directory (no plan.json); `tamiz build CONFIG` makes one")
    text = folder.read_bytes("config.yaml").decode()
    return read_config(text, folder.locate("config.yaml"), Path(record["config_folder"]), overrides)


def check_same_run(config: Config, folder: Folder) -> None:
    """ConfigError when the run directory belongs to a config of another name or other sources."""
    record = read_plan_record(folder)
    if record is None:
        return
    names = [source["spec"]["name"] for source in record["sources"]]
    if record["name"] != config.name or names != config.source_names:
        raise ConfigError(
            f"run directory {folder.url} was made by config {record['name']!r} from {', '.join(names)}; this is "
            f"{config.name!r} from {', '.join(config.source_names)}. Give another --run-dir, or remove that directory"
        )


def describe_plan(plan: Plan) -> str:
    """The plan as text, for `tamiz plan`."""
    lines = [f"{plan.name}"]
    for source in plan.sources:
        n_bytes = sum(split.n_bytes for split in source.splits)
        rows = [split.n_rows for split in source.splits]
        known = f"{sum(r or 0 for r in rows):,} rows, " if all(r is not None for r in rows) else ""
        lines.append(
            f"source {source.spec.name} ({type(source.spec).__name__}): {len(source.splits)} splits, {known}"
            f"about {n_bytes / 1e6:,.1f} MB of text, revision {source.revision[:12]}"
        )
    lines += [f"rules: {len(plan.sift.rules)}", *(f"  {rule.name} {_bound(rule)}" for rule in plan.sift.rules)]
    lines += _describe_dedup(plan)
    lines += [f"{stage:7} {plan.place(stage)}" for stage in plan.inputs]
    return "\n".join(lines)


_DOCUMENT_BYTES = 2_000  # of text: where a source does not tell its rows, documents are taken to be this short


def _describe_dedup(plan: Plan) -> list[str]:
    """What dedup will take, if every document is kept."""
    splits = [split for source in plan.sources for split in source.splits]
    own = sum(split.n_bytes // _DOCUMENT_BYTES if split.n_rows is None else split.n_rows for split in splits)
    older = sum(part.n_kept for part in list_older_parts(plan.dedup.against)[0])
    forecast = forecast_dedup(own + older, len(plan.dedup.columns), plan.dedup.memory)
    against = f" and {older:,} of older runs" if older else ""
    if plan.dedup.false_positives is not None:
        return _describe_filters(plan, own, older, forecast.running_bytes)
    n_keys, allowed = len(plan.dedup.columns), plan.dedup.memory / 1e6
    bands, running = forecast.bands_bytes / 1e6, forecast.running_bytes / 1e6
    return [
        f"dedup: at most {own:,} documents{against}, {n_keys} keys each, in {forecast.n_ranges} key ranges",
        f"  memory {forecast.worker_bytes / 1e6:,.0f} MB for each worker (dedup.memory {allowed:,.0f} MB)",
        f"  disk {bands:,.1f} MB of band files, and {running:,.1f} MB more while it runs",
    ]


def _describe_filters(plan: Plan, own: int, older: int, saved: int) -> list[str]:
    n_keys, rate = len(plan.dedup.columns), plan.dedup.false_positives or 0.0
    shape, count = choose_filters(own + older, n_keys, rate, plan.dedup.memory)
    n_bits = shape.n_words * 64 * count / max(1, own + older)
    return [
        f"dedup: at most {own + older:,} documents, {n_keys} Bloom filters of {n_bits:.1f} bits a document, "
        f"{shape.n_words * 8 * count / 1e6:,.1f} MB each in {count} ranges",
        f"  false positives: at most {rate:.2%} of the documents ({share_rate(rate, n_keys):.2e} a filter)",
        f"  disk: nothing but the band files; sorted ranges would take {saved / 1e6:,.1f} MB more while it runs",
    ]


def _bound(rule: Any) -> str:
    return ", ".join(rule.labels) if rule.labels else f"{rule.bound:g}"


def sum_bytes(splits: Sequence[Split]) -> int:
    """Text bytes of the splits, roughly."""
    return sum(split.n_bytes for split in splits)
