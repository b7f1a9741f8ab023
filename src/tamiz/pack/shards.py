"""Tokens and pieces to SHARD tables: the boundaries of documents, the holdout, the rows.

Everything here is a pure function of its arguments: the same documents give the same bytes for any number of workers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from tamiz.errors import ConfigError, SchemaError
from tamiz.pack.fill import Pieces
from tamiz.schema import DOC_ID, I32, I64, U8, U64, make_shard_schema

ROW_GROUP_TOKENS = 4_194_304  # per row group: 16 MB as int32, so that a reader's memory does not depend on shard_tokens
UINT16_VOCABULARY = 65_536


def count_group_rows(sequence_length: int) -> int:
    """Rows in a row group of a shard, for the writer; also the rows in a chunk of the tables of `build_shard`."""
    return max(1, ROW_GROUP_TOKENS // sequence_length)


def choose_dtype(n_vocab: int, wanted: str) -> pa.DataType:
    """The type of input_ids: `wanted` is "uint16", "int32" or "auto" (uint16 when every id fits).

    Raises ConfigError naming pack.dtype when the vocabulary does not fit, or for another value.
    """
    if wanted == "int32" or (wanted == "auto" and n_vocab > UINT16_VOCABULARY):
        return pa.int32()
    if wanted not in ("auto", "uint16"):
        raise ConfigError(f"pack.dtype: {wanted!r} is not one of auto, uint16, int32")
    if n_vocab > UINT16_VOCABULARY:
        raise ConfigError(
            f"pack.dtype: uint16 holds {UINT16_VOCABULARY:,} ids, the tokenizer has {n_vocab:,}; use int32 or auto"
        )
    return pa.uint16()


def add_boundaries(values: I32, offsets: I64, bos_id: int | None, eos_id: int) -> tuple[I32, I64]:
    """The same documents with EOS after each, and BOS before each unless `bos_id` is None.

    values int32[], offsets int64[n + 1] as the tokenizer gives them (offsets[0] may be a slice's); copies.
    """
    return _add_boundaries(values, offsets, np.int64(-1 if bos_id is None else bos_id), np.int64(eos_id))


def is_holdout(doc_ids: pa.FixedSizeBinaryArray, seed: int, fraction: float) -> npt.NDArray[np.bool_]:
    """bool[n]: whether a document goes to validation; each does with probability `fraction`, 0 none, 1 all.

    Decided by a hash of doc_id keyed by the seed (two rounds of splitmix64's finaliser, Steele et al. 2014), so that it
    depends on nothing else: not on the order, the other documents or the number of workers.
    """
    halves = view_doc_ids(doc_ids).view("<u8").reshape(-1, 2)
    digest = hashlib.blake2b(f"holdout:{seed}".encode(), digest_size=8).digest()
    key = np.uint64(int.from_bytes(digest, "little"))
    mixed = _mix_bits(_mix_bits(halves[:, 0] ^ key) ^ halves[:, 1])
    unit = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53  # uniform on [0, 1), as random number generators do
    return np.asarray(unit < fraction)


def make_shard_metadata(
    *,
    tokenizer: str,
    tokenizer_fingerprint: str,
    n_vocab: int,
    bos_id: int | None,
    eos_id: int,
    pad_id: int,
    sequence_length: int,
    strategy: str,
    config_fingerprint: str,
) -> dict[str, str]:
    """The schema metadata of a shard. `tamiz.bos_id` is the empty string when documents have no BOS."""
    return {
        "tamiz.tokenizer": tokenizer,
        "tamiz.tokenizer_fingerprint": tokenizer_fingerprint,
        "tamiz.n_vocab": str(n_vocab),
        "tamiz.bos_id": "" if bos_id is None else str(bos_id),
        "tamiz.eos_id": str(eos_id),
        "tamiz.pad_id": str(pad_id),
        "tamiz.sequence_length": str(sequence_length),
        "tamiz.strategy": strategy,
        "tamiz.config_fingerprint": config_fingerprint,
    }


def build_shard(
    values: I32,
    offsets: I64,
    doc_ids: pa.FixedSizeBinaryArray,
    pieces: Pieces,
    sequence_length: int,
    pad_id: int,
    dtype: pa.DataType,
    rows: range | None = None,
    metadata: dict[str, str] | None = None,
) -> pa.Table:
    """The SHARD table of `rows` (consecutive; all by default), one chunk per `count_group_rows` rows.

    Document i is values[offsets[i]:offsets[i + 1]] and doc_ids[i]; `pieces` comes from one of the fill functions over
    np.diff(offsets). A row with fewer than `sequence_length` tokens ends in a padding piece with a null doc_id. Raises
    SchemaError when a piece lies outside its document: the kernel would copy some other memory.
    """
    if np.any(pieces.start + pieces.length > np.diff(offsets)[pieces.document]):
        raise SchemaError("build_shard: pieces reach past the end of their documents; they belong to other lengths")
    schema = make_shard_schema(dtype, metadata)
    n_rows = int(pieces.row[-1]) + 1 if len(pieces.row) else 0
    rows = range(n_rows) if rows is None else rows
    step = count_group_rows(sequence_length)
    identity = view_doc_ids(doc_ids)
    batches = []
    for first in range(rows.start, rows.stop, step):
        past = min(first + step, rows.stop)
        of_rows = slice(*np.searchsorted(pieces.row, (first, past)))
        chunk = _slice_pieces(pieces, of_rows)
        batches.append(
            _build_rows(values, offsets, identity, chunk, range(first, past), sequence_length, pad_id, schema)
        )
    return pa.Table.from_batches(batches, schema=schema)


def view_doc_ids(doc_ids: pa.FixedSizeBinaryArray) -> U8:
    """uint8[n, 16] over the ids without copying; a null id shows whatever bytes are there."""
    if len(doc_ids) == 0:
        return np.zeros((0, 16), dtype=np.uint8)
    data = np.frombuffer(doc_ids.buffers()[1], dtype=np.uint8)
    data.flags.writeable = False  # as buffers read from Parquet are: one compiled kernel instead of two
    return data[doc_ids.offset * 16 : (doc_ids.offset + len(doc_ids)) * 16].reshape(-1, 16)


def _slice_pieces(pieces: Pieces, span: slice) -> Pieces:
    row, document, piece, start, length = pieces
    return Pieces(row[span], document[span], piece[span], start[span], length[span])


def _build_rows(
    values: I32,
    offsets: I64,
    identity: U8,
    pieces: Pieces,
    rows: range,
    sequence_length: int,
    pad_id: int,
    schema: pa.Schema,
) -> pa.RecordBatch:
    dtype = schema.field("input_ids").type.value_type
    ids = np.full(len(rows) * sequence_length, pad_id, dtype=dtype.to_pandas_dtype())
    starts, lengths, numbers, names, is_null = _lay_rows(
        values, offsets, identity, *pieces, np.int64(rows.start), np.int64(len(rows)), np.int64(sequence_length), ids
    )
    row_starts = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(sequence_length)
    validity = pa.array(~is_null).buffers()[1] if is_null.any() else None
    buffers = [validity, pa.py_buffer(names)]
    flat_names = pa.FixedSizeBinaryArray.from_buffers(DOC_ID, len(is_null), buffers)
    columns = [
        _make_lists(row_starts, pa.array(ids)),
        _make_lists(starts, pa.array(lengths)),
        _make_lists(starts, flat_names),
        _make_lists(starts, pa.array(numbers)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _make_lists(starts: I32, flat: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(starts), flat)


@njit(cache=True, nogil=True)
def _lay_rows(
    values: I32,
    offsets: I64,
    identity: U8,
    row: I64,
    document: I64,
    piece: I32,
    start: I64,
    length: I32,
    first_row: np.int64,
    n_rows: np.int64,
    sequence_length: np.int64,
    ids: npt.NDArray[Any],
) -> tuple[I32, I32, I32, U8, npt.NDArray[np.bool_]]:
    """Copy tokens into `ids` (already full of padding) and list the pieces with the padding pieces among them:
    starts int32[n_rows + 1], lengths int32[m], numbers int32[m], names uint8[m * 16], is_null bool[m]."""
    most = row.shape[0] + n_rows
    starts = np.zeros(n_rows + 1, dtype=np.int32)
    lengths = np.zeros(most, dtype=np.int32)
    numbers = np.zeros(most, dtype=np.int32)
    names = np.zeros(most * 16, dtype=np.uint8)
    is_null = np.zeros(most, dtype=np.bool_)
    k = np.int64(0)
    m = np.int64(0)
    for r in range(n_rows):
        filled = np.int64(0)
        while k < row.shape[0] and row[k] == first_row + r:
            source = offsets[document[k]] + start[k]
            target = r * sequence_length + filled
            for t in range(length[k]):
                ids[target + t] = values[source + t]
            for b in range(16):
                names[m * 16 + b] = identity[document[k], b]
            lengths[m] = length[k]
            numbers[m] = piece[k]
            filled += length[k]
            k += 1
            m += 1
        if filled < sequence_length:
            lengths[m] = np.int32(sequence_length - filled)
            is_null[m] = True
            m += 1
        starts[r + 1] = np.int32(m)
    return starts, lengths[:m], numbers[:m], names[: m * 16], is_null[:m]


@njit(cache=True, nogil=True)
def _add_boundaries(values: I32, offsets: I64, bos_id: np.int64, eos_id: np.int64) -> tuple[I32, I64]:
    n = offsets.shape[0] - 1
    extra = np.int64(2 if bos_id >= 0 else 1)
    out = np.empty(offsets[n] - offsets[0] + n * extra, dtype=np.int32)
    starts = np.empty(n + 1, dtype=np.int64)
    at = np.int64(0)
    for i in range(n):
        starts[i] = at
        if bos_id >= 0:
            out[at] = np.int32(bos_id)
            at += 1
        for k in range(offsets[i], offsets[i + 1]):
            out[at] = values[k]
            at += 1
        out[at] = np.int32(eos_id)
        at += 1
    starts[n] = at
    return out, starts


def _mix_bits(x: U64) -> U64:
    """splitmix64's step and finaliser; uint64 arrays wrap as it needs."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
