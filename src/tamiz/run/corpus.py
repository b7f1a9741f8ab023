"""The corpus folder: the manifest and the dataset card beside the shards, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tamiz import __version__
from tamiz.config import Config, FileSource, HubSource, WarcSource
from tamiz.pack.card import CardFacts, CardSource, make_card
from tamiz.pack.tokenizer import Tokenizer
from tamiz.report.summary import Summary
from tamiz.run.ledger import Done
from tamiz.run.pack import CORPUS
from tamiz.run.plan import Plan
from tamiz.store import Folder

MANIFEST = f"{CORPUS}/manifest.json"


def publish_corpus(
    folder: Folder, config: Config, plan: Plan, tokenizer: Tokenizer, summary: Summary, shards: Sequence[Done]
) -> None:
    """Remove files of earlier corpora, write README.md, and the manifest last: with it the corpus is complete."""
    wanted = {done.outputs["shard"].path for done in shards}
    for path in folder.list(f"{CORPUS}/"):
        if path not in wanted:
            folder.remove(path)
    card = make_card(_collect_facts(config, plan, tokenizer, summary))
    folder.publish_bytes(f"{CORPUS}/README.md", card.encode())
    manifest = _make_manifest(config, plan, tokenizer, summary, shards)
    folder.publish_bytes(MANIFEST, (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())


def withdraw_corpus(folder: Folder) -> None:
    """Remove the manifest: the shards are about to be replaced, so what is there is no longer a corpus."""
    folder.remove(MANIFEST)


def _make_manifest(
    config: Config, plan: Plan, tokenizer: Tokenizer, summary: Summary, shards: Sequence[Done]
) -> dict[str, Any]:
    return {
        "name": config.name,
        "tamiz": __version__,
        "config_fingerprint": plan.pack.config_fingerprint,
        "sources": [source._asdict() for source in _list_sources(config, plan)],
        "tokenizer": {
            "name": tokenizer.name,
            "sha256": tokenizer.fingerprint,
            "n_vocab": tokenizer.n_vocab,
            "bos_id": tokenizer.bos_id if config.pack.bos else None,
            "eos_id": tokenizer.eos_id,
            "pad_id": tokenizer.pad_id,
        },
        "sequence_length": plan.pack.sequence_length,
        "strategy": plan.pack.strategy,
        "documents": summary["documents"],
        "bytes": summary["bytes"],
        "tokens": summary["tokens"],
        "repeated": summary["repeated"],
        "files": [
            {
                "path": done.outputs["shard"].path.removeprefix(f"{CORPUS}/"),
                **{key: done.facts[key] for key in ("rows", "documents", "tokens", "padding", "text_bytes")},
                "n_bytes": done.outputs["shard"].n_bytes,
                "sha256": done.outputs["shard"].sha256,
            }
            for done in shards
        ],
    }


def _list_sources(config: Config, plan: Plan) -> list[CardSource]:
    """Only a Hub source names its revision: that of local files depends on this machine's clock."""
    listed = []
    for planned in plan.sources:
        name = planned.spec.name
        source = config.sources[name]
        location, revision = "bundled with tamiz", None
        if isinstance(source, HubSource):
            location = f"{source.dataset}, subset {source.subset or 'default'}, split {source.split}"
            revision = planned.revision
        elif isinstance(source, FileSource | WarcSource):
            location = ", ".join(source.paths)
        listed.append(CardSource(name, source.kind, location, revision, source.license))
    return listed


def _collect_facts(config: Config, plan: Plan, tokenizer: Tokenizer, summary: Summary) -> CardFacts:
    held = summary["validation"]["documents"]
    return CardFacts(
        name=config.name,
        sources=_list_sources(config, plan),
        filters=_describe_filters(config, plan),
        tokenizer=tokenizer.name,
        tokenizer_fingerprint=tokenizer.fingerprint,
        n_vocab=tokenizer.n_vocab,
        bos=str(tokenizer.bos_id) if config.pack.bos else None,
        eos=str(tokenizer.eos_id),
        sequence_length=plan.pack.sequence_length,
        strategy=plan.pack.strategy,
        documents_read=summary["documents"]["read"],
        documents_packed=summary["documents"]["packed"],
        documents_holdout=held,
        tokens_packed=summary["tokens"]["packed"],
        tokens_padding=summary["tokens"]["padding"],
        n_train_shards=summary["shards"] - bool(held) * summary["validation_shards"],
        n_validation_shards=summary["validation_shards"],
        config_fingerprint=plan.pack.config_fingerprint,
    )


def _describe_filters(config: Config, plan: Plan) -> list[str]:
    """One sentence each, in the order they were applied."""
    filters = []
    if config.language:
        kept = ", ".join(config.language.keep)
        filters.append(f"Language {kept} with a fastText lid.176 score above {config.language.min_score}.")
    for recipe in config.rules:
        bounds = ", ".join(f"{k} {v:g}" for k, v in config.recipe_bounds(recipe).items() if v is not None)
        filters.append(f"{recipe}: {bounds}.")
    if config.domain:
        filters.append(
            f"Domain lexicon {config.domain.lexicon}: score at least {config.domain.score_min}, distinct terms at "
            f"least {config.domain.terms_min}."
        )
    if config.redact:
        filters.append(f"Redacted: {', '.join(sorted(config.redact))}.")
    if config.dedup.lines:
        filters.append(f"Lines that at least {config.dedup.lines.min_copies} documents of a dump share are removed.")
    if config.dedup.scope != "run":
        filters.append(f"Copies are looked for within each {config.dedup.scope}.")
    if config.dedup.exact:
        filters.append("Exact copies of the normalised text: the first stays.")
    if plan.sift.shape:
        shape = plan.sift.shape
        filters.append(
            f"Near copies by MinHash, word {shape.ngram}-grams, {shape.bands} bands of {shape.rows}: the first stays."
        )
    return filters
