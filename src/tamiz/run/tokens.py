"""The first half of pack: one unit per part turns its surviving documents into tokens.

Token files stay on disk, so that another sequence length or strategy packs again without reading a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.pack.shards import add_boundaries, is_holdout
from tamiz.pack.tokenizer import Tokenizer, check_agreement, load_tokenizer
from tamiz.run.dedup import read_copies, read_duplicate_rows
from tamiz.run.engine import Report
from tamiz.run.layout import KeptPart
from tamiz.run.ledger import Done, record_done
from tamiz.schema import I32, I64, KEPT, TOKENS, check_batch
from tamiz.store import Folder

LENGTHS = pa.schema([TOKENS.field(name) for name in ("n_tokens", "is_holdout", "repetition")])
_AGREEMENT_DOCUMENTS = 64  # of a run's first part are tokenized by a second library too


@dataclass(frozen=True)
class TokenSettings:
    """What turns text into tokens. `cache_dir`: where a converted tokenizer is kept."""

    tokenizer: str
    eos: str | None
    bos: bool
    holdout: float
    seed: int
    cache_dir: str


@dataclass(frozen=True)
class TokensUnit:
    """Tokenize the documents of one part that are not in `duplicates`; `is_checked`: compare a sample of the ids with
    those of a second library, which takes seconds to load and so is done in one part of a run.

    `repeat`: (n_copies from which on, times a training document is packed), ascending; `copies`: where n_copies are.
    """

    folder: str
    place: str
    settings: TokenSettings
    part: KeptPart
    duplicates: str
    copies: str
    repeat: tuple[tuple[int, int], ...]
    is_checked: bool

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return self.part.name

    def __str__(self) -> str:
        return f"tokens of {self.part.name}"


@cache
def open_tokenizer(settings: TokenSettings) -> Tokenizer:
    """One tokenizer per process."""
    return load_tokenizer(settings.tokenizer, Path(settings.cache_dir), settings.eos)


def make_tokens(unit: TokensUnit, report: Report) -> Done:
    """Work one unit: publish TOKENS, training documents first, and count them.

    The lengths lie in a small file of their own too: planning shards reads those of all parts, and from an object store
    two thin columns of a large file cost as much as the whole.
    """
    folder = Folder(unit.folder)
    tokenizer = open_tokenizer(unit.settings)
    tally = {f"{what}/{which}": 0 for what in ("documents", "bytes", "tokens") for which in ("train", "validation")}
    tally |= dict.fromkeys(("documents/repeated", "bytes/repeated", "tokens/repeated"), 0)
    held: list[pa.Table] = []
    repeated: list[pa.Table] = []
    lengths: list[pa.Table] = []
    times = _read_times(folder, unit)
    with (
        folder.publish(f"{unit.place}/{unit.name}.parquet") as file,
        pq.ParquetWriter(file, TOKENS, compression="zstd", compression_level=1) as writer,
    ):
        for kept, rows in _read_survivors(folder, unit):
            if unit.is_checked and not held:
                check_agreement(tokenizer, _join(kept.column("text")).slice(0, _AGREEMENT_DOCUMENTS))
            table = _tokenize(tokenizer, unit.settings, kept)
            held_out = table.column("is_holdout")
            held.append(table.filter(held_out))
            if times is not None:
                repeated.append(_mark_repeated(table, times[rows]))
            trained = table.filter(pc.invert(held_out))
            writer.write_table(trained)
            lengths.append(trained.select(LENGTHS.names))
            _count(tally, table)
            report(len(table), pc.sum(table.column("n_bytes")).as_py() or 0, _sum_tokens(table))
        writer.write_table(pa.concat_tables([TOKENS.empty_table(), *held]))
        lengths += [table.select(LENGTHS.names) for table in held]
        n_repetitions = 0
        for table in _list_repetitions(repeated):
            writer.write_table(table)
            lengths.append(table.select(LENGTHS.names))
            _count_repeated(tally, table)
            n_repetitions += 1
    with folder.publish(f"{unit.place}/{unit.name}.lengths.parquet") as lengths_file:
        pq.write_table(pa.concat_tables([LENGTHS.empty_table(), *lengths]), lengths_file, compression="zstd")
    outputs = {"tokens": file.output, "lengths": lengths_file.output}
    done = Done(unit.name, outputs, tally, {"repetitions": n_repetitions})
    record_done(folder, unit.place, done)
    return done


def _read_times(folder: Folder, unit: TokensUnit) -> I64 | None:
    """int64[n_kept]: how often each document of the part is packed; None when each once."""
    if not unit.repeat:
        return None
    copies = read_copies(folder, unit.copies, unit.name, unit.part.n_kept)
    steps = np.searchsorted([n_copies for n_copies, _ in unit.repeat], copies, side="right")
    times: I64 = np.array([1, *(t for _, t in unit.repeat)], dtype=np.int64)[steps]
    return times


def _mark_repeated(table: pa.Table, times: I64) -> pa.Table:
    """The training documents packed more than once; `repetition` holds the number of further times."""
    chosen = (times > 1) & ~table.column("is_holdout").to_numpy()
    place = TOKENS.names.index("repetition")
    more = table.set_column(place, TOKENS.field(place), pa.array((times - 1).astype(np.int32)))
    return more.filter(pa.array(chosen))


def _list_repetitions(repeated: list[pa.Table]) -> Iterator[pa.Table]:
    """The first repetitions of all, then the second of those that have one...: a copy is far from the last."""
    table = pa.concat_tables([TOKENS.empty_table(), *repeated])
    place = TOKENS.names.index("repetition")
    number = 1
    while len(table := table.filter(pc.greater_equal(table.column("repetition"), number))):
        yield table.set_column(place, TOKENS.field(place), pa.array(np.full(len(table), number, dtype=np.int32)))
        number += 1


def _count_repeated(tally: dict[str, int], table: pa.Table) -> None:
    tally["documents/repeated"] += len(table)
    tally["bytes/repeated"] += pc.sum(table.column("n_bytes")).as_py() or 0
    tally["tokens/repeated"] += _sum_tokens(table)


def _read_survivors(folder: Folder, unit: TokensUnit) -> Iterator[tuple[pa.Table, I64]]:
    """KEPT without the duplicates, and the rows it has in KEPT, a row group at a time."""
    lost = read_duplicate_rows(folder, unit.duplicates, unit.name)
    first = 0
    with folder.open(unit.part.kept) as file:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            batch = parquet.read_row_group(
                group, columns=["doc_id", "text", "n_bytes"], use_threads=False
            ).combine_chunks()
            survives = np.ones(len(batch), dtype=np.bool_)
            survives[lost[(lost >= first) & (lost < first + len(batch))] - first] = False
            yield batch.filter(pa.array(survives)), np.flatnonzero(survives) + first
            first += len(batch)


def _join(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _tokenize(tokenizer: Tokenizer, settings: TokenSettings, kept: pa.Table) -> pa.Table:
    values, offsets = tokenizer.encode(_join(kept.column("text")))
    bos_id = tokenizer.bos_id if settings.bos else None
    values, offsets = add_boundaries(values, offsets, bos_id, tokenizer.eos_id)
    columns = [
        kept.column("doc_id"),
        kept.column("n_bytes"),
        pa.array(np.diff(offsets).astype(np.int32)),
        pa.array(is_holdout(_join(kept.column("doc_id")), settings.seed, settings.holdout)),
        pa.array(np.zeros(len(kept), dtype=np.int32)),
        pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values)),
    ]
    table = pa.Table.from_arrays(columns, schema=TOKENS)
    check_batch(table, TOKENS, "tokenizer -> pack")
    return table


def _count(tally: dict[str, int], table: pa.Table) -> None:
    held = table.column("is_holdout").to_numpy()
    for which, chosen in (("train", ~held), ("validation", held)):
        tally[f"documents/{which}"] += int(chosen.sum())
        tally[f"bytes/{which}"] += int(table.column("n_bytes").to_numpy()[chosen].sum())
        tally[f"tokens/{which}"] += int(table.column("n_tokens").to_numpy()[chosen].astype(np.int64).sum())


def _sum_tokens(table: pa.Table) -> int:
    return int(table.column("n_tokens").to_numpy().astype(np.int64).sum())


@dataclass(frozen=True)
class Documents:
    """Consecutive documents: doc_ids, and tokens values int32[] with offsets int64[n + 1]."""

    doc_ids: pa.FixedSizeBinaryArray
    n_bytes: I64
    values: I32
    offsets: I64


def read_documents(folder: Folder, ranges: tuple[tuple[str, int, int], ...], n_tokens: int) -> Documents:
    """The documents in `ranges` ((tokens file, first row, past row)...), `n_tokens` in all; reads their row groups."""
    values = np.empty(n_tokens, dtype=np.int32)
    lengths, doc_ids, sizes, filled = [], [], [], 0
    for path, first, past in ranges:
        with folder.open(path) as file:
            for table in _read_rows(pq.ParquetFile(file), first, past):
                ids = table.column("input_ids").combine_chunks().flatten().to_numpy()
                values[filled : filled + len(ids)] = ids
                filled += len(ids)
                lengths.append(table.column("n_tokens").to_numpy())
                sizes.append(table.column("n_bytes").to_numpy())
                doc_ids.append(table.column("doc_id").combine_chunks())
    offsets = np.zeros(sum(map(len, lengths)) + 1, dtype=np.int64)
    np.cumsum(np.concatenate([np.zeros(0, dtype=np.int64), *lengths]), out=offsets[1:])
    identity = pa.chunked_array(doc_ids, type=KEPT.field("doc_id").type).combine_chunks()
    return Documents(identity, np.concatenate([np.zeros(0, dtype=np.int64), *sizes]), values, offsets)


def _read_rows(file: pq.ParquetFile, first: int, past: int) -> Iterator[pa.Table]:
    start = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        if start < past and start + n_rows > first:
            low, high = max(first - start, 0), min(past - start, n_rows)
            yield file.read_row_group(group, use_threads=False).slice(low, high - low)
        start += n_rows
