"""Why this document: find it among the verdicts, then follow it to its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.config import Config
from tamiz.decide.rules import Rule
from tamiz.errors import ConfigError, StoreError
from tamiz.measure.normal import scan_normal_words
from tamiz.pack.decode import decode_documents, make_token_bytes, strip_boundaries
from tamiz.report.story import Duplicate, Found, Measured, Piece, Story
from tamiz.run.ledger import read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.texts import Library, open_library, parse_origin, read_kept, read_library, read_texts
from tamiz.run.tokens import TokenSettings, open_tokenizer
from tamiz.run.verdicts import Verdicts, map_parts, open_verdicts
from tamiz.schema import I32, U64, view_text
from tamiz.store import Folder

_SHINGLE = 3  # words in a row that a text found by --near must share
_NEAREST = 5


def find_document(folder: Folder, doc_id: str | None, url: str | None) -> bytes:
    """The doc_id of the one document with this id (or its first digits) or URL; ConfigError if none or several."""
    _, verdicts = open_verdicts(folder)
    if doc_id is not None:
        prefix = _parse_prefix(doc_id)
        matches = [
            name for part in map_parts(verdicts.parts, lambda p: _match_id(verdicts, p, prefix)) for name in part
        ]
    else:
        matches = [name for part in map_parts(verdicts.parts, lambda p: _match_url(verdicts, p, url)) for name in part]
    what = f"--id {doc_id}" if doc_id is not None else f"--url {url}"
    if not matches:
        raise ConfigError(f"{what}: no document read so far has it; --near finds one by its text")
    if len(matches) > 1:
        names = ", ".join(name.hex() for name in matches[:8])
        raise ConfigError(f"{what}: {len(matches)} documents have it; choose by --id: {names}")
    return matches[0]


def _parse_prefix(doc_id: str) -> bytes:
    digits = doc_id.strip().lower()
    if not 6 <= len(digits) <= 32 or len(digits) % 2 or set(digits) - set("0123456789abcdef"):
        raise ConfigError(f"--id {doc_id!r}: 32 hexadecimal digits, or an even number of its first ones, at least 6")
    return bytes.fromhex(digits)


def _match_id(verdicts: Verdicts, part: Any, prefix: bytes) -> list[bytes]:
    found = []
    for batch in verdicts.read(part, ["doc_id"]):
        column = batch.column("doc_id")
        rows = np.frombuffer(column.buffers()[1], dtype=np.uint8)[16 * column.offset :][: 16 * len(column)]
        same = (rows.reshape(-1, 16)[:, : len(prefix)] == np.frombuffer(prefix, dtype=np.uint8)).all(axis=1)
        found += column.filter(pa.array(same)).to_pylist()
    return found


def _match_url(verdicts: Verdicts, part: Any, url: str | None) -> list[bytes]:
    found = []
    for batch in verdicts.read(part, ["doc_id", "url"]):
        found += batch.column("doc_id").filter(pc.equal(batch.column("url"), url)).to_pylist()
    return found


def find_near(folder: Folder, text: str) -> list[Found]:
    """The documents that share the most 3-word sequences with `text` (case and punctuation ignored), best first.

    Local sources are read again, so that rejected documents are found too; of a Hub source, only what was kept.
    """
    config, verdicts = open_verdicts(folder)
    library = open_library(folder, config)
    wanted = _hash_shingles(pa.array([text], type=pa.large_string()), _SHINGLE)[1]
    n = _SHINGLE
    while not len(wanted) and n > 1:  # fewer words than that
        n -= 1
        wanted = _hash_shingles(pa.array([text], type=pa.large_string()), n)[1]
    wanted = np.unique(wanted)
    if not len(wanted):
        raise ConfigError(f"--near {text!r}: no words to look for")
    best: list[Found] = []
    for batch in _read_all(folder, library, verdicts):
        best = sorted([*best, *_rank(batch, wanted, n)], key=lambda found: (-found.share, found.doc_id))[:_NEAREST]
    return [found for found in best if found.share >= best[0].share / 2]


def _read_all(folder: Folder, library: Library, verdicts: Verdicts) -> Any:
    """Batches with doc_id, origin, url, text of everything that can be read without the network."""
    remote = [name for name in library.specs if not library.is_local(name)]
    yield from read_library(library)
    for part in verdicts.parts if remote else []:
        if part.facts["source"] in remote:
            with folder.open(part.outputs["kept"].path) as file:
                yield from pq.ParquetFile(file).iter_batches(
                    1024, columns=["doc_id", "origin", "url", "text"], use_threads=False
                )


def _rank(batch: pa.RecordBatch, wanted: U64, n: int) -> list[Found]:
    rows, shingles = _hash_shingles(batch.column("text"), n)
    hits = np.isin(shingles, wanted)
    pairs = np.unique(np.stack([rows[hits].astype(np.uint64), shingles[hits]]), axis=1)
    counts = np.bincount(pairs[0].astype(np.int64), minlength=len(batch))
    found = []
    for row in np.argsort(-counts, kind="stable")[:_NEAREST]:
        if counts[row]:
            doc_id, origin, url, text = (batch.column(c)[int(row)].as_py() for c in ("doc_id", "origin", "url", "text"))
            found.append(Found(counts[row] / len(wanted), doc_id.hex(), origin, url, text[:300]))
    return found


def _hash_shingles(text: pa.LargeStringArray, n: int) -> tuple[Any, U64]:
    """Row and 64-bit hash of every `n` normalised words in a row."""
    offsets, data = view_text(text)
    words = scan_normal_words(offsets, data)
    starts = np.arange(max(len(words.hashes) - n + 1, 0))
    row = np.searchsorted(words.doc_offsets, starts, side="right") - 1
    inside = starts + n <= words.doc_offsets[row + 1] if len(starts) else starts.astype(np.bool_)
    mixed = np.zeros(len(starts), dtype=np.uint64)
    for i in range(n):
        mixed = (mixed * np.uint64(0x9E3779B97F4A7C15)) ^ words.hashes[i : len(words.hashes) - n + 1 + i]
        mixed ^= mixed >> np.uint64(29)
    return row[inside], mixed[inside]


def tell_story(folder: Folder, doc_id: bytes, cache_dir: Path) -> Story:
    """The whole story of one document. Raises ConfigError when no verdict has its id."""
    config, verdicts = open_verdicts(folder)
    row = next((row for part in verdicts.parts if (row := _read_verdict(verdicts, part, doc_id))), None)
    if row is None:
        raise ConfigError(f"--id {doc_id.hex()}: no document read so far has it")
    record = read_plan_record(folder) or {}
    origin = parse_origin(row["source"], row["origin"])
    kept = read_kept(folder, verdicts.parts, [doc_id]).get(doc_id)
    duplicate = _find_duplicate(folder, verdicts, record, doc_id) if kept else None
    tokens = _find_tokens(folder, record, doc_id) if kept and not duplicate else None
    pieces = _find_pieces(folder, record, doc_id) if tokens else []
    outcome = row["outcome"]
    if outcome == "kept":
        outcome = "duplicate" if duplicate else "packed" if pieces else "kept"
    return Story(
        doc_id=doc_id.hex(),
        source=row["source"],
        origin=row["origin"],
        url=row["url"],
        n_bytes=row["n_bytes"],
        outcome=outcome,
        quarantine=row["quarantine"],
        measured=_list_measured(verdicts, row),
        failed=row["failed"],
        read=_read_again(folder, config, origin),
        kept=kept[1] if kept else None,
        duplicate=duplicate,
        pieces=pieces,
        n_tokens=tokens["n_tokens"] if tokens else None,
        is_holdout=bool(tokens and tokens["is_holdout"]),
        decoded=_decode(record, cache_dir, np.array(tokens["input_ids"], dtype=np.int32)) if tokens else None,
    )


def _read_verdict(verdicts: Verdicts, part: Any, doc_id: bytes) -> dict[str, Any] | None:
    first = 0
    for batch in verdicts.read(part, ["doc_id"]):
        place = pc.index(batch.column("doc_id"), pa.scalar(doc_id, pa.binary(16))).as_py()
        if place >= 0:
            with verdicts.folder.open(part.outputs["verdicts"].path) as file:
                names = pq.read_schema(file).names
            return verdicts.read_row(part, first + place, names)
        first += len(batch)
    return None


def _read_again(folder: Folder, config: Config, origin: Any) -> str:
    return read_texts(open_library(folder, config), [origin])[origin]


def _list_measured(verdicts: Verdicts, row: dict[str, Any]) -> list[Measured]:
    names = list(row)
    metrics = names[names.index("n_bytes") + 1 : names.index("failed")]
    return [
        Measured(
            metric,
            row[metric],
            [(r.name, _show_rule(r), r.name in row["failed"]) for r in verdicts.rules if r.metric == metric],
        )
        for metric in metrics
    ]


def _show_rule(rule: Rule) -> str:
    if rule.labels:
        return f"one of {', '.join(rule.labels)}"
    return {"below": "at least", "above": "at most", "not_above": "above"}[rule.fails] + f" {rule.bound:g}"


def _find_duplicate(folder: Folder, verdicts: Verdicts, record: dict[str, Any], doc_id: bytes) -> Duplicate | None:
    done = read_done(folder, record["places"]["dedup"]).get("duplicates")
    if done is None:
        return None
    with folder.open(done.outputs["duplicates"].path) as file:
        for batch in pq.ParquetFile(file).iter_batches(use_threads=False):
            rows = batch.filter(pc.equal(batch.column("doc_id"), pa.scalar(doc_id, pa.binary(16)))).to_pylist()
            if rows:
                return _describe_winner(folder, verdicts, rows[0])
    return None


def _describe_winner(folder: Folder, verdicts: Verdicts, row: dict[str, Any]) -> Duplicate:
    """`row` is of DUPLICATES. An older run may have lost its texts, or be gone."""
    kind, n_bands, winner, run = row["kind"], row["n_bands"], row["lost_to"], row["lost_to_run"]
    if winner is None:
        return Duplicate(kind, n_bands, None, None, None, None, None, None)
    origin, url, text = None, None, None
    try:
        if run is not None:
            folder = Folder(run)
            _, verdicts = open_verdicts(folder)
        url = next((r["url"] for part in verdicts.parts if (r := _read_verdict(verdicts, part, winner))), None)
        origin, text = read_kept(folder, verdicts.parts, [winner]).get(winner, (None, None))
    except (ConfigError, StoreError):
        if run is None:
            raise
    return Duplicate(kind, n_bands, row["similarity"], winner.hex(), run, origin, url, text)


def _find_tokens(folder: Folder, record: dict[str, Any], doc_id: bytes) -> dict[str, Any] | None:
    for done in read_done(folder, record["places"]["tokens"]).values():
        with folder.open(done.outputs["tokens"].path) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):
                names = parquet.read_row_group(group, columns=["doc_id"], use_threads=False).column(0)
                place = pc.index(names, pa.scalar(doc_id, pa.binary(16))).as_py()
                if place >= 0:
                    return dict(parquet.read_row_group(group, use_threads=False).slice(place, 1).to_pylist()[0])
    return None


def _find_pieces(folder: Folder, record: dict[str, Any], doc_id: bytes) -> Sequence[Piece]:
    """In order of their numbers; all pieces of a document are in one shard."""
    for done in read_done(folder, record["places"]["pack"]).values():
        pieces: list[tuple[int, Piece]] = []
        first_row = 0
        path = done.outputs["shard"].path
        with folder.open(path) as file:
            for batch in pq.ParquetFile(file).iter_batches(
                1024, columns=["seq_lens", "doc_ids", "piece"], use_threads=False
            ):
                names = batch.column("doc_ids")
                hits = pc.fill_null(pc.equal(names.flatten(), pa.scalar(doc_id, pa.binary(16))), False)
                for at in np.flatnonzero(hits.to_numpy(zero_copy_only=False)):
                    row = (
                        int(np.searchsorted(names.offsets.to_numpy() - names.offsets[0].as_py(), at, side="right")) - 1
                    )
                    lengths = batch.column("seq_lens")[row].as_py()
                    place = int(at) - (names.offsets[row].as_py() - names.offsets[0].as_py())
                    first = sum(lengths[:place])
                    number = batch.column("piece")[row].as_py()[place]
                    pieces.append((number, Piece(path, first_row + row, first, first + lengths[place])))
                first_row += len(batch)
        if pieces:
            return [piece for _, piece in sorted(pieces)]
    return []


def _decode(record: dict[str, Any], cache_dir: Path, values: I32) -> str | None:
    """What the tokens spell, without BOS and EOS; None when the tokenizer does not spell bytes."""
    tokenizer = open_tokenizer(TokenSettings(**{**record["tokens"], "cache_dir": str(cache_dir)}))
    if not tokenizer.is_lossless:
        return None
    bos_id = tokenizer.bos_id if record["tokens"]["bos"] else None
    inner, offsets = strip_boundaries(values, np.array([0, len(values)], dtype=np.int64), bos_id, tokenizer.eos_id)
    decoded: bytes = decode_documents(make_token_bytes(tokenizer), inner, offsets)[0].as_py()
    return decoded.decode("utf-8", "replace")
