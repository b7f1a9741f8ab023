"""Which near copies are found: real documents with planted edits, tamiz beside datasketch's MinHashLSH.

    python -m benchmarks.dedup_quality [FILE.parquet ...] [--documents 300]

Without files: the sample that comes with tamiz. Every document gets edited copies, six kinds of edit at five strengths;
a pair's truth is the Jaccard similarity of its two sets of 5-word shingles. Both get the same normalised words, the
same 14 bands of 8 rows and the same rule (a document that shares a band with an earlier one is removed), so what
differs is hash functions, time and memory. Two times are given: making normalised words (and for datasketch shingles)
of the text, by tamiz's kernel and by Python's re, unicodedata and split; then signatures and lookups.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import string
import time
import unicodedata
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.dedup_scale import forget_peak, read_peak
from benchmarks.minhash import find_pairs
from tamiz.dedup.duplicates import NONE, find_losers, merge_losers
from tamiz.dedup.signature import MinHashShape, make_band_keys
from tamiz.measure.normal import scan_normal_words
from tamiz.schema import F64, I64, U64, view_text

SHAPE = MinHashShape(ngram=5, bands=14, rows=8)
STRENGTHS = (0.05, 0.1, 0.2, 0.35, 0.5)
BINS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0)
_NUMBER = re.compile(r"\d+([.,]\d+)?")
_MARKS = str.maketrans(string.punctuation, " " * len(string.punctuation))
_BOILERPLATE = (
    "We use cookies to give you the best experience on this site. ",
    "Sign up for our newsletter and never miss a story again. ",
    "All rights reserved. Terms of use, privacy policy and contact. ",
    "Share this page with your friends or leave a comment below. ",
)


def delete_words(text: str, share: float, rng: random.Random) -> str:
    return " ".join(word for word in text.split(" ") if rng.random() >= share / 3)


def swap_words(text: str, share: float, rng: random.Random) -> str:
    words = text.split(" ")
    for _ in range(int(len(words) * share / 6)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        words[i], words[j] = words[j], words[i]
    return " ".join(words)


def shuffle_sentences(text: str, share: float, rng: random.Random) -> str:
    sentences = text.split(". ")
    chosen = [i for i in range(len(sentences)) if rng.random() < share]
    moved = rng.sample(chosen, len(chosen))
    for i, sentence in zip(chosen, [sentences[i] for i in moved], strict=True):
        sentences[i] = sentence
    return ". ".join(sentences)


def add_boilerplate(text: str, share: float, rng: random.Random) -> str:
    added = ""
    while len(added) < share * len(text):
        added += f"{rng.choice(_BOILERPLATE)}Page {rng.choice('abcdefgh')}{rng.choice('xyz')}. "
    return text + "\n" + added


def change_marks(text: str, share: float, rng: random.Random) -> str:
    words = text.split(" ")
    return " ".join(w.upper() if rng.random() < share else w + "," if rng.random() < share else w for w in words)


def move_paragraphs(text: str, share: float, rng: random.Random) -> str:
    words = text.split(" ")
    for _ in range(max(1, int(share * 10))):
        i, n = rng.randrange(len(words)), rng.randint(10, 60)
        block, rest = words[i : i + n], words[:i] + words[i + n :]
        at = rng.randint(0, len(rest))
        words = rest[:at] + block + rest[at:]
    return " ".join(words)


EDITS: dict[str, Callable[[str, float, random.Random], str]] = {
    "words deleted": delete_words,
    "words swapped": swap_words,
    "sentences shuffled": shuffle_sentences,
    "boilerplate added": add_boilerplate,
    "case and marks": change_marks,
    "paragraphs moved": move_paragraphs,
}


class Result(NamedTuple):
    """`keys` [n, bands]: two equal numbers are a shared band; CPU seconds; peak bytes above those at the start."""

    keys: np.ndarray[tuple[int, int], np.dtype[np.uint64]]
    removed: I64
    text_seconds: float
    seconds: float
    n_bytes: int


def run_tamiz(texts: list[str]) -> Result:
    """Text to removed documents."""
    column = pa.array(texts, pa.large_string())
    scan_normal_words(*view_text(column.slice(0, 2)))  # compiled or loaded
    warm = scan_normal_words(*view_text(column.slice(0, 2)))
    make_band_keys(warm.doc_offsets, warm.hashes, SHAPE)
    forget_peak()
    before, started = read_peak(), time.process_time()
    words = scan_normal_words(*view_text(column))
    middle = time.process_time()
    keys, n_shingles = make_band_keys(words.doc_offsets, words.hashes, SHAPE)
    documents = np.flatnonzero(n_shingles > 0).astype(np.int64)
    bands = [find_losers(documents, np.ascontiguousarray(keys[documents, i])) for i in range(SHAPE.bands)]
    removed = np.flatnonzero(merge_losers(len(texts), [], bands).lost_to != NONE)
    return Result(keys, removed, middle - started, time.process_time() - middle, read_peak() - before)


def run_datasketch(texts: list[str]) -> Result:
    """Shingles to removed documents."""
    from datasketch import MinHash, MinHashLSH

    shingles = list(list_shingles(texts))
    started = time.process_time()
    for text in texts:
        words = list_words(text)
        [" ".join(words[k : k + SHAPE.ngram]).encode() for k in range(len(words) - SHAPE.ngram + 1)]
    text_seconds = time.process_time() - started
    forget_peak()
    before, started = read_peak(), time.process_time()
    index = MinHashLSH(num_perm=SHAPE.bands * SHAPE.rows, params=(SHAPE.bands, SHAPE.rows))
    removed, signatures = [], []
    for i, own in enumerate(shingles):
        signature = MinHash(num_perm=SHAPE.bands * SHAPE.rows)
        if own:
            signature.update_batch(own)
            if index.query(signature):
                removed.append(i)
            index.insert(i, signature)
        signatures.append(signature.hashvalues.copy())
    seconds, n_bytes = time.process_time() - started, read_peak() - before
    removed_rows = np.array(removed, dtype=np.int64)
    return Result(name_bands(np.stack(signatures)), removed_rows, text_seconds, seconds, n_bytes)


def name_bands(signatures: U64) -> U64:
    """uint64[n, bands]: a number for each band of signatures uint64[n, bands * rows], equal for equal bands."""
    bands = signatures.reshape(len(signatures), SHAPE.bands, SHAPE.rows)
    names = [np.unique(bands[:, i], axis=0, return_inverse=True)[1].ravel() for i in range(SHAPE.bands)]
    return np.stack(names, axis=1).astype(np.uint64)


def list_words(text: str) -> list[str]:
    """The words of FineWeb's normal form, by Python's own means, split at blanks only."""
    text = _NUMBER.sub("0", text.lower()).translate(_MARKS)
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn").split()


def list_shingles(texts: list[str]) -> Iterator[list[bytes]]:
    """Of each document: its shingles as the bytes of their words' hashes."""
    words = scan_normal_words(*view_text(pa.array(texts, pa.large_string())))
    for d in range(len(texts)):
        data = words.hashes[words.doc_offsets[d] : words.doc_offsets[d + 1]].tobytes()
        yield [data[8 * k : 8 * (k + SHAPE.ngram)] for k in range(len(data) // 8 - SHAPE.ngram + 1)]


def read_documents(paths: list[Path], n: int) -> list[str]:
    """Texts of at least 100 words, no two alike."""
    texts = []
    for path in paths:
        texts += [text for text in pq.read_table(path, columns=["text"])["text"].to_pylist() if text]
    unique = dict.fromkeys(text for text in texts if len(text.split()) >= 100)
    return list(unique)[:n]


def sample_paths() -> list[Path]:
    """The files of the sample that comes with tamiz."""
    return sorted(Path(str(resources.files("tamiz.sample"))).glob("*.parquet"))


def make_copies(originals: list[str]) -> tuple[list[str], list[tuple[int, str, float]]]:
    """The originals and their edited copies behind them; of each its original's number, kind of edit and strength."""
    texts = list(originals)
    labels: list[tuple[int, str, float]] = [(i, "original", 0.0) for i in range(len(texts))]
    rng = random.Random(1)
    for original in range(len(originals)):
        for kind, edit in EDITS.items():
            for strength in STRENGTHS:
                texts.append(edit(texts[original], strength, rng))
                labels.append((original, kind, strength))
    return texts, labels


def print_tables(labels: list[tuple[int, str, float]], texts: list[str], results: dict[str, Result]) -> None:
    """Collisions by true similarity, then recall, precision and cost, then removals by kind of edit."""
    words = scan_normal_words(*view_text(pa.array(texts, pa.large_string())))
    pairs = find_pairs(words, SHAPE.ngram)
    hits = {name: (r.keys[pairs.left] == r.keys[pairs.right]).any(axis=1) for name, r in results.items()}
    print(f"{len(texts):,} documents, {len(pairs.left):,} pairs that share a shingle")
    print(f"{'true Jaccard':16}{'pairs':>10}{'S-curve':>10}" + "".join(f"{name:>12}" for name in results))
    for low, high in pairwise(BINS):
        mask = (pairs.jaccard >= low) & (pairs.jaccard < high if high < 1 else pairs.jaccard <= 1)
        if mask.any():
            curve = float(np.mean([SHAPE.match_probability(s) for s in pairs.jaccard[mask]]))
            shares = "".join(f"{hit[mask].mean():>12.2%}" for hit in hits.values())
            print(f"{low:.2f} to {high:.2f}    {mask.sum():>10,}{curve:>10.2%}{shares}")
    best: F64 = np.zeros(len(texts))  # of each document: its greatest similarity with an earlier one
    np.maximum.at(best, pairs.right, pairs.jaccard)
    print(f"\n{'removed documents':28}" + "".join(f"{name:>12}" for name in results))
    for threshold in (0.72, 0.8):
        true = best >= threshold
        gone = {name: np.isin(np.arange(len(texts)), r.removed) for name, r in results.items()}
        print(f"recall at {threshold:.2f}              " + "".join(f"{g[true].mean():>12.2%}" for g in gone.values()))
        print(f"precision at {threshold:.2f}           " + "".join(f"{true[g].mean():>12.2%}" for g in gone.values()))
    print(f"{'CPU s, words or shingles':28}" + "".join(f"{r.text_seconds:>12.2f}" for r in results.values()))
    print(f"{'CPU s, signatures, lookups':28}" + "".join(f"{r.seconds:>12.2f}" for r in results.values()))
    speeds = [len(texts) / (r.text_seconds + r.seconds) for r in results.values()]
    print(f"{'documents per CPU second':28}" + "".join(f"{speed:>12,.0f}" for speed in speeds))
    print(f"{'MB of memory':28}" + "".join(f"{r.n_bytes / 1e6:>12,.0f}" for r in results.values()))
    tamiz, other = results.values()
    alone = other.seconds / tamiz.seconds
    print(f"tamiz is {speeds[0] / speeds[1]:.0f} times as fast, signatures and lookups alone {alone:.0f} times")
    print("\nshare of copies removed, by edit and strength (mean true Jaccard with the original)")
    print(f"{'':20}{'strength':>9}{'Jaccard':>9}" + "".join(f"{name:>12}" for name in results))
    similarity = {(int(a), int(b)): float(s) for a, b, s in zip(*pairs, strict=True)}
    for kind in EDITS:
        for strength in STRENGTHS:
            chosen = [i for i, label in enumerate(labels) if label[1:] == (kind, strength)]
            mean = np.mean([similarity.get((labels[i][0], i), 0.0) for i in chosen])
            shares = "".join(f"{np.isin(chosen, r.removed).mean():>12.1%}" for r in results.values())
            print(f"{kind:20}{strength:>9.0%}{mean:>9.2f}{shares}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--documents", type=int, default=300)
    arguments = parser.parse_args()
    texts, labels = make_copies(read_documents(arguments.files or sample_paths(), arguments.documents))
    context = multiprocessing.get_context("spawn")
    results = {}
    for name, run in {"tamiz": run_tamiz, "datasketch": run_datasketch}.items():
        with context.Pool(1) as pool:  # a process each, so that memory can be told apart
            results[name] = pool.apply(run, (texts,))
    print_tables(labels, texts, results)


if __name__ == "__main__":
    main()
