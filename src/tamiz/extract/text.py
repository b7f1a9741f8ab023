"""The normal form of text that came as text: kept byte for byte, but one that is empty or too large is quarantined.

Published recipes count line breaks, repeated lines and control characters in the text as it came, so nothing is
rewritten here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tamiz.schema import RAW, TEXT, check_batch

EMPTY, TOO_LARGE = "text_empty", "document_too_large"
# Measuring takes up to 30 bytes per byte of text (a word every other byte): 0.5 GB for such a document, 0.75 with the
# batch it may share. The published bound of 100,000 words rejects a document at about a twentieth of it.
DOCUMENT_BYTES_MAX = 16 << 20


def extract_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """RAW -> TEXT: a text of nothing but white space (`text_empty`) or too large becomes null, with that reason."""
    check_batch(batch, RAW, "source -> extract")
    text = batch.column("text")
    n_bytes = pc.binary_length(text)
    is_empty = pc.fill_null(pc.or_(pc.utf8_is_space(text), pc.equal(n_bytes, 0)), False)
    is_large = pc.fill_null(pc.and_not(pc.greater(n_bytes, DOCUMENT_BYTES_MAX), is_empty), False)
    is_out = pc.or_(is_empty, is_large)
    if not pc.any(is_out).as_py():
        return batch
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["text"] = pc.if_else(is_out, pa.scalar(None, pa.large_string()), text)
    columns["quarantine"] = pc.if_else(is_empty, EMPTY, pc.if_else(is_large, TOO_LARGE, batch.column("quarantine")))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in TEXT], schema=TEXT)
