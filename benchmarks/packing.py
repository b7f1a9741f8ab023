"""Cost of the pack stage, step by step, on one core.

Run from the project's root: python benchmarks/packing.py [PARQUET ...] [--tokenizer tekken] [--sequence-length 4096]

Each step is timed once over all documents, after a warm-up on ten of them that compiles the kernels; the tokenizer is
loaded anew after it, because its cache of words makes a second pass twice as fast. A second table fills a million
documents of made-up lengths. Not called tokenize.py: a script's folder comes first on the import path, and the standard
library has a module of that name.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

os.environ["FASTOKENS_BPE_THREADS"] = os.environ["RAYON_NUM_THREADS"] = "1"  # read when the library loads

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.pack.decode import check_shard, decode_documents, make_token_bytes, read_documents, strip_boundaries
from tamiz.pack.fill import fill_best_fit, fill_concat
from tamiz.pack.shards import add_boundaries, build_shard, choose_dtype, is_holdout
from tamiz.pack.tokenizer import Tokenizer, load_tokenizer
from tamiz.schema import DOC_ID, I64

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT.parent / "shared" / "data" / "fineweb-like"
CEILING = 0.06  # CPU-s per MB for tokenization, the most we accept; 0.03 is the aim

T = TypeVar("T")


class Clock:
    """CPU seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, step: str, call: Callable[[], T]) -> T:
        start = time.process_time()
        result = call()
        self.seconds[step] = time.process_time() - start
        return result


def pack_and_unpack(tokenizer: Tokenizer, text: pa.LargeStringArray, sequence_length: int) -> tuple[Clock, int, float]:
    """The clock of every step, the number of tokens, and the share of padding; checks that the texts come back."""
    clock = Clock()
    data = np.random.default_rng(0).integers(0, 256, len(text) * 16, dtype=np.uint8)
    doc_ids = pa.FixedSizeBinaryArray.from_buffers(DOC_ID, len(text), [None, pa.py_buffer(data)])
    dtype = choose_dtype(tokenizer.n_vocab, "auto")
    values, offsets = clock.time("encode", lambda: tokenizer.encode(text))
    clock.time("is_holdout", lambda: is_holdout(doc_ids, 17, 0.002))
    values, offsets = clock.time("add_boundaries", lambda: add_boundaries(values, offsets, None, tokenizer.eos_id))
    pieces = clock.time("fill_best_fit", lambda: fill_best_fit(np.diff(offsets), sequence_length))
    table = clock.time(
        "build_shard",
        lambda: build_shard(values, offsets, doc_ids, pieces, sequence_length, tokenizer.pad_id, dtype),
    )
    problems = clock.time(
        "check_shard",
        lambda: check_shard(
            table, tokenizer.n_vocab, sequence_length, bos_id=None, eos_id=tokenizer.eos_id, pad_id=tokenizer.pad_id
        ),
    )
    back = clock.time("read_documents", lambda: read_documents(table))
    tokens = make_token_bytes(tokenizer)
    bare = clock.time("strip_boundaries", lambda: strip_boundaries(back.values, back.offsets, None, tokenizer.eos_id))
    decoded = clock.time("decode_documents", lambda: decode_documents(tokens, *bare))
    found = dict(zip(back.doc_ids.to_pylist(), decoded.to_pylist(), strict=True))
    wanted = dict(zip(doc_ids.to_pylist(), text.cast(pa.large_binary()).to_pylist(), strict=True))
    if problems or found != wanted:
        raise SystemExit(f"the texts do not come back: {problems}")
    return clock, len(values), 1 - len(values) / (len(table) * sequence_length)


def fill_made_up_lengths(n: int, sequence_length: int) -> None:
    """Log-normal lengths: median 490 tokens, mean 810, about FineWeb's."""
    lengths: I64 = np.random.default_rng(0).lognormal(6.2, 1.0, n).astype(np.int64) + 1
    print(f"\nfill: {n:,} documents, {lengths.sum():,} tokens\n")
    print(f"{'':15}{'CPU-s':>8}{'rows':>10}{'padding':>10}{'documents cut':>15}")
    for fill in (fill_best_fit, fill_concat):
        start = time.process_time()
        pieces = fill(lengths, sequence_length)
        seconds = time.process_time() - start
        n_rows = int(pieces.row[-1]) + 1
        n_cut = len(np.unique(pieces.document[pieces.piece > 0]))
        padding = 1 - int(lengths.sum()) / (n_rows * sequence_length)
        print(f"{fill.__name__:15}{seconds:8.3f}{n_rows:10,}{padding:10.4%}{n_cut / n:15.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=sorted((SAMPLE / "data").glob("*/*.parquet")))
    parser.add_argument("--tokenizer", default="tekken")
    parser.add_argument("--sequence-length", type=int, default=4096)
    options = parser.parse_args()
    if not options.files:
        raise SystemExit(
            "no Parquet files with a column `text` given, and the shared sample is not beside the checkout"
        )
    texts = [pq.read_table(path, columns=["text"])["text"].cast(pa.large_string()) for path in options.files]
    text = pa.concat_arrays([chunk for column in texts for chunk in column.chunks])
    megabytes = sum(len(document.encode()) for document in text.to_pylist()) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        clock.time("load, making the file", lambda: load_tokenizer(options.tokenizer, Path(folder)))
        pack_and_unpack(load_tokenizer(options.tokenizer, Path(folder)), text.slice(0, 10), options.sequence_length)
        tokenizer = clock.time("load again", lambda: load_tokenizer(options.tokenizer, Path(folder)))
        steps, n_tokens, padding = pack_and_unpack(tokenizer, text, options.sequence_length)
    print(f"{options.tokenizer}: {len(text):,} documents, {megabytes:.1f} MB, {n_tokens:,} tokens with EOS, ", end="")
    print(f"{padding:.3%} padding at {options.sequence_length}; the texts came back\n")
    for step, seconds in clock.seconds.items():
        print(f"{step:22}{seconds:8.3f} CPU-s")
    for step, seconds in steps.seconds.items():
        print(f"{step:22}{seconds:8.3f} CPU-s{seconds / megabytes:10.4f} CPU-s/MB")
    fill_made_up_lengths(1_000_000, options.sequence_length)
    if steps.seconds["encode"] / megabytes > CEILING:
        raise SystemExit(f"encode is over {CEILING} CPU-s/MB")


if __name__ == "__main__":
    main()
