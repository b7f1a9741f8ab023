"""Where documents come from: Parquet and JSONL files, local or on the Hugging Face Hub.

`list_splits` cuts a source into bounded splits, `read_split` reads one as batches of schema.RAW from a cursor.
"""

from tamiz.sources.listing import list_splits
from tamiz.sources.reading import read_split
from tamiz.sources.split import Bound, Chunk, Cursor, HubSource, JsonlSource, Listing, ParquetSource, Source, Split

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
    "list_splits",
    "read_split",
]
