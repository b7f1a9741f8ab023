"""MinHash against the truth: how often pairs of a known Jaccard similarity collide, and which documents are removed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse

from benchmarks.reference import read_reference
from tamiz.dedup.duplicates import NONE, find_losers, merge_losers
from tamiz.dedup.signature import MinHashShape, make_band_keys
from tamiz.measure.normal import NormalWords, scan_normal_words
from tamiz.schema import I64, U64, view_text

FINEWEB = MinHashShape(ngram=5, bands=14, rows=8)


class Pairs(NamedTuple):
    """Pairs of documents (left < right) that share a shingle, with the Jaccard similarity of their shingle sets."""

    left: I64
    right: I64
    jaccard: np.ndarray[tuple[int], np.dtype[np.float64]]


class Collisions(NamedTuple):
    """Of `n` pairs in a range of similarity: the share that collides, and the share the curve expects of them."""

    label: str
    n: int
    seen: float
    expected: float


def join_text(kept: pa.Table) -> pa.LargeStringArray:
    """The text column as one array."""
    return kept["text"].combine_chunks()


def find_pairs(words: NormalWords, ngram: int) -> Pairs:
    """All pairs with a shingle in common, by counting common shingles in a sparse matrix."""
    rows, columns = [], []
    for d in range(len(words.doc_offsets) - 1):
        hashes = words.hashes[words.doc_offsets[d] : words.doc_offsets[d + 1]]
        shingles = _hash_shingles(hashes, ngram)
        rows.append(np.full(len(shingles), d))
        columns.append(shingles)
    _, index = np.unique(np.concatenate(columns), return_inverse=True)
    row = np.concatenate(rows)
    matrix = scipy.sparse.csr_array((np.ones(len(row), dtype=np.int32), (row, index)))
    common = scipy.sparse.triu(matrix @ matrix.T, k=1).tocoo()
    size = np.asarray(matrix.sum(axis=1)).ravel()
    union = size[common.row] + size[common.col] - common.data
    return Pairs(common.row.astype(np.int64), common.col.astype(np.int64), common.data / union)


def _hash_shingles(hashes: U64, ngram: int) -> U64:
    """The set of shingles of one document as 64-bit numbers, by a polynomial of its own (not the signature's hash)."""
    if len(hashes) < ngram:
        return np.zeros(0, dtype=np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(hashes, ngram)
    total = np.zeros(len(windows), dtype=np.uint64)
    for k in range(ngram):
        total = total * np.uint64(0xD6E8FEB86659FD93) + (windows[:, k] ^ (windows[:, k] >> np.uint64(29)))
    return np.unique(total)


def count_collisions(pairs: Pairs, keys: U64, shape: MinHashShape) -> list[Collisions]:
    """Observed and expected share of colliding pairs by range of similarity."""
    hits = (keys[pairs.left] == keys[pairs.right]).any(axis=1)
    expected = np.array([shape.match_probability(s) for s in pairs.jaccard])
    ranges = {">= 0.9": pairs.jaccard >= 0.9, ">= 0.8": pairs.jaccard >= 0.8, "<= 0.5": pairs.jaccard <= 0.5}
    return [
        Collisions(label, int(mask.sum()), float(hits[mask].mean()), float(expected[mask].mean()))
        for label, mask in ranges.items()
        if mask.any()
    ]


def find_removed(keys: U64, n_shingles: I64) -> I64:
    """lost_to int64[n] of each document by its bands alone, NONE when it stays."""
    documents = np.flatnonzero(n_shingles > 0).astype(np.int64)
    bands = [find_losers(documents, np.ascontiguousarray(keys[documents, i])) for i in range(keys.shape[1])]
    return merge_losers(len(keys), [], bands).lost_to


def explain_differences(removed: I64, clusters: list[int | None], theirs: list[bool | None], pairs: Pairs) -> list[str]:
    """One line per document that only one of the two removes."""
    similarity = {(int(a), int(b)): float(s) for a, b, s in zip(*pairs, strict=True)}
    members: dict[int, list[int]] = {}
    for i, cluster in enumerate(clusters):
        if cluster is not None:
            members.setdefault(cluster, []).append(i)
    lines = []
    for i, (lost_to, gone) in enumerate(zip(removed.tolist(), theirs, strict=True)):
        if (lost_to != NONE) == bool(gone):
            continue
        cluster = members.get(clusters[i] if clusters[i] is not None else -1, [])
        if lost_to != NONE:
            jaccard = similarity.get((lost_to, i), 0.0)
            why = "the root that union by size keeps" if lost_to in cluster else "another hash function, another chance"
            lines.append(f"document {i}: only tamiz removes it, for {lost_to} (Jaccard {jaccard:.3f}): {why}")
        else:
            near = max(((similarity.get((min(i, j), max(i, j)), 0.0), j) for j in cluster if j != i), default=(0.0, -1))
            earlier = max(((similarity.get((j, i), 0.0), j) for j in cluster if j < i), default=(0.0, -1))
            why = (
                "resembles only later ones"
                if near[1] > i and earlier[0] < 0.5
                else "another hash function, another chance"
            )
            lines.append(
                f"document {i}: only the reference removes it, cluster of {len(cluster)}, nearest {near[1]} "
                f"(Jaccard {near[0]:.3f}), nearest earlier {earlier[1]} ({earlier[0]:.3f}): {why}"
            )
    return lines


def compare_with_reference(kept: pa.Table, origins: list[str]) -> tuple[int, int, int, list[str]]:
    """(documents both looked at, removed by tamiz, by the reference, explained differences) after the chain."""
    reference = read_reference()
    theirs = dict(zip(origins, reference["minhash_after_chain_removed"].to_pylist(), strict=True))
    clusters = dict(zip(origins, reference["minhash_after_chain_cluster"].to_pylist(), strict=True))
    kept = kept.filter(pa.array([theirs[origin] is not None for origin in kept["origin"].to_pylist()]))
    names = kept["origin"].to_pylist()
    words = scan_normal_words(*view_text(join_text(kept)))
    keys, n_shingles = make_band_keys(words.doc_offsets, words.hashes, FINEWEB)
    removed = find_removed(keys, n_shingles)
    lines = explain_differences(
        removed, [clusters[n] for n in names], [theirs[n] for n in names], find_pairs(words, FINEWEB.ngram)
    )
    return len(names), int((removed != NONE).sum()), sum(bool(theirs[n]) for n in names), lines


def measure_collisions(text: pa.LargeStringArray) -> list[Collisions]:
    """All pairs of these documents that share a shingle."""
    words = scan_normal_words(*view_text(text))
    keys, _ = make_band_keys(words.doc_offsets, words.hashes, FINEWEB)
    return count_collisions(find_pairs(words, FINEWEB.ngram), keys, FINEWEB)


def print_minhash(kept: pa.Table, batches: list[pa.RecordBatch], verdicts: pa.Table) -> None:
    """The MinHash half of the parity report."""
    everything = pa.concat_arrays([batch.column("text") for batch in batches])
    print("MinHash, 14 bands of 8 rows over 5-grams: pairs of documents by true Jaccard of their shingle sets")
    for collisions in measure_collisions(everything):
        print(
            f"  {collisions.label}: {collisions.n:,} pairs, {collisions.seen:.2%} collide, the curve says "
            f"{collisions.expected:.2%}"
        )
    n, ours, theirs, lines = compare_with_reference(kept, verdicts["origin"].to_pylist())
    print(f"after the chain: {n:,} documents, tamiz removes {ours}, the reference {theirs}; differences: {len(lines)}")
    print("\n".join(f"  {line}" for line in lines))
