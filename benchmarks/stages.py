"""The stages of a build one by one, each alone in its own worker processes, on batches already in memory.

CPU seconds are the workers' own between a barrier and their end: start-up and reading are not in them (but for the
Parquet stage, which is reading and writing). Peak memory is that of the largest worker with its input in it.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.kernels import name_kernel_folder

FINEWEB: dict[str, Any] = {
    "language": {"keep": ["en"], "min_score": 0.65, "recompute": True},
    "rules": {
        "gopher_repetition": {},
        "gopher_quality": {},
        "c4": {"require_terminal_punctuation": False},
        "fineweb_quality": {},
    },
}
"""FineWeb's recipe: the sections of a config."""


_WARM = (
    "Mr. O'Neill can't reach a@b.example or 8.8.8.8: see https://b.example/x?y=1 [1] (3,000.50 times) - déjà vu…\n" * 9
)
"""Made up, with what the kernels have branches for."""
_WARM_ROWS = 3000  # 3 MB: a process's first batch also pays for fresh memory


class Cost(NamedTuple):
    """What a stage took: over all workers CPU seconds, bytes of text and documents; wall seconds of the slowest."""

    cpu: float
    wall: float
    n_bytes: int
    documents: int
    peak: int  # bytes


def cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamiz"


def _make_words() -> Callable[[pa.RecordBatch], object]:
    from tamiz.measure.words import scan_words
    from tamiz.schema import view_text

    return lambda batch: scan_words(*view_text(batch.column("text")))


def _make_language() -> Callable[[pa.RecordBatch], object]:
    from benchmarks.reference import make_settings
    from tamiz.measure.fasttext_model import read_model
    from tamiz.measure.language import identify_languages, make_memo
    from tamiz.schema import view_text

    path = make_settings(cache_dir(), language=FINEWEB["language"]).language_model
    assert path is not None, "a config with a language section has a model"
    model = read_model(Path(path).read_bytes())
    memo = make_memo(model)
    return lambda batch: identify_languages(model, *view_text(batch.column("text")), memo)


def _make_chain() -> Callable[[pa.RecordBatch], object]:
    from benchmarks.reference import make_settings
    from tamiz.decide.rules import find_failures
    from tamiz.run.measuring import measure_documents

    settings = make_settings(cache_dir(), **FINEWEB)
    return lambda batch: find_failures(measure_documents(settings, batch, batch.column("text"))[0], settings.rules)


def _make_minhash() -> Callable[[pa.RecordBatch], object]:
    from tamiz.dedup.signature import MinHashShape, make_band_keys
    from tamiz.measure.normal import scan_normal_words
    from tamiz.schema import view_text

    shape = MinHashShape(ngram=5, bands=14, rows=8)

    def sign(batch: pa.RecordBatch) -> object:
        words = scan_normal_words(*view_text(batch.column("text")))
        return make_band_keys(words.doc_offsets, words.hashes, shape)

    return sign


def _make_redaction() -> Callable[[pa.RecordBatch], object]:
    from tamiz.clean.redact import redact

    return lambda batch: redact(batch.column("text"), ("email", "ip"))


def _make_tokenize() -> Callable[[pa.RecordBatch], object]:
    from tamiz.pack.tokenizer import load_tokenizer

    tokenizer = load_tokenizer("tekken", cache_dir())
    return lambda batch: tokenizer.encode(batch.column("text"))


MAKERS: dict[str, Callable[[], Callable[[pa.RecordBatch], object]]] = {
    "words": _make_words,
    "language": _make_language,
    "chain": _make_chain,
    "minhash": _make_minhash,
    "redaction": _make_redaction,
    "tokenize": _make_tokenize,
}
"""Stage -> what makes its function of a batch; called in the worker, before the clock starts."""

STAGES = (*MAKERS, "parquet")


def read_batches(patterns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The readable documents, a RAW batch at a time."""
    from tamiz.sources import ParquetSource, list_splits, read_split

    spec = ParquetSource("benchmark", tuple(patterns))
    for split in list_splits(spec).splits:
        for chunk in read_split(split, spec):
            yield chunk.batch.filter(chunk.batch.column("quarantine").is_null())


def copy_parquet(files: Sequence[Path]) -> tuple[int, int]:
    """Read text and url of the files and write them again with zstd, as a part is written: (bytes, documents)."""
    n_bytes = documents = 0
    for path in files:
        writer = None
        for batch in pq.ParquetFile(path).iter_batches(1024, columns=["text", "url"], use_threads=False):
            writer = writer or pq.ParquetWriter(io.BytesIO(), batch.schema, compression="zstd")
            writer.write_batch(batch)
            n_bytes += batch.column("text").nbytes
            documents += len(batch)
        if writer:
            writer.close()
    return n_bytes, documents


def measure_stage(stage: str, patterns: Sequence[str], n_workers: int) -> Cost:
    """Run one stage over the documents in `n_workers` processes, batches dealt in turn."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(n_workers), context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(stage, tuple(patterns), number, n_workers, barrier, results))
        for number in range(n_workers)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise SystemExit(f"stage {stage}: a worker ended with exit code {worker.exitcode}")
    costs = [results.get() for _ in workers]
    cpu, wall, n_bytes, documents, peak = zip(*costs, strict=True)
    return Cost(sum(cpu), max(wall), sum(n_bytes), sum(documents), max(peak))


def _work(stage: str, patterns: tuple[str, ...], number: int, n_workers: int, barrier: Barrier, results: Any) -> None:
    os.environ.update(FASTOKENS_BPE_THREADS="1", RAYON_NUM_THREADS="1")  # read when the library loads
    os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(cache_dir())))
    pa.set_cpu_count(1)
    if stage == "parquet":
        run = _prepare_copy(patterns, number, n_workers)
    else:
        run = _prepare_batches(MAKERS[stage](), patterns, number, n_workers)
    barrier.wait()
    cpu, wall = time.process_time(), time.perf_counter()
    n_bytes, documents = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    results.put(Cost(cpu, wall, n_bytes, documents, peak))


def _prepare_copy(patterns: tuple[str, ...], number: int, n_workers: int) -> Callable[[], tuple[int, int]]:
    from tamiz.sources import ParquetSource, list_splits

    splits = list_splits(ParquetSource("benchmark", patterns)).splits
    files = sorted({Path(split.address) for split in splits})
    copy_parquet(files[:1])
    return lambda: copy_parquet(files[number::n_workers])


def _make_warm_batch() -> pa.RecordBatch:
    from tamiz.schema import RAW

    row = dict.fromkeys(RAW.names) | {"doc_id": bytes(16), "source": "made up", "origin": "made up#0", "text": _WARM}
    return pa.RecordBatch.from_pylist([row] * _WARM_ROWS, schema=RAW)


def _prepare_batches(
    work: Callable[[pa.RecordBatch], object], patterns: tuple[str, ...], number: int, n_workers: int
) -> Callable[[], tuple[int, int]]:
    batches = [batch for i, batch in enumerate(read_batches(patterns)) if i % n_workers == number]
    work(_make_warm_batch())

    def run() -> tuple[int, int]:
        for batch in batches:
            work(batch)
        return sum(batch.column("text").nbytes for batch in batches), sum(map(len, batches))

    return run
