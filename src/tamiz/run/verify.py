"""Re-read a finished corpus and hold every shard against the manifest, the format, and the texts it was made from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.errors import ConfigError, StoreError
from tamiz.pack.decode import (
    TokenBytes,
    check_shard,
    decode_documents,
    make_token_bytes,
    read_documents,
    strip_boundaries,
)
from tamiz.pack.tokenizer import Tokenizer
from tamiz.run.corpus import MANIFEST
from tamiz.run.layout import KeptPart
from tamiz.run.ledger import read_done
from tamiz.run.pack import CORPUS
from tamiz.run.plan import read_plan_record
from tamiz.run.sift import list_kept
from tamiz.run.tokens import TokenSettings, open_tokenizer
from tamiz.store import Folder, Output

_SLICE_TOKENS = 20_000_000  # decoded at once: 100 MB of text


class Verified(NamedTuple):
    """What was looked at, and every problem found, one sentence each."""

    files: int
    documents: int
    tokens: int
    problems: list[str]


class _Context(NamedTuple):
    folder: Folder
    manifest: dict[str, Any]
    tokenizer: Tokenizer
    spelling: TokenBytes | None


def verify_corpus(folder: Folder, cache_dir: Path) -> Verified:
    """Check checksums, ids, boundaries, counts against the manifest, and that tokens give back every packed text.

    Raises ConfigError when there is no finished corpus to verify.
    """
    record = read_plan_record(folder)
    if record is None or not folder.exists(MANIFEST):
        raise ConfigError(f"{folder.url}: no finished corpus to verify (no {MANIFEST}); run `tamiz build` first")
    manifest = json.loads(folder.read_bytes(MANIFEST))
    tokenizer = open_tokenizer(TokenSettings(**{**record["tokens"], "cache_dir": str(cache_dir)}))
    if tokenizer.fingerprint != manifest["tokenizer"]["sha256"]:
        raise ConfigError(
            f"pack.tokenizer: {tokenizer.name!r} has SHA-256 {tokenizer.fingerprint[:16]}..., the corpus was made with "
            f"{manifest['tokenizer']['sha256'][:16]}...; put the tokenizer of the build in its place"
        )
    spelling = make_token_bytes(tokenizer) if tokenizer.is_lossless else None
    context = _Context(folder, manifest, tokenizer, spelling)
    problems = list(_check_files(context))
    published = read_done(folder, record["places"].get("lines", record["places"]["sift"])).values()
    kept = {part.name: part for part in list_kept([part for part in published if "kept" in part.outputs])}
    shards = read_done(folder, record["places"]["pack"])
    documents = tokens = 0
    for entry in manifest["files"]:
        done = shards.get(entry["path"].removesuffix(".parquet"))
        parts = [kept[name] for name in (done.facts["parts"] if done else kept) if name in kept]
        shard = _verify_shard(context, entry, parts)
        problems += [f"{entry['path']}: {problem}" for problem in shard.problems]
        documents += shard.documents
        tokens += shard.tokens
    for what, seen in (("documents", documents), ("tokens", tokens)):
        expected = manifest[what]["packed"] + manifest["repeated"][what]
        if seen != expected:
            problems.append(f"manifest says {expected:,} {what} packed, the shards hold {seen:,}")
    return Verified(len(manifest["files"]), documents, tokens, problems)


def _check_files(context: _Context) -> Iterator[str]:
    """Every file of the manifest is there with its checksum, and no shard is there that it does not name."""
    named = {f"{CORPUS}/{entry['path']}" for entry in context.manifest["files"]}
    there = {path for path in context.folder.list(f"{CORPUS}/") if path.endswith(".parquet")}
    yield from (f"{path}: not in the manifest" for path in sorted(there - named))
    for entry in context.manifest["files"]:
        try:
            context.folder.check(Output(f"{CORPUS}/{entry['path']}", entry["n_bytes"], entry["sha256"]))
        except StoreError as error:
            yield str(error)


def _read_texts(folder: Folder, parts: Sequence[KeptPart], doc_ids: pa.Array) -> pa.Table:
    """doc_id and text of those of `doc_ids` that these parts kept; reads the texts of the row groups they are in."""
    found = []
    for part in parts:
        with folder.open(part.kept) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):
                own = parquet.read_row_group(group, columns=["doc_id"], use_threads=False)
                mask = pc.is_in(own.column(0), value_set=doc_ids)
                if pc.any(mask).as_py():
                    table = parquet.read_row_group(group, columns=["doc_id", "text"], use_threads=False)
                    found.append(table.filter(mask))
    schema = pa.schema([pa.field("doc_id", doc_ids.type), pa.field("text", pa.large_string())])
    return pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in found)])


def _verify_shard(context: _Context, entry: dict[str, Any], parts: Sequence[KeptPart]) -> Verified:
    facts = context.manifest["tokenizer"]
    bos_id, eos_id = facts["bos_id"], facts["eos_id"]
    try:
        with context.folder.open(f"{CORPUS}/{entry['path']}") as file:
            table = pq.read_table(file, use_threads=False, pre_buffer=False)
    except (StoreError, pa.ArrowException, OSError) as error:
        return Verified(1, 0, 0, [f"cannot be read: {error}"])
    problems = check_shard(
        table,
        facts["n_vocab"],
        context.manifest["sequence_length"],
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=facts["pad_id"],
        is_repeated=context.manifest["repeated"]["documents"] > 0,
    )
    if problems:
        return Verified(1, 0, 0, problems)
    documents = read_documents(table, is_repeated=context.manifest["repeated"]["documents"] > 0)
    n_documents, n_tokens = len(documents.doc_ids), len(documents.values)
    seen = {"rows": len(table), "documents": n_documents, "tokens": n_tokens}
    problems += [
        f"{what}: manifest says {entry[what]:,}, the file has {n:,}" for what, n in seen.items() if entry[what] != n
    ]
    values, offsets = strip_boundaries(documents.values, documents.offsets, bos_id, eos_id)
    n_bytes = 0
    for first, past in _cut_slices(offsets):
        ids = documents.doc_ids.slice(first, past - first)
        kept = _read_texts(context.folder, parts, ids)
        order = pc.index_in(ids, value_set=kept.column("doc_id"))
        if order.null_count:
            problems.append(f"{order.null_count} documents are not among the kept ones")
            continue
        wanted = kept.column("text").take(order).combine_chunks()
        problems += _compare(context, values, offsets[first : past + 1], wanted, ids)
        n_bytes += pc.sum(pc.binary_length(wanted)).as_py() or 0
    if n_bytes != entry["text_bytes"] and not problems:
        problems.append(f"text_bytes: manifest says {entry['text_bytes']:,}, the texts have {n_bytes:,}")
    return Verified(1, n_documents, n_tokens, problems)


def _cut_slices(offsets: Any) -> Iterator[tuple[int, int]]:
    first, n = 0, len(offsets) - 1
    while first < n:
        past = int(np.searchsorted(offsets, offsets[first] + _SLICE_TOKENS, side="right")) - 1
        past = min(max(past, first + 1), n)
        yield first, past
        first = past


def _compare(context: _Context, values: Any, offsets: Any, wanted: pa.Array, ids: pa.Array) -> list[str]:
    """Decoded tokens against the texts; if the tokenizer loses bytes, the texts encoded again against the tokens."""
    if context.spelling is not None:
        decoded = decode_documents(context.spelling, values, offsets)
        same = pc.equal(decoded, wanted.cast(pa.large_binary())).to_numpy(zero_copy_only=False)
    else:
        again, starts = context.tokenizer.encode(wanted)
        same = np.array(
            [
                np.array_equal(again[starts[i] : starts[i + 1]], values[offsets[i] : offsets[i + 1]])
                for i in range(len(wanted))
            ],
            dtype=np.bool_,
        )
    wrong = np.flatnonzero(~same)
    if not len(wrong):
        return []
    return [f"{len(wrong)} documents do not decode to their text, first {ids[int(wrong[0])].as_py().hex()}"]
