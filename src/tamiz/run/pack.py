"""The second half of pack: cut the surviving documents into shards, and fill each shard's sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq

from tamiz.pack.fill import fill_best_fit, fill_concat
from tamiz.pack.shards import build_shard, choose_dtype, count_group_rows, make_shard_metadata
from tamiz.run.engine import Report
from tamiz.run.ledger import Done, record_done
from tamiz.run.tokens import TokenSettings, open_tokenizer, read_documents
from tamiz.store import Folder

FILLS = {"best_fit": fill_best_fit, "concat": fill_concat}
CORPUS = "corpus"
SHARD_TOKEN_BYTES = 10  # of memory for each token of a shard: its id, and its share of a document's row and pieces

Ranges = tuple[tuple[str, int, int], ...]  # (tokens file, first row, past row), in document order


@dataclass(frozen=True)
class PackSettings:
    """What turns tokens into shards."""

    sequence_length: int
    strategy: Literal["best_fit", "concat"]
    shard_tokens: int
    dtype: str
    config_fingerprint: str


@dataclass(frozen=True)
class ShardUnit:
    """Write `corpus/<name>.parquet` from the documents in `ranges`, `n_tokens` tokens in all."""

    folder: str
    place: str
    settings: PackSettings
    tokens: TokenSettings
    name: str
    ranges: Ranges
    n_tokens: int

    def __str__(self) -> str:
        return f"shard {self.name}"


def plan_shards(
    folder: Folder, place: str, settings: PackSettings, tokens: TokenSettings, parts: Sequence[Done]
) -> list[ShardUnit]:
    """Cut the documents, in order, wherever another `shard_tokens` tokens are full: train first, then validation.

    A document belongs to the shard in which it begins. Repetitions come behind all documents for training, the
    first of all, then the second. The cut depends on the documents alone, not on parts or workers.
    """
    units = []
    passes = 1 + max((done.facts["repetitions"] for done in parts), default=0)
    for which in ("train", "validation"):
        ranges: dict[int, list[tuple[str, int, int]]] = {}
        sizes: dict[int, int] = {}
        total = 0
        for number, done in product(range(passes if which == "train" else 1), parts):
            if number > done.facts["repetitions"]:
                continue
            path = done.outputs["tokens"].path
            with folder.open(done.outputs["lengths"].path) as file:
                table = pq.read_table(file, use_threads=False, pre_buffer=False)
            chosen_rows = table.column("is_holdout").to_numpy() == (which == "validation")
            rows = np.flatnonzero(chosen_rows & (table.column("repetition").to_numpy() == number))
            lengths = table.column("n_tokens").to_numpy().astype(np.int64)[rows]
            shards = (total + np.cumsum(lengths) - lengths) // settings.shard_tokens
            total += int(lengths.sum())
            for shard in np.unique(shards):  # documents of one part and shard are consecutive
                chosen = rows[shards == shard]
                ranges.setdefault(int(shard), []).append((path, int(chosen[0]), int(chosen[-1]) + 1))
                sizes[int(shard)] = sizes.get(int(shard), 0) + int(lengths[shards == shard].sum())
        for number, shard in enumerate(sorted(ranges)):  # a document longer than a shard leaves no gap in the numbers
            name = f"{which}-{number:05d}"
            units.append(ShardUnit(folder.url, place, settings, tokens, name, tuple(ranges[shard]), sizes[shard]))
    return units


def pack_shard(unit: ShardUnit, report: Report) -> Done:
    """Work one unit: fill the sequences, publish the shard, record its counts."""
    folder = Folder(unit.folder)
    tokenizer = open_tokenizer(unit.tokens)
    settings = unit.settings
    documents = read_documents(folder, unit.ranges, unit.n_tokens)
    pieces = FILLS[settings.strategy](np.diff(documents.offsets), settings.sequence_length)
    n_rows = int(pieces.row[-1]) + 1 if len(pieces.row) else 0
    dtype = choose_dtype(tokenizer.n_vocab, settings.dtype)
    metadata = make_shard_metadata(
        tokenizer=tokenizer.name,
        tokenizer_fingerprint=tokenizer.fingerprint,
        n_vocab=tokenizer.n_vocab,
        bos_id=tokenizer.bos_id if unit.tokens.bos else None,
        eos_id=tokenizer.eos_id,
        pad_id=tokenizer.pad_id,
        sequence_length=settings.sequence_length,
        strategy=settings.strategy,
        config_fingerprint=settings.config_fingerprint,
    )
    group_rows = count_group_rows(settings.sequence_length)
    with folder.publish(f"{CORPUS}/{unit.name}.parquet") as file:
        writer: pq.ParquetWriter | None = None
        for first in range(0, n_rows, group_rows):  # a row group at a time: memory does not grow with the shard
            rows = range(first, min(first + group_rows, n_rows))
            table = build_shard(
                documents.values, documents.offsets, documents.doc_ids, pieces,
                settings.sequence_length, tokenizer.pad_id, dtype, rows, metadata,
            )  # fmt: skip
            writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table)
        if writer:
            writer.close()
    facts: dict[str, Any] = {
        "rows": n_rows,
        "documents": len(documents.doc_ids),
        "tokens": unit.n_tokens,
        "padding": n_rows * settings.sequence_length - unit.n_tokens,
        "text_bytes": int(documents.n_bytes.sum()),
        "pieces": len(pieces.row),
        "parts": [path.rpartition("/")[2].removesuffix(".parquet") for path, _, _ in unit.ranges],
    }
    done = Done(unit.name, {"shard": file.output}, {}, facts)
    record_done(folder, unit.place, done)
    report(facts["documents"], facts["text_bytes"], facts["tokens"])
    return done
