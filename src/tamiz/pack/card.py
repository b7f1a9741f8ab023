"""The dataset card: README.md of a corpus folder, so that `datasets.load_dataset(<folder>)` finds its splits."""

from __future__ import annotations

import json
from typing import NamedTuple


class CardSource(NamedTuple):
    """Where documents came from. `revision` is the pinned commit of a Hub dataset, None for files."""

    name: str
    kind: str  # hub, parquet, jsonl, warc, sample
    location: str  # repository id or paths
    revision: str | None
    license: str | None  # identifier as the Hub spells it, e.g. odc-by


class CardFacts(NamedTuple):
    """What a card says. Counts are of the whole corpus, train and validation together unless named otherwise."""

    name: str
    sources: list[CardSource]
    filters: list[str]  # one sentence each, in the order they were applied
    tokenizer: str
    tokenizer_fingerprint: str
    n_vocab: int
    bos: str | None  # None: documents have no BOS
    eos: str
    sequence_length: int
    strategy: str  # best_fit or concat
    documents_read: int
    documents_packed: int
    documents_holdout: int
    tokens_packed: int
    tokens_padding: int
    n_train_shards: int
    n_validation_shards: int
    config_fingerprint: str


_READ_ROWS = """\
One row is one sequence of {sequence_length} tokens.

- `input_ids`: the tokens.
- `seq_lens`: the lengths of the row's pieces; they sum to {sequence_length}. A piece is what a row holds of a document.
  Derive positions, `cu_seqlens` and attention masks from these lengths, never by looking for the end-of-document token.
- `doc_ids`: the document of each piece (16 bytes); null for padding, which is always the last piece.
- `piece`: 0 where the piece begins its document, k > 0 where it continues it.

```python
import numpy as np
from datasets import load_dataset

row = load_dataset("path/to/this/folder", split="train")[0]
cu_seqlens = np.cumsum([0, *row["seq_lens"]])
positions = np.concatenate([np.arange(n) for n in row["seq_lens"]])
n_padding = row["seq_lens"][-1] if row["doc_ids"][-1] is None else 0  # leave these out of the loss
```
"""


def make_card(facts: CardFacts) -> str:
    """The text of README.md: YAML front matter naming the files of each split, then prose. Ends in a newline."""
    sections = [
        _make_front_matter(facts),
        f"# {facts.name}\n",
        _describe_corpus(facts),
        "## Sources\n",
        "".join(_describe_source(source) for source in facts.sources),
        "## Filters\n",
        _describe_filters(facts.filters),
        "## Rows\n",
        _READ_ROWS.format(sequence_length=facts.sequence_length),
        "## Tokenizer\n",
        _describe_tokenizer(facts),
    ]
    return "\n".join(sections)


def _make_front_matter(facts: CardFacts) -> str:
    """A JSON string is a YAML string: names need no other quoting. A split without shards is left out, because
    load_dataset fails on a pattern that matches no file."""
    lines = ["---", f"pretty_name: {json.dumps(facts.name)}"]
    licenses = sorted({source.license for source in facts.sources if source.license})
    if licenses and all(source.license for source in facts.sources):
        lines.append("license:" + "".join(f"\n- {json.dumps(license)}" for license in licenses))
    shards = {"train": facts.n_train_shards, "validation": facts.n_validation_shards}
    splits = [split for split, n_shards in shards.items() if n_shards]
    if splits:
        lines += ["configs:", "- config_name: default", "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: {split}-*.parquet"]
    return "\n".join([*lines, "---\n"])


def _describe_corpus(facts: CardFacts) -> str:
    total = facts.tokens_packed + facts.tokens_padding
    share = f"{facts.tokens_padding / total:.3%}" if total else "0%"
    holdout = (
        f" {facts.documents_holdout:,} documents are held out for validation, chosen by a hash of their id."
        if facts.n_validation_shards
        else ""
    )
    return (
        f"A pretraining corpus built by tamiz: {facts.documents_packed:,} documents of the "
        f"{facts.documents_read:,} read, {facts.tokens_packed:,} tokens in rows of "
        f"{facts.sequence_length:,} ({facts.strategy}), {share} padding.{holdout}\n"
        f"\nConfig fingerprint: `{facts.config_fingerprint}`.\n"
    )


def _describe_source(source: CardSource) -> str:
    revision = f", revision `{source.revision}`" if source.revision else ""
    license = f", license {source.license}" if source.license else ", license not stated"
    return f"- {source.name} ({source.kind}): `{source.location}`{revision}{license}\n"


def _describe_filters(filters: list[str]) -> str:
    if not filters:
        return "None.\n"
    return "".join(f"{i}. {sentence}\n" for i, sentence in enumerate(filters, start=1))


def _describe_tokenizer(facts: CardFacts) -> str:
    bos = f"`{facts.bos}` before and " if facts.bos else ""
    return (
        f"{facts.tokenizer}, {facts.n_vocab:,} ids, SHA-256 of its tokenizer.json `{facts.tokenizer_fingerprint}`. "
        f"Every document has {bos}`{facts.eos}` after it.\n"
    )
