"""Inputs of a chosen size: real documents, repeated with fresh noise so that no copy is a near copy of another.

In each copy but the first, one lower-case ASCII letter in 80 becomes another: about one word in 16 is new, as in a
stream of real pages (one chunk in ten of `fineweb-like` is distinct), and copies share too few 5-grams to collide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.schema import make_text, view_text
from tamiz.sources import ParquetSource, list_splits, read_split

LETTER_SHARE = 1 / 80
GROUP_ROWS = 1000
FILE_BYTES = 32_000_000  # of text
_LOW, _HIGH = ord("a"), ord("z")


def list_inputs(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns, or the sample that comes with tamiz when there are none."""
    return tuple(patterns) or (f"{resources.files('tamiz.sample')}/*.parquet",)


def read_documents(patterns: Sequence[str], n_bytes: int) -> pa.Table:
    """text and url of the first readable documents, up to about `n_bytes` of text."""
    spec = ParquetSource("benchmark", tuple(patterns))
    tables, total = [], 0
    for split in list_splits(spec).splits:
        for chunk in read_split(split, spec):
            readable = chunk.batch.filter(chunk.batch.column("quarantine").is_null())
            sizes = np.diff(view_text(readable.column("text"))[0])
            n = int(np.searchsorted(np.cumsum(sizes), n_bytes - total)) + 1
            tables.append(pa.Table.from_batches([readable.slice(0, n)]).select(["text", "url"]))
            total += int(sizes[:n].sum())
            if total >= n_bytes:
                return pa.concat_tables(tables)
    return pa.concat_tables(tables)


def add_noise(text: pa.LargeStringArray, copy: int) -> pa.LargeStringArray:
    """The texts with noise number `copy`; number 0 is none."""
    if copy == 0:
        return text
    offsets, data = view_text(text)
    random = np.random.default_rng(copy)
    noisy = data[offsets[0] : offsets[-1]].copy()
    chosen = random.integers(0, len(noisy), int(len(noisy) * LETTER_SHARE))
    chosen = chosen[(noisy[chosen] >= _LOW) & (noisy[chosen] <= _HIGH)]
    noisy[chosen] = random.integers(_LOW, _HIGH + 1, len(chosen), dtype=np.uint8)
    return make_text(offsets - offsets[0], noisy)


def iterate_copies(documents: pa.Table, n_bytes: int) -> Iterator[pa.Table]:
    """The documents, then copies of them with fresh noise, until there are `n_bytes` of text; a group at a time."""
    total, copy = 0, 0
    while total < n_bytes:
        for first in range(0, len(documents), GROUP_ROWS):
            group = documents.slice(first, GROUP_ROWS).combine_chunks()
            text = add_noise(group.column("text").combine_chunks(), copy)
            yield group.set_column(0, "text", text)
            total += int(np.diff(view_text(text)[0]).sum())
            if total >= n_bytes:
                return
        copy += 1


def write_input(documents: pa.Table, n_bytes: int, folder: Path) -> str:
    """Parquet files with about `n_bytes` of text in `folder`, made anew; the pattern that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    number, room, writer = 0, 0, None
    for group in iterate_copies(documents, n_bytes):
        if room <= 0 or writer is None:
            if writer:
                writer.close()
            writer = pq.ParquetWriter(folder / f"{number:03d}.parquet", group.schema, compression="zstd")
            number, room = number + 1, FILE_BYTES
        writer.write_table(group)
        room -= group.column("text").nbytes
    if writer:
        writer.close()
    return str(folder / "*.parquet")
