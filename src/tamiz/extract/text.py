"""The normal form of text that came as text: kept byte for byte, but a record without any is quarantined.

Published recipes count line breaks, repeated lines and control characters in the text as it came, so nothing is
rewritten here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tamiz.schema import RAW, TEXT, check_batch

EMPTY = "text_empty"


def extract_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """RAW -> TEXT: an empty or whitespace-only text becomes null, with quarantine reason `text_empty`."""
    check_batch(batch, RAW, "source -> extract")
    text = batch.column("text")
    is_empty = pc.fill_null(pc.or_(pc.utf8_is_space(text), pc.equal(pc.binary_length(text), 0)), False)
    if not pc.any(is_empty).as_py():
        return batch
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["text"] = pc.if_else(is_empty, pa.scalar(None, pa.large_string()), text)
    columns["quarantine"] = pc.if_else(is_empty, EMPTY, batch.column("quarantine"))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in TEXT], schema=TEXT)
