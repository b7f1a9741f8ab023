"""The Arrow schema of every boundary between rooms. Column names are written down here only.

RAW (source -> extract), TEXT (extract -> measure), VERDICT (published for every document read), KEPT (published for
kept documents), DUPLICATES (dedup -> pack) and SHARD (pack -> corpus). pyarrow enforces neither `nullable=False` nor
the order of columns, so each side calls `check_batch` where a batch crosses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tamiz.errors import SchemaError

DOC_ID = pa.binary(16)

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]


def _field(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


_IDENTITY = [
    _field("doc_id", DOC_ID),  # 128-bit hash of (source name, path in the source, position): names the record
    _field("source", pa.dictionary(pa.int32(), pa.string())),
    _field("origin", pa.string()),  # path#position
    _field("url", pa.string(), nullable=True),
]

RAW = pa.schema(
    [
        *_IDENTITY,
        _field("text", pa.large_string(), nullable=True),  # null with `payload` or with `quarantine`
        _field("payload", pa.large_binary(), nullable=True),  # a page as bytes of HTML, for a source of pages
        _field("charset", pa.string(), nullable=True),  # the label in the page's HTTP header
        _field("language", pa.string(), nullable=True),  # the source's own label, e.g. "en"
        _field("language_score", pa.float64(), nullable=True),  # the source's own, 0..1
        _field("dump", pa.string(), nullable=True),  # the crawl it came from, e.g. "CC-MAIN-2024-10"
        _field("quarantine", pa.string(), nullable=True),  # reason the record could not be read; null = readable
    ]
)
"""What a source yields: one row per record it met, the unreadable ones with a reason instead of a text or a page."""

TEXT = pa.schema([field for field in RAW if field.name not in ("payload", "charset")])
"""What extract yields: RAW without pages, whose `text` is never null or empty unless `quarantine` says why."""

KEPT = pa.schema(
    [
        *_IDENTITY,
        _field("text", pa.large_string()),  # after line rules and redaction
        _field("n_bytes", pa.int64()),  # UTF-8 bytes of `text`
    ]
)


def make_verdict_schema(metrics: dict[str, pa.DataType]) -> pa.Schema:
    """The VERDICT schema for these metric columns (name -> type), in their order.

    A metric that is null could not be measured (for instance a mean over no words); a metric the config does not need
    has no column at all.
    """
    return pa.schema(
        [
            *_IDENTITY,
            _field("n_bytes", pa.int64()),  # UTF-8 bytes of the text as read; 0 when there is none
            *(_field(name, kind, nullable=True) for name, kind in metrics.items()),
            _field("failed", pa.list_(pa.string())),  # all failing rules, in recipe order
            _field("outcome", pa.string()),  # kept, rejected or quarantined
            _field("quarantine", pa.string(), nullable=True),
        ]
    )


def make_bands_schema(n_bands: int) -> pa.Schema:
    """The band file beside a part's KEPT: row i belongs to row i of KEPT.

    `exact` is the 64-bit hash of the normalised text; `band_00`.. are the keys of the MinHash bands, null for a
    document with fewer words than one shingle (it is never a near copy of anything). `dump` is the source's own.
    """
    return pa.schema(
        [
            _field("doc_id", DOC_ID),
            _field("dump", pa.string(), nullable=True),
            _field("exact", pa.uint64()),
            *(_field(f"band_{i:02d}", pa.uint64(), nullable=True) for i in range(n_bands)),
        ]
    )


DUPLICATES = pa.schema(
    [
        _field("part", pa.string()),  # where the duplicate stands: its part, and its row in the part's KEPT
        _field("row", pa.int64()),
        _field("doc_id", DOC_ID),
        _field("lost_to", DOC_ID, nullable=True),  # null: a Bloom index knows that there was one, not which
        _field("lost_to_run", pa.string(), nullable=True),  # the older run it stands in; null = this run
        _field("lost_to_part", pa.string(), nullable=True),
        _field("lost_to_row", pa.int64(), nullable=True),
        _field("kind", pa.string()),  # exact or near
        _field("n_bands", pa.int32()),  # bands in common with `lost_to` that decided; 0 for exact
        _field("similarity", pa.float64()),  # estimated from `n_bands`; true Jaccard with `dedup.verify`; exact: 1.0
    ]
)
"""The documents that lost, in document order."""

COPIES = pa.schema(
    [
        _field("part", pa.string()),
        _field("row", pa.int64()),
        _field("doc_id", DOC_ID),
        _field("n_copies", pa.int64()),  # documents of this run that lost to it, through others too; at least 1
    ]
)
"""The surviving documents that others lost to, in document order; one that is not here has 0 copies."""


TOKENS = pa.schema(
    [
        _field("doc_id", DOC_ID),
        _field("n_bytes", pa.int64()),  # UTF-8 bytes of the text
        _field("n_tokens", pa.int32()),  # length of input_ids: shards are planned without reading those
        _field("is_holdout", pa.bool_()),
        _field("repetition", pa.int32()),  # 0, or the how-manieth copy that `pack.repeat` adds
        _field("input_ids", pa.list_(pa.int32())),
    ]
)
"""Tokens of one part's surviving documents, with BOS/EOS: those for training in order, then those held out in order,
then the first repetitions of those for training in order, the second..."""


def make_shard_schema(dtype: pa.DataType, metadata: dict[str, str] | None = None) -> pa.Schema:
    """SHARD: one row is one sequence.

    `seq_lens` are the lengths of the row's pieces and sum to its length: positions, cu_seqlens and masks are derived
    from them, never by looking for EOS. `doc_ids` and `piece` have one entry per piece; piece 0 begins a document,
    k > 0 continues it; padding is a last piece of its own whose doc_id is null and whose number is 0.
    """
    return pa.schema(
        [
            _field("input_ids", pa.list_(dtype)),
            _field("seq_lens", pa.list_(pa.int32())),
            _field("doc_ids", pa.list_(pa.field("item", DOC_ID, nullable=True))),
            _field("piece", pa.list_(pa.int32())),
        ],
        metadata=metadata,
    )


def check_batch(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, boundary: str) -> None:
    """Raise SchemaError unless `batch` has exactly the columns of `schema`, in order, of its types and nullability."""
    if batch.schema.names != schema.names:
        raise SchemaError(f"{boundary}: columns are {batch.schema.names}, the boundary asks for {schema.names}")
    for i, field in enumerate(schema):
        seen = batch.schema.field(i).type
        if seen != field.type:
            raise SchemaError(f"{boundary}: column {field.name} is {seen}, the boundary asks for {field.type}")
        if not field.nullable and batch.column(i).null_count:
            raise SchemaError(f"{boundary}: column {field.name} has {batch.column(i).null_count} nulls, none allowed")


def view_text(text: pa.LargeStringArray) -> tuple[I64, U8]:
    """The buffers of a large_string array without copying: offsets int64[n + 1] into bytes uint8[].

    A null row has an arbitrary span; callers drop nulls first. Sliced arrays are allowed: the offsets start where the
    slice does, and offsets[0] need not be 0. Both views are read-only: numba compiles a kernel once for read-only and
    once more for writable arrays, so every text reaches a kernel through here.
    """
    if text.null_count:
        raise SchemaError(f"view_text: {text.null_count} null texts; drop them first")
    _, offsets, data = text.buffers()
    if offsets is None or len(text) == 0:
        return _freeze(np.zeros(1, dtype=np.int64)), _freeze(np.zeros(0, dtype=np.uint8))
    starts = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    return _freeze(starts), _freeze(np.frombuffer(data or b"", dtype=np.uint8))


def _freeze(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    frozen = values.view()
    frozen.flags.writeable = False
    return frozen


def make_text(offsets: I64, data: U8) -> pa.LargeStringArray:
    """The large_string array over these buffers: offsets int64[n + 1] starting at 0, UTF-8 bytes uint8[]."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
