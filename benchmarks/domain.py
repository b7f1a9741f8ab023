"""Precision, recall and cost of the domain filter with lexicons/cyber.tsv, on documents whose origin is known.

Run from the project's root: python benchmarks/domain.py [--score-min 20] [--terms-min 2]

Truth is the collection a document comes from: "cyber" (advisories, ATT&CK, OWASP, ...) against "web" (English pages of
every kind). It is a floor, not the truth: some "web" pages are about cybersecurity, and some "cyber" documents are not
(a list of machine-learning courses, "this library is unmaintained"). Precision depends on the mix, so the share of web
pages kept is printed too: on an open crawl, where perhaps one page in a hundred is in the domain, that is what counts.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.measure.domain import DomainMetrics, build_matcher, read_lexicon, score_domain
from tamiz.measure.words import IS_SYMBOL, scan_words
from tamiz.schema import I64, U8, view_text

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "fineweb-like"
BATCH = 1024


class Sample(NamedTuple):
    """n documents: offsets int64[n + 1] into UTF-8 bytes, words of each int64[n], group of each str[n]."""

    offsets: I64
    data: U8
    n_words: I64
    group: npt.NDArray[np.str_]


def read_sample(folder: Path) -> Sample:
    """The documents of `folder` with the group provenance.parquet gives each."""
    truth = pq.read_table(folder / "provenance.parquet", columns=["id", "group"])
    group = dict(zip(truth["id"].to_pylist(), truth["group"].to_pylist(), strict=True))
    table = pa.concat_tables(
        pq.read_table(path, columns=["id", "text"]) for path in sorted((folder / "data").glob("*/*.parquet"))
    )
    text = pa.concat_arrays(table["text"].cast(pa.large_string()).chunks)
    offsets, data = view_text(text)
    return Sample(offsets, data, count_words(offsets, data), np.array([group[id_] for id_ in table["id"].to_pylist()]))


def count_words(offsets: I64, data: U8) -> I64:
    """The words of each document that are not symbols, int64[n]."""
    words = scan_words(offsets, data)
    running = np.concatenate([[0], np.cumsum(words.flags & IS_SYMBOL == 0)])
    n_words: I64 = np.diff(running[words.doc_offsets])
    return n_words


def score_sample(sample: Sample, lexicon: Path) -> tuple[DomainMetrics, float]:
    """The metrics of every document, and the CPU seconds per MB they took once compiled."""
    matcher = build_matcher(read_lexicon(lexicon.read_text(encoding="utf-8"), lexicon.name))
    score_domain(matcher, sample.offsets[:2], sample.data, sample.n_words[:1])
    start = time.process_time()
    parts = [
        score_domain(matcher, sample.offsets[i : i + BATCH + 1], sample.data, sample.n_words[i : i + BATCH])
        for i in range(0, len(sample.n_words), BATCH)
    ]
    seconds = time.process_time() - start
    metrics = DomainMetrics(np.concatenate([part.score for part in parts]), np.concatenate([p.terms for p in parts]))
    return metrics, seconds / (len(sample.data) / 1e6)


def format_row(sample: Sample, metrics: DomainMetrics, score_min: float, terms_min: int) -> str:
    """One line of the table: thresholds, precision, recall, share and number of web documents kept, others kept."""
    kept = (metrics.score >= score_min) & (metrics.terms >= terms_min)
    cyber, web = sample.group == "cyber", sample.group == "web"
    hits, misses = int((kept & cyber).sum()), int((kept & web).sum())
    other = int((kept & ~cyber & ~web).sum())
    return (
        f"{score_min:9.0f} {terms_min:9d} {hits / max(hits + misses, 1):9.3f} {hits / cyber.sum():6.3f} "
        f"{misses / web.sum():8.2%} {misses:8d} {other:10d}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--score-min", type=float, default=20.0)
    parser.add_argument("--terms-min", type=int, default=2)
    chosen = parser.parse_args()
    if not DATA.is_dir():
        raise SystemExit(f"no documents to score: {DATA} is missing")
    sample = read_sample(DATA)
    metrics, cost = score_sample(sample, ROOT / "lexicons" / "cyber.tsv")
    print(f"{len(sample.n_words)} documents, {len(sample.data) / 1e6:.1f} MB, {cost:.4f} CPU-s/MB")
    print("score_min terms_min precision recall web kept web docs other docs")
    print(format_row(sample, metrics, chosen.score_min, chosen.terms_min), " <- chosen")
    for terms_min in (1, 2, 3, 4):
        for score_min in (5, 10, 15, 20, 25, 30, 40):
            print(format_row(sample, metrics, score_min, terms_min))


if __name__ == "__main__":
    main()
