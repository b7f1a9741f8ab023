"""Dedup of 1, 10 and 50 million documents from their band files on: time, memory, disk, and recall of planted copies.

    python -m benchmarks.dedup_scale [MILLIONS ...] [--older MILLIONS] [--false-positives 0.0001] [--memory 2000000000]

The band files hold what sift would publish: random keys, and planted copies that share some bands or the exact hash
with an earlier document (a fifth of the documents, one bucket in a hundred of a thousand copies). Everything behind
them is the product: the units, the worker processes, the published tables. With --older the first documents are of an
older run, which this one is built against; with --false-positives keys are compared by Bloom filters, and what is
removed besides the planted copies is their error.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.dedup.signature import MinHashShape
from tamiz.run.dedup import DedupSettings
from tamiz.run.deduplication import clear_work, work_through
from tamiz.run.engine import Report
from tamiz.run.layout import KeptPart, forecast_dedup, make_layout
from tamiz.run.ledger import Done
from tamiz.run.local import LocalEngine
from tamiz.run.partition import Preference
from tamiz.schema import DOC_ID, I64, U64, make_bands_schema
from tamiz.store import Folder

SHAPE = MinHashShape(5, 14, 8)
PART_DOCUMENTS = 250_000
PLANTED = 0.2
HOT_DOCUMENTS = 1_000  # copies of one document, once per 10 parts


class Planted(NamedTuple):
    """One part's keys and what was planted: `copies` are rows that must be removed."""

    keys: U64  # [n, 1 + bands], the exact hash first
    copies: I64


class Measured(NamedTuple):
    """One size: seconds of wall clock and of CPU, peak bytes of a worker and of the driver, bytes of disk."""

    n: int
    wall: float
    cpu: float
    worker_bytes: int
    driver_bytes: int
    bands_bytes: int
    work_bytes: int
    planted: int
    found: int
    others: int


def make_keys(part: int, n: int) -> U64:
    """uint64[n, 15]: the keys of a part before anything is planted, the same whenever they are asked for."""
    return np.random.default_rng(part).integers(0, 2**64, (n, 1 + SHAPE.bands), dtype=np.uint64)


def plant(part: int, n: int) -> Planted:
    """The last fifth of the rows share 3 or all bands, perhaps the exact hash, with others of an earlier part."""
    keys = make_keys(part, n)
    rng = np.random.default_rng((part, 1))
    first = n - int(n * PLANTED)
    copies = np.arange(first, n)
    original = int(rng.integers(0, part + 1))
    source = keys if original == part else make_keys(original, n)
    rows = rng.integers(0, first, len(copies))
    if part % 10 == 0:
        rows[:HOT_DOCUMENTS] = rows[0]
    shared = rng.permuted(np.tile(np.arange(SHAPE.bands) < 3, (len(copies), 1)), axis=1)
    shared[rng.random(len(copies)) < 0.5] = True
    takes = np.column_stack([rng.random(len(copies)) < 0.3, shared])
    keys[copies] = np.where(takes, source[rows], keys[copies])
    return Planted(keys, copies)


def write_parts(folder: Path, n_documents: int, n_older: int) -> list[KeptPart]:
    """The band files, and KEPT files with the one column that dedup reads of them; the first are of an older run."""
    parts = []
    for number in range(-(-n_documents // PART_DOCUMENTS)):
        n = min(PART_DOCUMENTS, n_documents - number * PART_DOCUMENTS)
        keys = plant(number, n).keys
        name = f"part-{number:05d}-000"
        names = np.zeros((n, 16), dtype=np.uint8)
        names[:, :8] = (np.arange(n, dtype=np.uint64) + np.uint64(number << 32)).view(np.uint8).reshape(n, 8)
        columns = [
            pa.FixedSizeBinaryArray.from_buffers(DOC_ID, n, [None, pa.py_buffer(names)]),
            pa.nulls(n, pa.string()),
            *(pa.array(np.ascontiguousarray(keys[:, i])) for i in range(keys.shape[1])),
        ]
        table = pa.Table.from_arrays(columns, schema=make_bands_schema(SHAPE.bands))
        pq.write_table(table, folder / f"{name}.bands.parquet", compression="zstd", row_group_size=PART_DOCUMENTS)
        pq.write_table(pa.table({"n_bytes": np.full(n, 3000, dtype=np.int64)}), folder / f"{name}.kept.parquet")
        run = str(folder) if number * PART_DOCUMENTS < n_older else None
        parts.append(KeptPart(name, "made", f"{name}.kept.parquet", f"{name}.bands.parquet", "", n, 3000 * n, run))
    return parts


def check_planted(folder: Path, parts: list[KeptPart]) -> tuple[int, int, int]:
    """(copies planted, of these removed, others removed)."""
    planted = found = others = 0
    file = pq.ParquetFile(folder / "dedup/duplicates.parquet")
    rows: dict[str, list[I64]] = {}
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=["part", "row"])
        rows.setdefault(table["part"][0].as_py(), []).append(table["row"].to_numpy())
    for number, part in enumerate(parts):
        if part.run is not None:
            continue
        copies = plant(number, part.n_kept).copies
        removed = np.concatenate([np.zeros(0, dtype=np.int64), *rows.get(part.name, [])])
        hits = len(np.intersect1d(copies, removed))
        planted, found, others = planted + len(copies), found + hits, others + len(removed) - hits
    return planted, found, others


class _Watch:
    """The largest sum of the sizes of the files under a folder, looked at twice a second."""

    def __init__(self, folder: Path) -> None:
        self.most = 0
        self._folder, self._stop = folder, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            sizes = 0
            for path in self._folder.rglob("*"):
                try:
                    sizes += path.stat().st_size
                except FileNotFoundError:
                    continue
            self.most = max(self.most, sizes)

    def end(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.most


def read_peak() -> int:
    """The most memory this process has held, in bytes (a child's ru_maxrss begins at its parent's)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def forget_peak() -> None:
    """From now on the peak is that of what comes."""
    Path("/proc/self/clear_refs").write_text("5")


def work_watched(task: tuple[Callable[[Any, Report], Done], Any], report: Report) -> tuple[Done, int]:
    """Work a unit; its record, and the worker's peak so far."""
    work, unit = task
    return work(unit, report), read_peak()


def measure_size(
    folder: Path, n_documents: int, n_older: int, memory: int, workers: int, false_positives: float | None
) -> Measured:
    """Write the band files, then time everything that comes after them."""
    parts = write_parts(folder, n_documents + n_older, n_older)
    bands_bytes = sum(path.stat().st_size for path in folder.glob("*.bands.parquet"))
    settings = DedupSettings(
        True, SHAPE, "run", Preference(), (), False, false_positives, SHAPE.threshold, memory, 0, 0
    )  # fmt: skip
    engine = LocalEngine(workers)
    (folder / "dedup").mkdir()
    watch = _Watch(folder / "dedup")

    def run_units(place: str, work: Callable[[Any, Report], Done], units: Iterable[Any], report: Report) -> list[Done]:
        nonlocal worker_bytes
        units, started, done = list(units), time.monotonic(), {}
        for (_, unit), (record, peak) in engine.run(work_watched, [(work, unit) for unit in units], report):
            done[unit.name], worker_bytes = record, max(worker_bytes, peak)
        print(f"  {work.__name__}: {len(units)} units, {time.monotonic() - started:.1f} s", flush=True)
        return [done[unit.name] for unit in units]

    worker_bytes = 0
    forget_peak()  # that of making the files
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    started = time.monotonic()
    try:
        work_through(Folder(folder), "dedup", settings, make_layout(parts, memory), (), run_units, lambda *_: None)
        wall = time.monotonic() - started
    finally:
        engine.close()  # waits for the workers, so that their use of CPU and memory is known
    driver_bytes = read_peak()
    print(f"  all: {wall:.1f} s", flush=True)
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
    work_bytes = watch.end()
    clear_work(Folder(folder), "dedup")
    return Measured(
        n_documents, wall, cpu, worker_bytes, driver_bytes, bands_bytes, work_bytes, *check_planted(folder, parts)
    )


def main() -> None:
    """Print one row per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("millions", nargs="*", type=float, default=[1, 10, 50])
    parser.add_argument("--older", type=float, default=0.0, help="millions of documents of an older run")
    parser.add_argument("--false-positives", type=float, help="by Bloom filters: the share they may take for copies")
    parser.add_argument("--memory", type=int, default=2_000_000_000, help="bytes of a worker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", help="where the files lie meanwhile [default: the system's]")
    arguments = parser.parse_args()
    rows = []
    for millions in arguments.millions:
        folder = Path(tempfile.mkdtemp(dir=arguments.folder))
        try:
            n, older = int(millions * 1e6), int(arguments.older * 1e6)
            print(f"{n:,} documents: {forecast_dedup(n + older, 1 + SHAPE.bands, arguments.memory)}", flush=True)
            size = measure_size(folder, n, older, arguments.memory, arguments.workers, arguments.false_positives)
            rows.append(size)
        finally:
            shutil.rmtree(folder)
    print(f"{'documents':>12}{'wall s':>8}{'CPU s':>8}{'us/doc':>8}{'worker MB':>11}{'driver MB':>11}"
          f"{'bands MB':>10}{'work MB':>9}{'planted':>12}{'recall':>9}{'others':>8}")  # fmt: skip
    for m in rows:
        print(f"{m.n:>12,}{m.wall:>8.1f}{m.cpu:>8.1f}{m.cpu / m.n * 1e6:>8.2f}{m.worker_bytes / 1e6:>11,.0f}"
              f"{m.driver_bytes / 1e6:>11,.0f}{m.bands_bytes / 1e6:>10,.0f}{m.work_bytes / 1e6:>9,.0f}"
              f"{m.planted:>12,}{m.found / m.planted:>9.4%}{m.others:>8,}")  # fmt: skip


if __name__ == "__main__":
    main()
