"""Read a split: an iterator of chunks, from its start or from a cursor."""

from __future__ import annotations

from collections.abc import Iterator

from tamiz.sources import jsonl, parquet, warc
from tamiz.sources.split import Chunk, Cursor, Source, Split, WarcSource


def read_split(split: Split, spec: Source, cursor: Cursor | None = None) -> Iterator[Chunk]:
    """The chunks of a split of `spec`, in order; each holds at most 1,024 documents and about 8 MB of text or pages.

    Where chunks begin depends on the split alone; with the cursor of a chunk, exactly the chunks behind it come.
    A record that cannot be read is a row with a null text and a reason, never skipped; a damaged stretch of a file is
    one such row, or in Parquet one for each row in it. Reading ends at the last document that the split's limit allows.
    Raises SourceError (file, position, cause) when the file is gone, changed or cannot be fetched, ConfigError when it
    has not the columns that `spec` names.
    """
    if isinstance(spec, WarcSource):
        return warc.read_warc(split, cursor)
    if split.quarantine is not None:
        at = cursor or Cursor(split.first_position, 0)
        return parquet.lose_rows(split, at, split.n_rows or 0, split.quarantine, (0, split.n_bytes))
    read = parquet.read_parquet if split.kind == "parquet" else jsonl.read_jsonl
    return read(split, spec, cursor)
