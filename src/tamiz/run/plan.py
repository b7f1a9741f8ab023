"""The plan: which splits of which sources at which revision, and each stage's fingerprint. A value that prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamiz.config import Config
from tamiz.errors import ConfigError, SourceError
from tamiz.pack.shards import choose_dtype
from tamiz.run.fingerprint import dump_canonical, make_fingerprint, to_plain
from tamiz.run.measuring import SiftSettings
from tamiz.run.pack import PackSettings
from tamiz.run.settings import (
    describe_sift,
    make_pack_settings,
    make_sift_settings,
    make_source_specs,
    make_token_settings,
)
from tamiz.run.tokens import TokenSettings, open_tokenizer
from tamiz.sources.listing import list_splits
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
    exact: bool
    inputs: dict[str, dict[str, Any]]  # stage -> fingerprint inputs, each with its upstream's fingerprint
    config_folder: str

    def place(self, stage: str) -> str:
        """`<stage>/<fingerprint>`, where the stage's outputs and records are."""
        return f"{stage}/{make_fingerprint(self.inputs[stage])}"

    @property
    def n_bands(self) -> int:
        """MinHash bands, 0 when near copies are not looked for."""
        return self.sift.shape.bands if self.sift.shape else 0


def make_plan(config: Config, folder: Folder, cache_dir: Path) -> Plan:
    """List the sources, unless plan.json already pins the same ones, and fingerprint the stages."""
    sift = make_sift_settings(config, cache_dir)
    record = read_plan_record(folder) or {"sources": []}
    pinned = {source["spec"]["name"]: source for source in record["sources"]}
    try:
        sources = tuple(_plan_source(spec, pinned.get(spec.name)) for spec in make_source_specs(config))
    except SourceError as error:
        raise SourceError(f"{error}{_offer_sample(config)}") from error
    tokens, pack = make_token_settings(config, cache_dir), make_pack_settings(config)
    tokenizer = open_tokenizer(tokens)
    choose_dtype(tokenizer.n_vocab, pack.dtype)  # an impossible dtype is an error now, not after sift
    read = [{"spec": to_plain(source.spec), "revision": source.revision} for source in sources]
    inputs: dict[str, dict[str, Any]] = {"sift": {**describe_sift(sift), "sources": read}}
    inputs["dedup"] = {"sift": make_fingerprint(inputs["sift"]), "exact": config.dedup.exact}
    inputs["tokens"] = {
        "dedup": make_fingerprint(inputs["dedup"]),
        "tokenizer": tokenizer.fingerprint,
        "eos": tokens.eos,
        "bos": tokens.bos,
        "holdout": tokens.holdout,
        "seed": tokens.seed,
    }
    inputs["pack"] = {"tokens": make_fingerprint(inputs["tokens"]), **to_plain(pack)}
    folder_name = str(config.folder.resolve())
    return Plan(config.name, sources, sift, tokens, pack, config.dedup.exact, inputs, folder_name)


def _plan_source(spec: Source, pinned: dict[str, Any] | None) -> PlannedSource:
    """A Hub source keeps the commit it was pinned to; local files are looked at again, for they may have changed."""
    if pinned is not None and isinstance(spec, HubSource) and to_plain(spec) == pinned["spec"]:
        splits = tuple(Split.from_json(split) for split in pinned["splits"])
        return PlannedSource(spec, pinned["revision"], splits)
    listing = list_splits(spec)
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
    lines += [f"{stage:7} {plan.place(stage)}" for stage in plan.inputs]
    return "\n".join(lines)


def _bound(rule: Any) -> str:
    return ", ".join(rule.labels) if rule.labels else f"{rule.bound:g}"


def sum_bytes(splits: Sequence[Split]) -> int:
    """Text bytes of the splits, roughly."""
    return sum(split.n_bytes for split in splits)
