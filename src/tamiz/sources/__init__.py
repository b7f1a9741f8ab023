"""Where documents come from: Parquet, JSONL and WARC files, Parquet and JSONL also on the Hugging Face Hub.

`list_splits` cuts a source into bounded splits, `read_split` reads one as batches of schema.RAW from a cursor.
"""

from tamiz.sources.listing import list_splits
from tamiz.sources.reading import read_split
from tamiz.sources.split import (
    Bound,
    Chunk,
    Cursor,
    HubSource,
    JsonlSource,
    Listing,
    ParquetSource,
    Source,
    Split,
    WarcSource,
)

__all__ = [
    "Bound",
    "Chunk",
    "Cursor",
    "HubSource",
    "JsonlSource",
    "Listing",
    "ParquetSource",
    "Source",
    "Split",
    "WarcSource",
    "list_splits",
    "read_split",
]
