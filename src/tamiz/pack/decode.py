"""SHARD tables back to documents, and what can be wrong with a shard.

This side shares no code with the one that fills and builds, so that `tamiz verify` compares two statements of one
format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from tamiz.errors import RunError, SchemaError
from tamiz.pack.tokenizer import Tokenizer
from tamiz.pack.vocabulary import spell_tokens
from tamiz.schema import DOC_ID, I32, I64, U8, U64, check_batch, make_shard_schema

BOOL = npt.NDArray[np.bool_]


class FlatPieces(NamedTuple):
    """The pieces of a SHARD table in order, padding included: one entry per piece."""

    values: I32  # the tokens of all rows, end to end
    row: I64
    start: I64  # in `values`, if every row's pieces sum to its length
    length: I32
    piece: I32
    is_padding: BOOL
    names: U8  # [m, 16], zeros for padding


class Documents(NamedTuple):
    """Documents in order of their first row: the tokens of document i are values[offsets[i]:offsets[i + 1]]."""

    doc_ids: pa.FixedSizeBinaryArray
    values: I32
    offsets: I64


class TokenBytes(NamedTuple):
    """The bytes of every id of a lossless tokenizer: data[offsets[i]:offsets[i + 1]]."""

    offsets: I64
    data: U8


def flatten_shard(table: pa.Table) -> FlatPieces:
    """The columns of a SHARD table as flat arrays."""
    length = _concatenate(table["seq_lens"]).astype(np.int32, copy=False)
    names, is_padding = _read_names(table["doc_ids"])
    counts = pc.list_value_length(table["seq_lens"]).to_numpy()
    return FlatPieces(
        values=_concatenate(table["input_ids"]).astype(np.int32, copy=False),
        row=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        start=np.cumsum(length, dtype=np.int64) - length,
        length=length,
        piece=_concatenate(table["piece"]).astype(np.int32, copy=False),
        is_padding=is_padding,
        names=names,
    )


def read_documents(table: pa.Table, *, is_repeated: bool = False) -> Documents:
    """The documents of a SHARD table that `check_shard` finds nothing wrong with, their pieces joined in order.

    Tokens are as packed, BOS and EOS included. With `is_repeated` a document may be there several times.
    """
    flat = flatten_shard(table)
    kept = np.flatnonzero(~flat.is_padding)
    document, n_documents = _number_documents(flat.names[kept], flat.piece[kept] if is_repeated else None)
    order = np.lexsort((flat.piece[kept], document))
    kept, document = kept[order], document[order]
    values, starts = _gather(flat.values, flat.start[kept], flat.start[kept] + flat.length[kept])
    firsts = np.searchsorted(document, np.arange(n_documents + 1))
    names = np.ascontiguousarray(flat.names[kept[firsts[:-1]]])
    doc_ids = pa.FixedSizeBinaryArray.from_buffers(DOC_ID, n_documents, [None, pa.py_buffer(names)])
    return Documents(doc_ids, values, starts[firsts])


def strip_boundaries(values: I32, offsets: I64, bos_id: int | None, eos_id: int) -> tuple[I32, I64]:
    """The same documents without their EOS, and BOS unless `bos_id` is None. Raises RunError if one lacks them."""
    starts, ends = offsets[:-1] + (bos_id is not None), offsets[1:] - 1
    is_short = ends < starts
    is_open = is_short | (values[np.where(is_short, 0, ends)] != eos_id) if len(ends) else is_short
    if bos_id is not None and len(ends):
        is_open |= values[np.where(is_short, 0, starts - 1)] != bos_id
    if is_open.any():
        raise RunError(f"document {int(np.argmax(is_open))} of the shard is not between its BOS and EOS")
    return _gather(values, starts, ends)


def make_token_bytes(tokenizer: Tokenizer) -> TokenBytes:
    """The bytes of every id; only a tokenizer with `is_lossless` has them (ValueError otherwise)."""
    if not tokenizer.is_lossless:
        raise ValueError(f"{tokenizer.name}: the ids of this tokenizer do not spell the bytes of a text")
    spelled = spell_tokens(tokenizer.path.read_bytes(), tokenizer.name)
    offsets = np.zeros(len(spelled) + 1, dtype=np.int64)
    np.cumsum([len(token) for token in spelled], out=offsets[1:])
    return TokenBytes(offsets, np.frombuffer(b"".join(spelled), dtype=np.uint8))


def decode_documents(tokens: TokenBytes, values: I32, offsets: I64) -> pa.LargeBinaryArray:
    """The bytes of each document, without BOS and EOS (`strip_boundaries`). Raises RunError on an id out of range.

    offsets int64[n + 1] need not start at 0: a slice of them decodes some of the documents, to bound memory.
    """
    span = values[offsets[0] : offsets[-1]]
    if len(span) and not 0 <= int(span.min()) <= int(span.max()) < len(tokens.offsets) - 1:
        raise RunError(f"token ids {span.min()} to {span.max()}: the tokenizer has {len(tokens.offsets) - 1}")
    data, starts = _spell(tokens.data, tokens.offsets, values, offsets)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)]
    )


def check_shard(
    table: pa.Table,
    n_vocab: int,
    sequence_length: int,
    *,
    bos_id: int | None,
    eos_id: int,
    pad_id: int,
    is_repeated: bool = False,
) -> list[str]:
    """What is wrong with a SHARD table, one sentence per kind of problem with the first row it is in; [] if nothing."""
    try:
        check_batch(table, make_shard_schema(table.schema.field("input_ids").type.value_type), "shard")
    except (SchemaError, KeyError, AttributeError) as error:
        return [f"the columns are not those of a shard: {error}"]
    width, n_lens, n_names, n_numbers = (pc.list_value_length(table[name]).to_numpy() for name in table.schema.names)
    is_ragged = (n_lens != n_names) | (n_lens != n_numbers)
    problems = [
        *_name_rows(width != sequence_length, f"row {{}} does not have {sequence_length} tokens"),
        *_name_rows(is_ragged, "row {} has seq_lens, doc_ids and piece of unequal length"),
        *(
            f"there are nulls inside {name}"
            for name in ("input_ids", "seq_lens", "piece")
            if any(chunk.flatten().null_count for chunk in table[name].chunks)
        ),
    ]
    if problems:
        return problems  # the rest reads the columns side by side
    flat = flatten_shard(table)
    sums = np.bincount(flat.row, weights=flat.length, minlength=len(table)).astype(np.int64)
    is_unknown: BOOL = np.any(((flat.values < 0) | (flat.values >= n_vocab)).reshape(-1, sequence_length), axis=1)
    problems = [
        *_name_rows(flat.length <= 0, "row {} has a piece of no tokens", flat.row),
        *_name_rows(sums != sequence_length, f"row {{}} has seq_lens that do not sum to {sequence_length}"),
        *_name_rows(is_unknown, f"row {{}} has an id outside 0..{n_vocab - 1}"),
    ]
    if problems:
        return problems  # the pieces are not where seq_lens says
    return [*_check_padding(flat, pad_id), *_check_pieces(flat, bos_id, eos_id, is_repeated)]


def _check_padding(flat: FlatPieces, pad_id: int) -> Iterator[str]:
    is_first, is_last = _mark_runs(flat.row)
    padding = flat.is_padding
    yield from _name_rows(padding & ~is_last, "row {} has padding before its last piece", flat.row)
    yield from _name_rows(padding & is_first, "row {} is all padding", flat.row)
    yield from _name_rows(padding & (flat.piece != 0), "row {} has padding with a piece number", flat.row)
    n_wrong = _count_others(flat.values, flat.start, flat.length, np.int64(pad_id))
    yield from _name_rows(padding & (n_wrong > 0), f"row {{}} has padding other than id {pad_id}", flat.row)


def _check_pieces(flat: FlatPieces, bos_id: int | None, eos_id: int, is_repeated: bool) -> Iterator[str]:
    """Each document's pieces are numbered 0, 1, ... once each; EOS ends the last, BOS begins the first, and neither is
    anywhere else.
    """
    kept = np.flatnonzero(~flat.is_padding)
    document, _ = _number_documents(flat.names[kept], flat.piece[kept] if is_repeated else None)
    order = np.lexsort((flat.piece[kept], document))
    kept, document = kept[order], document[order]
    begins, ends = _mark_runs(document)
    starts = np.flatnonzero(begins)
    expected = np.arange(len(kept)) - np.repeat(starts, np.diff(np.append(starts, len(kept))))
    rows = flat.row[kept]
    yield from _name_rows(
        flat.piece[kept] != expected, "row {} has a document whose pieces are not numbered 0, 1, ... once each", rows
    )
    first, last = flat.start[kept], flat.start[kept] + flat.length[kept] - 1
    n_eos = flat.length[kept] - _count_others(flat.values, first, flat.length[kept], np.int64(eos_id))
    yield from _name_rows(ends & (flat.values[last] != eos_id), "row {} has a document without EOS at its end", rows)
    yield from _name_rows(n_eos > ends, "row {} has EOS inside a document", rows)
    if bos_id is not None:
        n_bos = flat.length[kept] - _count_others(flat.values, first, flat.length[kept], np.int64(bos_id))
        no_bos = begins & (flat.values[first] != bos_id)
        yield from _name_rows(no_bos, "row {} has a document without BOS at its start", rows)
        yield from _name_rows(n_bos > begins, "row {} has BOS inside a document", rows)


def _mark_runs(keys: I64) -> tuple[BOOL, BOOL]:
    """Whether an entry is the first, and the last, of a run of equal keys."""
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = keys[1:] != keys[:-1]
    is_last = np.ones(len(keys), dtype=np.bool_)
    is_last[:-1] = is_first[1:]
    return is_first, is_last


def _name_rows(is_wrong: BOOL, sentence: str, rows: I64 | None = None) -> list[str]:
    """`sentence` about the first row that is wrong, and how many more are; `rows` gives the row of each flag."""
    where = np.flatnonzero(is_wrong) if rows is None else np.unique(rows[is_wrong])
    if len(where) == 0:
        return []
    return [sentence.format(int(where[0])) + (f" (and {len(where) - 1} more rows)" if len(where) > 1 else "")]


def _concatenate(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """The values of a list column, end to end."""
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)


def _read_names(column: pa.ChunkedArray) -> tuple[U8, BOOL]:
    """names uint8[m, 16] (zeros where null) and is_null bool[m] of the doc_ids column."""
    names, nulls = [np.zeros((0, 16), dtype=np.uint8)], [np.zeros(0, dtype=np.bool_)]
    for chunk in column.chunks:
        flat = chunk.flatten()
        if len(flat) == 0:
            continue
        nulls.append(pc.is_null(flat).to_numpy(zero_copy_only=False))
        span = slice(flat.offset * 16, (flat.offset + len(flat)) * 16)
        here = np.frombuffer(flat.buffers()[1], dtype=np.uint8)[span].reshape(-1, 16).copy()
        here[nulls[-1]] = 0  # what lies under a null is anybody's guess
        names.append(here)
    return np.concatenate(names), np.concatenate(nulls)


def _number_documents(names: U8, piece: I32 | None = None) -> tuple[I64, int]:
    """The number of each piece's document, in order of first appearance, and how many documents there are.

    With `piece` documents may be repeated: the k-th piece of a name and number belongs to the k-th repetition, which is
    right however they lie, for they are all alike.
    """
    halves: U64 = np.ascontiguousarray(names).view("<u8")
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    document, n = _number_groups(order, np.any(halves[order][1:] != halves[order][:-1], axis=1))
    if piece is None:
        return document, n
    order = np.lexsort((piece, document))
    begins, _ = _mark_runs(document[order] * (int(piece.max(initial=0)) + 1) + piece[order])
    index = np.arange(len(order))
    repetition = np.empty(len(order), dtype=np.int64)
    repetition[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    order = np.lexsort((repetition, document))
    pairs = np.stack([document[order], repetition[order]])
    return _number_groups(order, np.any(pairs[:, 1:] != pairs[:, :-1], axis=0))


def _number_groups(order: npt.NDArray[np.intp], differs: BOOL) -> tuple[I64, int]:
    """Groups of equal neighbours in `order` (a stable sort), numbered by their first element; and their number."""
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = differs
    group = np.cumsum(is_new) - 1
    n = int(is_new.sum())
    first = order[is_new]  # the sort is stable, so the first of a group is its first piece in the table
    number = np.empty(n, dtype=np.int64)
    number[np.argsort(first)] = np.arange(n)
    document = np.empty(len(order), dtype=np.int64)
    document[order] = number[group]
    return document, n


@njit(cache=True, nogil=True)
def _gather(values: npt.NDArray[Any], starts: I64, ends: I64) -> tuple[npt.NDArray[Any], I64]:
    """values[starts[i]:ends[i]] end to end, and the offsets int64[n + 1] of the spans in the result."""
    offsets = np.zeros(starts.shape[0] + 1, dtype=np.int64)
    for i in range(starts.shape[0]):
        offsets[i + 1] = offsets[i] + ends[i] - starts[i]
    out = np.empty(offsets[-1], dtype=values.dtype)
    for i in range(starts.shape[0]):
        for k in range(ends[i] - starts[i]):
            out[offsets[i] + k] = values[starts[i] + k]
    return out, offsets


@njit(cache=True, nogil=True)
def _spell(data: U8, spans: I64, values: I32, offsets: I64) -> tuple[U8, I64]:
    """The bytes data[spans[v]:spans[v + 1]] of every document's tokens v end to end, and the documents' offsets."""
    n = offsets.shape[0] - 1
    starts = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        starts[i + 1] = starts[i]
        for k in range(offsets[i], offsets[i + 1]):
            starts[i + 1] += spans[values[k] + 1] - spans[values[k]]
    out = np.empty(starts[n], dtype=np.uint8)
    at = 0
    for k in range(offsets[0], offsets[n]):
        for b in range(spans[values[k]], spans[values[k] + 1]):
            out[at] = data[b]
            at += 1
    return out, starts


@njit(cache=True, nogil=True)
def _count_others(values: I32, starts: I64, lengths: I32, wanted: np.int64) -> I64:
    """How many of values[starts[i]:starts[i] + lengths[i]] are not `wanted`."""
    counts = np.zeros(starts.shape[0], dtype=np.int64)
    for i in range(starts.shape[0]):
        for k in range(lengths[i]):
            counts[i] += values[starts[i] + k] != wanted
    return counts
