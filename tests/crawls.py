"""Larger inputs made of the bundled sample."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SAMPLE = Path(__file__).resolve().parents[1] / "src" / "tamiz" / "sample"


def read_sample() -> list[str]:
    """The texts of the sample that are no white space."""
    texts = [t for path in sorted(SAMPLE.glob("*.parquet")) for t in pq.read_table(path)["text"].to_pylist()]
    return [text for text in texts if text and text.strip()]


def shuffle_words(texts: Iterable[str], rng: random.Random) -> list[str]:
    """Each text with its words shuffled by fives: other documents that pass the same rules."""
    shuffled = []
    for text in texts:
        words = text.split(" ")
        for at in range(0, len(words) - 6, 6):
            words[at : at + 5] = rng.sample(words[at : at + 5], 5)
        shuffled.append(" ".join(words))
    return shuffled


def write_crawl(folder: Path, seeds: Iterable[int]) -> None:
    """A Parquet file `<number>.parquet` for each seed, with the sample shuffled by it, in row groups of 50."""
    texts = read_sample()
    for number, seed in enumerate(seeds):
        shuffled = pa.table({"text": shuffle_words(texts, random.Random(seed))})
        pq.write_table(shuffled, folder / f"{number}.parquet", row_group_size=50)
