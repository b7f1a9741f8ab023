"""What reading from the Hub costs: fetching ahead, the shared pace and the cache, against a slow Hub on this machine.

Run from the project's root: python -m benchmarks.hub

The documents of `fineweb-like` are read in windows of 2 MB, each of which takes the server the seconds of the first
column (so that windows of 16 MB would take eight times as long), and sifted by FineWeb's rules in one process.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.sources.pace import Pace
from tamiz.sources.range_cache import RangeCache
from tests.hub_server import HubClient, HubServer

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "fineweb-like" / "data"
SECONDS = (0.0, 0.25, 0.5, 1.0)
N_REPEATS = 2  # the better of two: the machine is shared

READ = """
import time
from pathlib import Path
from tamiz.config import Config
from tamiz.run.settings import make_sift_settings
from tamiz.run.measuring import sift_batch
from tamiz.sources import HubSource, list_splits, ranges, read_split, table
table._WINDOW_BYTES = 2 << 20
if not hasattr(ranges.RangeFile, "keep_both"):
    ranges.RangeFile.keep_both = ranges.RangeFile.keep
keep = ranges.RangeFile.keep_both
ranges.RangeFile.keep = keep if is_ahead else lambda self, now, following=(): keep(self, now)
rules = {"gopher_repetition": {}, "gopher_quality": {}, "c4": {}, "fineweb_quality": {}}
source = {"s": {"kind": "hub", "dataset": "org/like"}}
settings = make_sift_settings(Config(name="b", source="s", sources=source, rules=rules), Path("."))
spec = HubSource("s", "org/like")
splits = list_splits(spec).splits
best = None
for repeat in range(n_repeats + is_first):
    wall, cpu, n_bytes = time.monotonic(), time.process_time(), 0
    for split in splits:
        for chunk in read_split(split, spec):
            n_bytes += sift_batch(settings, chunk.batch).tally["bytes/read"]
    seen = (time.monotonic() - wall, time.process_time() - cpu, n_bytes)
    if repeat >= is_first:  # the first one compiles
        best = seen if best is None else min(best, seen)
result = best
"""


def measure_ahead() -> None:
    """Wall and CPU seconds with and without fetching ahead."""
    with tempfile.TemporaryDirectory() as folder, HubServer() as hub, HubClient(hub.endpoint) as client:
        tables = [pq.read_table(path, columns=["text", "url"]) for path in sorted(DATA.glob("*/*.parquet"))]
        pq.write_table(pa.concat_tables(tables), f"{folder}/train.parquet", row_group_size=400, compression="zstd")
        hub.commit("org/like", Path(folder))
        print("s per window | fetched ahead: wall s, CPU s, MB/s | when needed: wall s, CPU s, MB/s | gain")
        is_first = True
        for seconds in SECONDS:
            hub.seconds = seconds
            rates = []
            for is_ahead in (True, False):
                names = {"is_ahead": is_ahead, "is_first": is_first, "n_repeats": N_REPEATS}
                wall, cpu, n_bytes = client.run(READ, **names)
                is_first = False
                rates.append(n_bytes / 1e6 / wall)
                print(f"{seconds:12.2f} | " if is_ahead else "", f"{wall:.2f} {cpu:.2f} {rates[-1]:.1f} | ", end="")
            print(f"{rates[0] / rates[1]:.2f}")


def measure_pace() -> None:
    """CPU seconds of what the pace does for one request."""
    with tempfile.TemporaryDirectory() as folder:
        for pace in (Pace(folder), Pace(None)):
            pace.note_answer()
            started, n = time.process_time(), 20_000
            for _ in range(n):
                pace.wait()
                pace.has_answered()
                pace.note_answer()
            print(f"pace: {(time.process_time() - started) / n * 1e6:.1f} us a request")


def measure_cache() -> None:
    """CPU seconds of saving and of loading a window of 16 MB."""
    with tempfile.TemporaryDirectory() as folder:
        cache, data, n = RangeCache(folder, 1 << 30), bytes(range(256)) * (1 << 16), 20
        for name, use in (("save", lambda i: cache.save(str(i), data)), ("load", lambda i: cache.load(str(i)))):
            started = time.process_time()
            for i in range(n):
                use(i)
            seconds = time.process_time() - started
            print(f"cache: {name} {n * len(data) / 1e6 / seconds:.0f} MB per CPU s")


if __name__ == "__main__":
    measure_pace()
    measure_cache()
    measure_ahead()
