"""Reading a fastText language identifier: the bytes of a .ftz file -> arrays a kernel can use.

The layout is that of fastText 0.9 (file version 12), little-endian: magic and version; training arguments; dictionary
(words, then labels, then the n-gram buckets that pruning kept); product-quantised input matrix; output matrix, dense
or quantised. Only models of the shape of lid.176.ftz are accepted: supervised (3), hierarchical softmax (1), no word
n-grams, pruned character n-grams of 2 to 4 code points.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tamiz.errors import RunError
from tamiz.schema import I32, I64, U8, U64

F32 = npt.NDArray[np.float32]

# Of lid.176. Constants, so that kernels compile to straight vector code and divide by multiplying.
DIM = 16
N_BUCKETS = 2_000_000

_MAGIC = 793712314
_VERSION = 12
_SUPPORTED = {"model": 3, "loss": 1, "wordNgrams": 1, "bucket": N_BUCKETS, "dim": DIM, "minn": 2, "maxn": 4}
_N_CENTROIDS = 256  # a code of the product quantiser is one byte
_COUNT_UNSET = 10**15  # count of a tree node not yet built (fastText's own bound)
_END_OF_LINE = b"</s>"
_LINE_BYTES = 64


class ModelArrays(NamedTuple):
    """The model as a kernel reads it; nothing writes to it after `read_model`."""

    rows: F32  # float32[n_rows, 16], rows on cache lines: words, then n-gram buckets that were kept, in ascending order
    bucket_bits: U64  # uint64[N_BUCKETS / 64]: bit b = bucket b was kept
    bucket_ranks: I32  # int32[N_BUCKETS / 64]: row of the first bucket kept in or after this block of 64
    word_bytes: U8  # uint8[]: the words one after the other
    word_start: I64  # int64[n_words + 1] into word_bytes
    word_slot: I32  # int32[power of two]: open addressing by the word's hash, word index or -1
    nodes: F32  # float32[n_labels - 1, 16]: inner nodes of the softmax tree
    children: I32  # int32[2 * n_labels - 1, 2]: left and right of a tree node, -1 for the leaves 0..n_labels-1
    eos_row: int  # row of the end-of-line token, -1 = none


@dataclass(frozen=True)
class LanguageModel:
    """`labels[i]` is the name of tree leaf i without fastText's prefix ("en")."""

    labels: tuple[str, ...]
    arrays: ModelArrays


class _Dictionary(NamedTuple):
    words: list[bytes]
    labels: list[str]
    label_counts: list[int]
    kept_buckets: I32  # int32[n, 2]: n-gram bucket, its row counted after the words


class _Cursor:
    """A position in the model's bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self._data, self._at)  # struct.error past the end
        self._at += struct.calcsize("<" + layout)
        return values

    def read_string(self) -> bytes:
        stop = self._data.index(b"\0", self._at)  # ValueError past the end
        start, self._at = self._at, stop + 1
        return self._data[start:stop]

    def read_array(self, dtype: str, n: int) -> npt.NDArray[Any]:
        values = np.frombuffer(self._data, dtype=dtype, count=n, offset=self._at)  # ValueError past the end
        self._at += values.nbytes
        return values


def read_model(data: bytes) -> LanguageModel:
    """Parse and dequantise a fastText classifier.

    RunError when the bytes are not such a model, are cut short, or use what the kernel does not do.
    """
    try:
        return _read_model(_Cursor(data))
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise RunError(f"not a readable fastText model ({len(data)} bytes): {error}") from error


def _read_model(cursor: _Cursor) -> LanguageModel:
    _check_arguments(cursor)
    dictionary = _read_dictionary(cursor)
    words, n_labels = dictionary.words, len(dictionary.labels)
    (is_quantised,) = cursor.read("?")
    if not is_quantised:
        raise ValueError("unsupported: the input matrix is not quantised")
    rows = _read_quantised(cursor)
    (is_output_quantised,) = cursor.read("?")
    nodes = _read_quantised(cursor) if is_output_quantised else _read_dense(cursor)
    if nodes.shape != (n_labels, DIM):
        raise ValueError(f"output matrix {nodes.shape} for {n_labels} labels")
    buckets, bucket_rows = _sort_buckets(dictionary, len(rows))
    bits, ranks = _mark_buckets(buckets, len(words))
    word_start = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum([len(word) for word in words], out=word_start[1:])
    arrays = ModelArrays(
        rows=_order_rows(rows, len(words), bucket_rows),
        bucket_bits=bits,
        bucket_ranks=ranks,
        word_bytes=np.array(bytearray(b"".join(words)), dtype=np.uint8),
        word_start=word_start,
        word_slot=_place_words(words),
        nodes=nodes[: n_labels - 1],  # fastText stores one row more than the tree has inner nodes
        children=_build_tree(dictionary.label_counts),
        eos_row=words.index(_END_OF_LINE) if _END_OF_LINE in words else -1,
    )
    return LanguageModel(tuple(dictionary.labels), arrays)


def _check_arguments(cursor: _Cursor) -> None:
    magic, version = cursor.read("ii")
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError(f"it starts with {magic}, version {version} instead of {_MAGIC}, version {_VERSION}")
    names = ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn")
    seen = dict(zip(names, cursor.read("12id"), strict=False))
    unsupported = [f"{name} {seen[name]} (only {only})" for name, only in _SUPPORTED.items() if seen[name] != only]
    if unsupported:
        raise ValueError(f"unsupported: {', '.join(unsupported)}")


def _read_dictionary(cursor: _Cursor) -> _Dictionary:
    size, n_words, n_labels, _, n_kept = cursor.read("3i2q")
    if n_kept < 0:
        raise ValueError("unsupported: n-gram buckets are not pruned")
    if size != n_words + n_labels or n_words < 0 or n_labels < 2:
        raise ValueError(f"dictionary of {size} entries, {n_words} words, {n_labels} labels")
    names: list[bytes] = []
    counts: list[int] = []
    for i in range(size):
        names.append(cursor.read_string())
        count, is_label = cursor.read("q?")
        if is_label != (i >= n_words):
            raise ValueError(f"dictionary entry {i} is out of order")
        counts.append(count)
    labels = [name.removeprefix(b"__label__").decode() for name in names[n_words:]]
    kept_buckets = cursor.read_array("<i4", 2 * n_kept).reshape(n_kept, 2)
    return _Dictionary(names[:n_words], labels, counts[n_words:], kept_buckets)


def _read_dense(cursor: _Cursor) -> F32:
    n_rows, dim = cursor.read("2q")
    return cursor.read_array("<f4", n_rows * dim).reshape(n_rows, dim).astype(np.float32)


def _read_quantised(cursor: _Cursor) -> F32:
    """float32[n_rows, dim]: a row is its centroids side by side, times its norm if norms are kept apart."""
    has_norms, n_rows, dim, n_codes = cursor.read("?2qi")
    codes = cursor.read_array("u1", n_codes).reshape(n_rows, -1)
    rows = _read_quantiser(cursor, codes)
    if rows.shape[1] != dim:
        raise ValueError(f"quantiser of dimension {rows.shape[1]} for a matrix of {dim} columns")
    if has_norms:
        norm_codes = cursor.read_array("u1", n_rows).reshape(n_rows, 1)
        rows *= _read_quantiser(cursor, norm_codes)
    return rows


def _read_quantiser(cursor: _Cursor, codes: U8) -> F32:
    """The rows float32[n, dim] that codes uint8[n, n_parts] stand for; the last part may be narrower."""
    dim, n_parts, width, last_width = cursor.read("4i")
    centroids = cursor.read_array("<f4", dim * _N_CENTROIDS)
    if codes.shape[1] != n_parts or (n_parts - 1) * width + last_width != dim:
        raise ValueError(f"quantiser of {n_parts} parts for {codes.shape[1]} codes and {dim} columns")
    rows = np.empty((len(codes), dim), dtype=np.float32)
    for part in range(n_parts):
        start = part * width
        stop = dim if part == n_parts - 1 else start + width
        table = centroids[start * _N_CENTROIDS : stop * _N_CENTROIDS].reshape(_N_CENTROIDS, stop - start)
        rows[:, start:stop] = table[codes[:, part]]
    return rows


def _sort_buckets(dictionary: _Dictionary, n_rows: int) -> tuple[I64, I64]:
    """The n-gram buckets that were kept, in ascending order int64[n], and the row of each int64[n]."""
    kept = dictionary.kept_buckets[np.argsort(dictionary.kept_buckets[:, 0])].astype(np.int64)
    buckets, rows = kept[:, 0], len(dictionary.words) + kept[:, 1]
    if len(kept) and (buckets[0] < 0 or buckets[-1] >= N_BUCKETS or (np.diff(buckets) == 0).any()):
        raise ValueError(f"kept n-gram buckets are not distinct numbers below {N_BUCKETS}")
    if rows.min(initial=0) < 0 or rows.max(initial=len(dictionary.words) - 1) >= n_rows:
        raise ValueError(f"input matrix of {n_rows} rows for {len(dictionary.words)} words and {len(kept)} n-grams")
    return buckets, rows


def _mark_buckets(buckets: I64, n_words: int) -> tuple[U64, I32]:
    """`bucket_bits` and `bucket_ranks` of ModelArrays."""
    bits = np.zeros(N_BUCKETS // 64, dtype=np.uint64)
    np.bitwise_or.at(bits, buckets >> 6, np.uint64(1) << (buckets & 63).astype(np.uint64))
    n_before = np.searchsorted(buckets, np.arange(len(bits)) * 64)
    return bits, (n_words + n_before).astype(np.int32)


def _order_rows(rows: F32, n_words: int, bucket_rows: I64) -> F32:
    ordered = allocate_aligned(n_words + len(bucket_rows), DIM, np.float32)
    ordered[:n_words] = rows[:n_words]
    ordered[n_words:] = rows[bucket_rows]
    return ordered


def allocate_aligned(n_rows: int, n_columns: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros [n_rows, n_columns] starting on a cache line: numpy starts large arrays 16 bytes after one, so that each
    row of 64 bytes is two misses instead of one."""
    n_bytes = n_rows * n_columns * np.dtype(dtype).itemsize
    buffer = np.zeros(n_bytes + _LINE_BYTES, dtype=np.uint8)
    start = -buffer.ctypes.data % _LINE_BYTES
    return buffer[start : start + n_bytes].view(dtype).reshape(n_rows, n_columns)


def hash_word(word: bytes) -> int:
    """fastText's 32-bit FNV-1a, which sees bytes as signed: one above 127 also flips the upper 24 bits."""
    value = 2166136261
    for byte in word:
        value = ((value ^ (byte | 0xFFFFFF00 if byte > 127 else byte)) * 16777619) & 0xFFFFFFFF
    return value


def _place_words(words: list[bytes]) -> I32:
    """Open addressing with linear probing at a load of at most 1/2; slot = hash modulo the table's size."""
    size = 1 << max(1, (2 * len(words)).bit_length())
    slots = np.full(size, -1, dtype=np.int32)
    for i, word in enumerate(words):
        slot = hash_word(word) & (size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = i
    return slots


def _build_tree(counts: list[int]) -> I32:
    """Huffman tree over label counts in descending order, with fastText's order of ties: int32[2 n - 1, 2]."""
    n = len(counts)
    weight = counts + [_COUNT_UNSET] * (n - 1)
    children = np.full((2 * n - 1, 2), -1, dtype=np.int32)
    leaf, node = n - 1, n
    for parent in range(n, 2 * n - 1):
        for side in range(2):
            if leaf >= 0 and weight[leaf] < weight[node]:
                children[parent, side], leaf = leaf, leaf - 1
            else:
                children[parent, side], node = node, node + 1
        weight[parent] = weight[children[parent, 0]] + weight[children[parent, 1]]
    return children
