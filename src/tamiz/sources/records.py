"""Columns of schema.RAW: identity, text with the reason when there is none, and the source's own labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tamiz import schema
from tamiz.sources.split import Split


def make_batch(
    split: Split,
    positions: Sequence[int],
    text: pa.LargeStringArray,
    quarantine: pa.StringArray,
    labels: tuple[pa.StringArray, pa.StringArray, pa.DoubleArray, pa.StringArray],
    pages: tuple[pa.LargeBinaryArray, pa.StringArray] | None = None,
) -> pa.RecordBatch:
    """The RAW batch of the records at these positions; `labels` are url, language, language_score and dump, null if
    unknown.

    `pages` are payload and charset, for sources of pages. Raises SchemaError when a column breaks the contract of RAW.
    """
    n = len(positions)
    url, language, score, dump = labels
    source = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n), pa.array([split.source]))
    origin = pa.array([f"{split.path}#{position}" for position in positions], pa.string())
    doc_id = pa.array(make_doc_ids(split.source, split.path, positions), schema.DOC_ID)
    payload, charset = pages or (pa.nulls(n, pa.large_binary()), pa.nulls(n, pa.string()))
    columns = [doc_id, source, origin, url, text, payload, charset, language, score, dump, quarantine]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.RAW)
    schema.check_batch(batch, schema.RAW, f"source {split.source}")
    return batch


def make_lost_batch(split: Split, positions: Sequence[int], reason: str) -> pa.RecordBatch:
    """The RAW batch of records at these positions of which nothing can be read, for this reason."""
    n = len(positions)
    labels = [pa.nulls(n, schema.RAW.field(name).type) for name in ("url", "language", "language_score", "dump")]
    text = pa.nulls(n, pa.large_string())
    return make_batch(split, positions, text, pa.repeat(pa.scalar(reason), n), tuple(labels))


def make_doc_ids(source: str, path: str, positions: Sequence[int]) -> list[bytes]:
    """The names of records: the first 16 bytes of BLAKE2b over source, NUL, path, NUL, position in decimal digits."""
    start = hashlib.blake2b(f"{source}\0{path}\0".encode())
    ids = []
    for position in positions:
        digest = start.copy()
        digest.update(b"%d" % position)
        ids.append(digest.digest()[:16])
    return ids


def is_string_like(kind: pa.DataType) -> bool:
    """True for the Arrow types that can hold UTF-8 text, dictionaries of them included."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
        )
    )


def read_strings(column: pa.Array) -> tuple[pa.LargeStringArray, pa.BooleanArray | None]:
    """`column` (a string-like type) as valid UTF-8, and where it was not (null there); None when all of it was valid.

    Parquet does not check that a string column is UTF-8 and neither does pyarrow when it reads one.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = column.cast(pa.large_binary()).view(pa.large_string())
    strings = column.cast(pa.large_string())
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        values = [_decode(value) for value in strings.view(pa.large_binary()).to_pylist()]
        valid = pa.array(values, pa.large_string())
        return valid, pc.and_(valid.is_null(), strings.is_valid())
    return strings, None


def _decode(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def read_text(column: pa.Array) -> tuple[pa.LargeStringArray, pa.StringArray]:
    """The RAW columns text and quarantine of a string-like column: text_missing where null, invalid_utf8 where not."""
    text, invalid = read_strings(column)
    if text.null_count == 0:
        return text, pa.nulls(len(text), pa.string())
    reason = pc.if_else(text.is_null(), "text_missing", pa.scalar(None, pa.string()))
    return text, reason if invalid is None else pc.if_else(invalid, "invalid_utf8", reason)
