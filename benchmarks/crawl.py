"""Made-up crawls of any size: the sample's texts over and over, each time with its words shuffled in its own way."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "src" / "tamiz" / "sample"
OPTIONS = (
    "--set", "rules={gopher_quality: {}, gopher_repetition: {}, c4: {require_terminal_punctuation: false}}",
    "--set", "pack.shard_tokens=400000", "--set", "pack.sequence_length=4096",
)  # fmt: skip


def write_crawl(folder: Path, n_files: int, n_copies: int, first: int = 0) -> int:
    """`n_files` Parquet files of `n_copies` shuffled samples each (0.67 MB of text a copy); bytes of text."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [t for path in sorted(SAMPLE.glob("*.parquet")) for t in pq.read_table(path)["text"].to_pylist() if t]
    n_bytes = 0
    for number in range(n_files):
        shuffled = []
        for copy in range(n_copies):
            rng = random.Random((first + number) * n_copies + copy)
            for text in texts:
                words = text.split(" ")
                for at in range(0, len(words) - 6, 6):
                    words[at : at + 5] = rng.sample(words[at : at + 5], 5)
                shuffled.append(" ".join(words))
        n_bytes += sum(len(text.encode()) for text in shuffled)
        pq.write_table(pa.table({"text": shuffled}), folder / f"{first + number:05d}.parquet", row_group_size=1000)
    return n_bytes
