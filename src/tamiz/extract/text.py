"""RAW to TEXT: pages through an engine; text that came as text is kept byte for byte, if not empty or too large.

Published recipes count line breaks, repeated lines and control characters in the text as it came, so nothing is
rewritten here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tamiz.errors import SchemaError
from tamiz.extract.guard import Guard, extract_pages
from tamiz.schema import RAW, TEXT, check_batch

EMPTY, TOO_LARGE = "text_empty", "document_too_large"
# Measuring takes up to 30 bytes per byte of text (a word every other byte): 0.5 GB for such a document, 0.75 with the
# batch it may share. The published bound of 100,000 words rejects a document at about a twentieth of it.
DOCUMENT_BYTES_MAX = 16 << 20


def extract_text(batch: pa.RecordBatch, engine: str | None = None, guard: Guard | None = None) -> pa.RecordBatch:
    """RAW -> TEXT: pages become their main text, or null with the reason.

    A text of nothing but white space (`text_empty`) or too large becomes null, with that reason. Raises SchemaError for
    pages without an engine (a key of html.ENGINES) and a guard, RunError as Guard.extract does.
    """
    check_batch(batch, RAW, "source -> extract")
    text, quarantine, payload = batch.column("text"), batch.column("quarantine"), batch.column("payload")
    if payload.null_count < len(batch):
        if engine is None or guard is None:
            raise SchemaError("source -> extract: pages, and no engine or guard to extract them")
        page_text, reason = extract_pages(payload, batch.column("charset"), engine, guard)
        text, quarantine = pc.coalesce(text, page_text), pc.coalesce(quarantine, reason)
    n_bytes = pc.binary_length(text)
    is_empty = pc.fill_null(pc.or_(pc.utf8_is_space(text), pc.equal(n_bytes, 0)), False)
    is_large = pc.fill_null(pc.and_not(pc.greater(n_bytes, DOCUMENT_BYTES_MAX), is_empty), False)
    is_out = pc.or_(is_empty, is_large)
    if pc.any(is_out).as_py():
        text = pc.if_else(is_out, pa.scalar(None, pa.large_string()), text)
        quarantine = pc.if_else(is_empty, EMPTY, pc.if_else(is_large, TOO_LARGE, quarantine))
    columns = {name: batch.column(name) for name in TEXT.names} | {"text": text, "quarantine": quarantine}
    return pa.RecordBatch.from_arrays([columns[name] for name in TEXT.names], schema=TEXT)
