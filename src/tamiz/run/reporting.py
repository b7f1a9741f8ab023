"""Gather what the page shows, from what a run has published so far, and publish the page."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz import __version__
from tamiz.config import Config
from tamiz.decide.recipes import RECIPES
from tamiz.decide.rules import make_rules
from tamiz.report.facts import Cluster, Copy, DuplicateFacts, Facts, PackFacts, StageFacts, TokenFacts
from tamiz.report.findings import Findings, RuleFact, count_batch, merge_findings
from tamiz.report.page import render_page
from tamiz.report.summary import Summary, build_summary
from tamiz.run.journal import read_journal
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.quarantine import list_damage
from tamiz.run.settings import RECIPE_ORDER, fingerprint_config
from tamiz.run.texts import Origin, open_library, parse_origin, read_kept, read_texts
from tamiz.run.verdicts import Verdicts, map_parts, open_verdicts, read_failures, read_keys
from tamiz.schema import F64, I64, U64
from tamiz.store import Folder
from tamiz.tally import Histogram, Tally, make_histogram, merge_histograms, merge_tallies

PAGE = "report/index.html"
SUMMARY = "report/summary.json"

_CLUSTERS, _COPIES = 8, 3  # largest clusters shown, documents of each besides the one that stayed
_LENGTH_EDGES: F64 = 2.0 ** (np.arange(0, 97) / 4)  # tokens, quarters of an octave from 1 to 2^24
_RATIO_EDGES: F64 = np.arange(0, 161) / 20  # bytes per token, 0 to 8
_VERSIONS = ("pyarrow", "numpy", "numba", "fastokens", "tokenizers", "datasets", "huggingface-hub")


def publish_report(folder: Folder, summary: Summary | None = None) -> None:
    """Gather and publish the page. `summary`: of a run that has just finished."""
    publish_page(folder, gather_facts(folder, summary))


def publish_page(folder: Folder, facts: Facts) -> str:
    """Publish `report/index.html`; its path in the run."""
    folder.publish_bytes(PAGE, render_page(facts).encode())
    return PAGE


def gather_facts(folder: Folder, summary: Summary | None = None) -> Facts:
    """Everything about a run, in whatever state it is. Raises ConfigError when the folder is no run.

    `summary` None takes the published one if it is of this config, or else counts what there is.
    """
    config, verdicts = open_verdicts(folder)
    record = read_plan_record(folder) or {}
    done = {stage: read_done(folder, place) for stage, place in record["places"].items()}
    summary = summary or read_summary(folder, config) or _summarize_unfinished(config, verdicts, done)
    findings = gather_findings(verdicts)
    texts = _gather_texts(folder, config, findings) if findings else {}
    journal = read_journal(folder) or {"state": "finished", "message": "", "workers": None, "stages": {}}
    return Facts(
        name=config.name,
        state=journal["state"],
        message=journal["message"],
        summary=summary,
        findings=findings,
        texts={(origin.source, f"{origin.path}#{origin.position}"): text for origin, text in texts.items()},
        duplicates=_gather_duplicates(folder, verdicts.parts, done["dedup"]),
        tokens=_gather_tokens(folder, list(done["tokens"].values())),
        packing=_gather_packing(folder, config, list(done["pack"].values())),
        stages=_gather_stages(record, journal, done),
        n_workers=journal["workers"],
        config=folder.read_bytes("config.yaml").decode(),
        versions={"tamiz": __version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in _VERSIONS},
        fingerprints={"config": fingerprint_config(config)}
        | {stage: place.partition("/")[2] for stage, place in record["places"].items()},
    )


def read_summary(folder: Folder, config: Config) -> Summary | None:
    """The published summary, if the run is finished and it is of this very config."""
    if not (folder.exists(SUMMARY) and folder.exists("corpus/manifest.json")):
        return None
    summary: Summary = json.loads(folder.read_bytes(SUMMARY))
    return summary if summary["config_fingerprint"] == fingerprint_config(config) else None


def _summarize_unfinished(config: Config, verdicts: Verdicts, done: dict[str, dict[str, Done]]) -> Summary:
    sift: dict[str, Tally] = {name: {} for name in config.source_names}
    for part in verdicts.parts:
        name = part.facts["source"]
        sift[name] = merge_tallies([sift[name], part.tally])
    duplicates = done["dedup"].get("duplicates")
    return build_summary(
        facts={
            "name": config.name,
            "source": config.source_names,
            "config_fingerprint": fingerprint_config(config),
            "validation_shards": sum(name.startswith("validation") for name in done["pack"]),
        },
        sift=sift,
        dedup=duplicates.tally if duplicates else {},
        dedup_facts=None,
        tokens=merge_tallies(part.tally for part in done["tokens"].values()),
        shards=[shard.facts for shard in done["pack"].values()],
        damage=list_damage(verdicts.parts),
        sequence_length=config.pack.sequence_length,
        rules=[rule.name for rule in verdicts.rules],
        is_finished=False,
    )


def list_rule_facts(verdicts: Verdicts, config: Config) -> list[RuleFact]:
    """The run's rules, then those of its recipes that are off but whose metrics were measured."""
    facts = []
    for rule in verdicts.rules:
        published = RECIPES.get(rule.recipe, {}).get(rule.name.partition(".")[2])
        facts.append(RuleFact(rule.name, rule.metric, rule.fails, rule.bound, rule.labels, published))
    names = {rule.name for rule in verdicts.rules}
    for recipe in RECIPE_ORDER:
        for rule in make_rules(recipe, RECIPES[recipe]) if recipe in config.rules else []:
            if rule.name not in names and rule.metric in verdicts.columns:
                facts.append(RuleFact(rule.name, rule.metric, rule.fails, rule.bound, (), rule.bound, is_on=False))
    return facts


def gather_findings(verdicts: Verdicts) -> Findings | None:
    """The findings over all verdicts there are; None before the first part is published."""
    if not verdicts.parts:
        return None
    config, _ = open_verdicts(verdicts.folder)
    facts = list_rule_facts(verdicts, config)
    total: Findings | None = None
    for found in map_parts(verdicts.parts, partial(_count_part, verdicts, facts)):
        total = found if total is None else merge_findings([total, found])
    return total


def _count_part(verdicts: Verdicts, rules: Sequence[RuleFact], part: Done) -> Findings:
    with verdicts.folder.open(part.outputs["verdicts"].path) as file:
        schema = pq.read_schema(file)
    total = _count_verdicts(verdicts, rules, pa.RecordBatch.from_pylist([], schema=schema))
    for batch in verdicts.read(part, schema.names):
        total = merge_findings([total, _count_verdicts(verdicts, rules, batch)])
    return total


def _count_verdicts(verdicts: Verdicts, rules: Sequence[RuleFact], batch: pa.RecordBatch) -> Findings:
    failures = read_failures(batch.column("failed"), verdicts.rules)
    return count_batch(batch, rules, failures, read_keys(batch.column("doc_id")))


def _gather_texts(folder: Folder, config: Config, findings: Findings) -> dict[Origin, str]:
    """Texts as read of all examples; what the Hub would have to send again is taken as kept, where it was kept."""
    library = open_library(folder, config)
    examples = [e for side in (findings.passing, findings.failing) for found in side.values() for e in found]
    origins = {parse_origin(e.source, e.origin): e.doc_id for e in examples}
    texts = read_texts(library, origins, only_local=True)
    remote = {doc_id: origin for origin, doc_id in origins.items() if not library.is_local(origin.source)}
    kept = read_kept(folder, open_verdicts(folder)[1].parts, remote) if remote else {}
    return texts | {remote[doc_id]: text for doc_id, (_, text) in kept.items()}


def _gather_duplicates(folder: Folder, parts: Sequence[Done], done: dict[str, Done]) -> DuplicateFacts | None:
    """Clusters from duplicates.parquet, 8 bytes a duplicate in memory."""
    if "duplicates" not in done:
        return None
    path = done["duplicates"].outputs["duplicates"].path
    keys = [np.zeros(0, dtype=np.uint64)]
    with folder.open(path) as file:
        for batch in pq.ParquetFile(file).iter_batches(columns=["lost_to"], use_threads=False):
            keys.append(read_keys(batch.column("lost_to").drop_null()))  # Bloom filters name no winner
    heads, counts = np.unique(np.concatenate(keys), return_counts=True)
    sizes = [(int(size), int(n)) for size, n in zip(*np.unique(counts, return_counts=True), strict=True)]
    largest = heads[np.lexsort((heads, -counts))[:_CLUSTERS]]
    losers = _read_losers(folder, path, largest)
    wanted = {name for head, rows in losers.items() for name in (head, *(row["doc_id"] for row in rows))}
    texts = read_kept(folder, parts, wanted)
    clusters = []
    size = dict(zip(heads.tolist(), counts.tolist(), strict=True))
    for head, rows in sorted(losers.items(), key=lambda item: (-size[_name_key(item[0])], item[0])):
        copies = [Copy("", 0, None, *texts.get(head, ("", "")))]
        for row in rows:
            similarity = next((row[name] for name in row if "similarity" in name), None)
            copies.append(Copy(row["kind"], row["n_bands"], similarity, *texts.get(row["doc_id"], ("", ""))))
        clusters.append(Cluster(size[_name_key(head)], copies))
    return DuplicateFacts(sizes, clusters)


def _name_key(doc_id: bytes) -> int:
    return int.from_bytes(doc_id[:8], "big")


def _read_losers(folder: Folder, path: str, heads: U64) -> dict[bytes, list[dict[str, Any]]]:
    """The first duplicates that lost to each of these documents (by key)."""
    found: dict[bytes, list[dict[str, Any]]] = {}
    with folder.open(path) as file:
        for batch in pq.ParquetFile(file).iter_batches(use_threads=False):
            batch = batch.filter(batch.column("lost_to").is_valid())
            mask = np.isin(read_keys(batch.column("lost_to")), heads)
            for row in batch.filter(pa.array(mask)).to_pylist():
                if len(found.setdefault(row["lost_to"], [])) < _COPIES:
                    found[row["lost_to"]].append(row)
    return found


def _gather_tokens(folder: Folder, parts: Sequence[Done]) -> TokenFacts | None:
    if not parts:
        return None

    def count(part: Done) -> tuple[Histogram, Histogram]:
        with folder.open(part.outputs["tokens"].path) as file:
            table = pq.read_table(file, columns=["n_bytes", "n_tokens"], use_threads=False, pre_buffer=False)
        tokens = table.column("n_tokens").to_numpy().astype(np.float64)
        ratio = table.column("n_bytes").to_numpy() / np.maximum(tokens, 1)
        return make_histogram(tokens, _LENGTH_EDGES), make_histogram(ratio, _RATIO_EDGES)

    lengths, ratios = zip(*map_parts(parts, count), strict=True)
    return TokenFacts(merge_histograms(lengths), merge_histograms(ratios))


def _gather_packing(folder: Folder, config: Config, shards: Sequence[Done]) -> PackFacts | None:
    """A document cut into k pieces has one piece of each number below k: counting numbers counts documents."""
    if not shards:
        return None

    def count(shard: Done) -> I64:
        numbers = np.zeros(1, dtype=np.int64)
        with folder.open(shard.outputs["shard"].path) as file:
            for batch in pq.ParquetFile(file).iter_batches(1024, columns=["doc_ids", "piece"], use_threads=False):
                piece = batch.column("piece").flatten().to_numpy()
                named = batch.column("doc_ids").flatten().is_valid().to_numpy(zero_copy_only=False)
                here = np.bincount(piece[named], minlength=len(numbers)).astype(np.int64)
                here[: len(numbers)] += numbers
                numbers = here
        return numbers

    counts = list(map_parts(shards, count))
    numbers = np.zeros(max(map(len, counts)) + 1, dtype=np.int64)
    for one in counts:
        numbers[: len(one)] += one
    listed = [{"name": shard.unit, **shard.facts} for shard in sorted(shards, key=lambda done: done.unit)]
    return PackFacts(listed, (numbers[:-1] - numbers[1:]).tolist(), config.pack.sequence_length)


def _gather_stages(record: dict[str, Any], journal: dict[str, Any], done: dict[str, Any]) -> list[StageFacts]:
    stages = []
    for stage in ("sift", "dedup", "tokens", "pack"):
        clock = journal["stages"].get(stage)
        counts = [clock[key] for key in ("documents", "bytes", "tokens", "peak_worker_bytes")] if clock else [0] * 4
        if stage == "dedup":
            counts[0] = 0  # its clock counts keys: every document once for each band
        seconds = clock["seconds"] if clock else None
        stages.append(StageFacts(stage, record["places"][stage], len(done[stage]), seconds, *counts))
    return stages
