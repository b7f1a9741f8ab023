"""MinHash against the truth: how often pairs of a known Jaccard similarity collide, and which documents are removed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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


class Removal(NamedTuple):
    """A document that only one of the two removes: why, for which document, their Jaccard similarity, and how often a
    pair that similar collides."""

    document: int
    only: str  # tamiz or reference
    why: str
    other: int
    jaccard: float
    probability: float


OTHER_ROOT = "both saw the cluster; tamiz keeps its first document, union by size another"
LATER_ONLY = "it resembles only later documents of its cluster"
OTHER_HASH = "the pair collides under one hash function and not under the other"


def explain_removals(
    removed: I64, clusters: list[int | None], theirs: list[bool | None], pairs: Pairs
) -> list[Removal]:
    """Every document that only one of the two removes. `removed` is lost_to int64[n], or NONE."""
    jaccard = {(int(a), int(b)): float(s) for a, b, s in zip(*pairs, strict=True)}
    members: dict[int, list[int]] = {}
    for i, cluster in enumerate(clusters):
        if cluster is not None:
            members.setdefault(cluster, []).append(i)
    found = []
    for i, (lost_to, gone) in enumerate(zip(removed.tolist(), theirs, strict=True)):
        if (lost_to != NONE) == bool(gone):
            continue
        cluster = members.get(clusters[i], []) if clusters[i] is not None else []  # type: ignore[arg-type]
        if lost_to != NONE:
            only, other, why = "tamiz", lost_to, OTHER_ROOT if lost_to in cluster else OTHER_HASH
        else:
            others = [j for j in cluster if j != i]
            only, other = "reference", max(others, key=lambda j: jaccard.get((min(i, j), max(i, j)), 0.0))
            if any(removed[j] == i for j in others):
                why = OTHER_ROOT
            else:
                why = OTHER_HASH if any(j < i for j in others) else LATER_ONLY
        similarity = jaccard.get((min(i, other), max(i, other)), 0.0)
        found.append(Removal(i, only, why, other, similarity, FINEWEB.match_probability(similarity)))
    return found


class Removed(NamedTuple):
    """Documents both looked at, removed by tamiz, by the reference, and the differences."""

    documents: int
    ours: int
    theirs: int
    differences: list[Removal]


def compare_removed(documents: pa.Table, origins: list[str], which: str) -> Removed:
    """`documents` (origin, text) against the reference's columns minhash_<which>_*, of which row i is origins[i]."""
    reference = read_reference()
    theirs = dict(zip(origins, reference[f"minhash_{which}_removed"].to_pylist(), strict=True))
    clusters = dict(zip(origins, reference[f"minhash_{which}_cluster"].to_pylist(), strict=True))
    names = [origin for origin in documents["origin"].to_pylist() if theirs[origin] is not None]
    documents = documents.filter(pc.is_in(documents["origin"], pa.array(names)))
    words = scan_normal_words(*view_text(join_text(documents)))
    keys, n_shingles = make_band_keys(words.doc_offsets, words.hashes, FINEWEB)
    removed = find_removed(keys, n_shingles)
    pairs = find_pairs(words, FINEWEB.ngram)
    gone = [theirs[name] for name in names]
    differences = explain_removals(removed, [clusters[name] for name in names], gone, pairs)
    return Removed(len(names), int((removed != NONE).sum()), sum(map(bool, gone)), differences)


def measure_collisions(text: pa.LargeStringArray) -> list[Collisions]:
    """All pairs of these documents that share a shingle."""
    words = scan_normal_words(*view_text(text))
    keys, _ = make_band_keys(words.doc_offsets, words.hashes, FINEWEB)
    return count_collisions(find_pairs(words, FINEWEB.ngram), keys, FINEWEB)


def print_minhash(kept: pa.Table, batches: list[pa.RecordBatch], verdicts: pa.Table) -> None:
    """The MinHash half of the parity report."""
    everything = pa.Table.from_batches(batches).select(["origin", "text"])
    print("MinHash, 14 bands of 8 rows over 5-grams: pairs of documents by true Jaccard of their shingle sets")
    for collisions in measure_collisions(join_text(everything)):
        print(
            f"  {collisions.label}: {collisions.n:,} pairs, {collisions.seen:.2%} collide, the curve says "
            f"{collisions.expected:.2%}"
        )
    origins = verdicts["origin"].to_pylist()
    for which, documents in (("all", everything), ("after_chain", kept)):
        removed = compare_removed(documents, origins, which)
        print(
            f"minhash_{which}: {removed.documents:,} documents, tamiz removes {removed.ours}, the reference "
            f"{removed.theirs}; {len(removed.differences)} differences"
        )
        for item in removed.differences:
            print(
                f"  document {item.document}: only {item.only} removes it; nearest {item.other}, Jaccard "
                f"{item.jaccard:.3f}, collides with probability {item.probability:.2f}: {item.why}"
            )
