"""Main text of HTML pages: token F1 against what people marked, pages and CPU seconds, and what the guard costs.

For each engine: tamiz (bytes to text, in this process), the library alone with the same options, and tamiz behind its
guard. F1 is over the multisets of \\w+ tokens of a page, averaged over pages.

Run from the project's root: python benchmarks/extraction.py
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import trafilatura
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from tamiz.extract.guard import Guard, extract_pages
from tamiz.extract.html import PageError, extract_page

PAGES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "html" / "article_pages.parquet"
N_REPEATS = 3  # the best of three: the machine is shared
TOKEN = re.compile(r"\w+")


class Score(NamedTuple):
    f1: float
    precision: float
    recall: float


def score_page(text: str, gold: str) -> Score:
    ours, theirs = Counter(TOKEN.findall(text)), Counter(TOKEN.findall(gold))
    common = (ours & theirs).total()
    if common == 0:
        return Score(0.0, 0.0, 0.0)
    precision, recall = common / ours.total(), common / theirs.total()
    return Score(2 * precision * recall / (precision + recall), precision, recall)


def call_trafilatura(payload: bytes) -> str:
    return trafilatura.extract(payload, include_comments=False, favor_precision=True) or ""


def call_resiliparse(payload: bytes) -> str:
    page = bytes_to_str(payload, detect_encoding(payload) or "utf-8")
    return extract_plain_text(page, main_content=True, alt_texts=False, links=False, comments=False, post_meta=False)


LIBRARIES: dict[str, Callable[[bytes], str]] = {"trafilatura": call_trafilatura, "resiliparse": call_resiliparse}


def extract_here(payload: bytes, engine: str) -> str:
    try:
        return extract_page(payload, None, engine)
    except PageError:
        return ""


def time_calls(extract: Callable[[bytes], str], payloads: list[bytes]) -> tuple[list[str], float]:
    best, texts = float("inf"), [extract(payloads[0])]
    for _ in range(N_REPEATS):
        started = time.process_time()
        texts = [extract(payload) for payload in payloads]
        best = min(best, time.process_time() - started)
    return texts, best


def time_guarded(payloads: list[bytes], engine: str) -> tuple[list[str], float]:
    """CPU seconds of this process and the child for all pages, less those of a child that extracts one page."""
    column = pa.array(payloads, pa.large_binary())
    best, texts = float("inf"), []
    for _ in range(N_REPEATS):
        start = run_guarded(column[:1], engine)[1]
        texts, seconds = run_guarded(column, engine)
        best = min(best, seconds - start)
    return texts, best


def run_guarded(column: pa.LargeBinaryArray, engine: str) -> tuple[list[str], float]:
    started = os.times()
    with Guard() as guard:
        text, _ = extract_pages(column, pa.nulls(len(column), pa.string()), engine, guard)
    ended = os.times()
    return text.fill_null("").to_pylist(), sum(ended[:4]) - sum(started[:4])


def main() -> None:
    table = pq.read_table(PAGES).to_pydict()
    payloads, gold = table["html"], table["gold_text"]
    megabytes = sum(map(len, payloads)) / 1e6
    print(f"{len(payloads)} pages, {megabytes:.1f} MB of HTML")
    columns = ("F1", "precision", "recall", "no text", "CPU s/MB", "pages/CPU-s")
    print(f"{'engine':28}" + "".join(f"{column:>12}" for column in columns))
    for engine, library in LIBRARIES.items():
        rows = {
            "tamiz": time_calls(lambda payload, engine=engine: extract_here(payload, engine), payloads),
            "the library": time_calls(library, payloads),
            "tamiz, guarded": time_guarded(payloads, engine),
        }
        for name, (texts, seconds) in rows.items():
            scores = [score_page(text, right) for text, right in zip(texts, gold, strict=True)]
            means = [sum(values) / len(scores) for values in zip(*scores, strict=True)]
            print(
                f"{engine + ', ' + name:28}"
                + "".join(f"{mean:12.4f}" for mean in means)
                + f"{sum(not text for text in texts):12}{seconds / megabytes:12.4f}{len(payloads) / seconds:12.1f}"
            )


if __name__ == "__main__":
    main()
