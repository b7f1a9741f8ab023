"""How near copies collide on average over draws of the hash functions: tamiz and datasketch against the S-curve.

    python -m benchmarks.dedup_draws [FILE.parquet ...] [--documents 60] [--draws 30]

One draw says little: documents with many copies in common make the pairs of a bin collide together or not at all, so
that the share of a bin moves by two to five points from draw to draw. Means over draws tell a worse scheme from bad
luck; `+-` is the standard error of the mean. The pairs are those of dedup_quality, with fewer documents.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.dedup_quality import BINS, SHAPE, list_shingles, make_copies, name_bands, read_documents, sample_paths
from benchmarks.minhash import find_pairs
from tamiz.dedup import signature
from tamiz.measure.normal import scan_normal_words
from tamiz.schema import F64, U64, view_text

SIMILARITY_MIN = 0.3


def draw_tamiz(texts: list[str], seed: int) -> U64:
    """Band keys with other hash functions of tamiz's family."""
    generator, top = np.random.RandomState(seed), int(signature.MERSENNE_61)
    count = SHAPE.bands * SHAPE.rows
    drawn = tuple(generator.randint(low, top, dtype=np.uint64, size=count) for low in (1, 0))
    words = scan_normal_words(*view_text(pa.array(texts, pa.large_string())))
    with mock.patch.object(signature, "make_permutations", return_value=drawn):
        return signature.make_band_keys(words.doc_offsets, words.hashes, SHAPE)[0]


def draw_datasketch(texts: list[str], seed: int) -> U64:
    """Band keys from datasketch's signatures with this seed."""
    from datasketch import MinHash

    values = []
    for own in list_shingles(texts):
        one = MinHash(num_perm=SHAPE.bands * SHAPE.rows, seed=seed)
        if own:
            one.update_batch(own)
        values.append(one.hashvalues.copy())
    return name_bands(np.stack(values))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--documents", type=int, default=60)
    parser.add_argument("--draws", type=int, default=30)
    arguments = parser.parse_args()
    texts, _ = make_copies(read_documents(arguments.files or sample_paths(), arguments.documents))
    pairs = find_pairs(scan_normal_words(*view_text(pa.array(texts, pa.large_string()))), SHAPE.ngram)
    bins = [(low, high) for low, high in pairwise(BINS) if low >= SIMILARITY_MIN]
    masks = [(pairs.jaccard >= low) & (pairs.jaccard < high if high < 1 else pairs.jaccard <= 1) for low, high in bins]

    def measure(draw: Callable[[list[str], int], U64]) -> F64:
        """float64[draws, bins]: the share of each bin's pairs that collide."""
        shares = []
        for seed in range(1, arguments.draws + 1):
            keys = draw(texts, seed)
            shares.append([(keys[pairs.left[m]] == keys[pairs.right[m]]).any(axis=1).mean() for m in masks])
        return np.array(shares)

    found = {"tamiz": measure(draw_tamiz), "datasketch": measure(draw_datasketch)}
    print(f"{len(texts):,} documents, {arguments.draws} draws of the hash functions of each")
    print(f"{'true Jaccard':16}{'pairs':>8}{'S-curve':>10}" + "".join(f"{name:>20}" for name in found))
    for i, (low, high) in enumerate(bins):
        curve = float(np.mean([SHAPE.match_probability(s) for s in pairs.jaccard[masks[i]]]))
        shares = ""
        for values in found.values():
            error = values[:, i].std(ddof=1) / np.sqrt(arguments.draws)
            shares += f"{values[:, i].mean():>11.2%} +- {error:>5.2%}"
        print(f"{low:.2f} to {high:.2f}    {masks[i].sum():>8,}{curve:>10.2%}{shares}")


if __name__ == "__main__":
    main()
