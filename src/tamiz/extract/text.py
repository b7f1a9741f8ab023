"""RAW to TEXT: pages through an engine; text that came as text is kept byte for byte, but must not be empty.

Published recipes count line breaks, repeated lines and control characters in the text as it came, so nothing is
rewritten here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tamiz.errors import SchemaError
from tamiz.extract.guard import Guard, extract_pages
from tamiz.schema import RAW, TEXT, check_batch

EMPTY = "text_empty"


def extract_text(batch: pa.RecordBatch, engine: str | None = None, guard: Guard | None = None) -> pa.RecordBatch:
    """RAW -> TEXT: pages become their main text, or null with the reason.

    An empty or whitespace-only text becomes null, with quarantine reason `text_empty`. Raises SchemaError for pages
    without an engine (a key of html.ENGINES) and a guard, RunError as Guard.extract does.
    """
    check_batch(batch, RAW, "source -> extract")
    text, quarantine, payload = batch.column("text"), batch.column("quarantine"), batch.column("payload")
    if payload.null_count < len(batch):
        if engine is None or guard is None:
            raise SchemaError("source -> extract: pages, and no engine or guard to extract them")
        page_text, reason = extract_pages(payload, batch.column("charset"), engine, guard)
        text, quarantine = pc.coalesce(text, page_text), pc.coalesce(quarantine, reason)
    is_empty = pc.fill_null(pc.or_(pc.utf8_is_space(text), pc.equal(pc.binary_length(text), 0)), False)
    if pc.any(is_empty).as_py():
        text = pc.if_else(is_empty, pa.scalar(None, pa.large_string()), text)
        quarantine = pc.if_else(is_empty, EMPTY, quarantine)
    columns = {name: batch.column(name) for name in TEXT.names} | {"text": text, "quarantine": quarantine}
    return pa.RecordBatch.from_arrays([columns[name] for name in TEXT.names], schema=TEXT)
