"""Is `tamiz plan --simulate` right? Predict a 16 times larger input from a small run, then run it.

Run from the project's root: python -m benchmarks.simulate [--files 8] [--copies 4]

Prints predicted and measured CPU seconds by stage, published bytes and tokens. Bounds: 15 % for CPU time, 5 % for bytes
and tokens. One worker, local engine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.crawl import OPTIONS, ROOT, write_crawl
from tamiz.run.ledger import read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.simulate import Input, Machines, count_cpu_seconds, measure_costs, predict
from tamiz.store import Folder

FACTOR = 16
MEMORY = 2_000_000_000  # of a worker of dedup
SHARD_TOKENS = 400_000


def build(crawl: Path, run_dir: Path) -> Folder:
    """A finished run over the crawl."""
    paths = json.dumps([f"{crawl}/*.parquet"])
    tamiz = Path(sys.executable).with_name("tamiz")
    command = [tamiz, "build", "configs/fineweb-raw.yaml", "--run-dir", run_dir, "--workers", "1"]
    command += ["--set", f"sources.mine.paths={paths}", *OPTIONS]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return Folder(run_dir)


def main() -> None:
    """Two runs and a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--copies", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        write_crawl(top / "small", arguments.files, arguments.copies)
        write_crawl(top / "large", arguments.files * FACTOR, arguments.copies)
        costs = measure_costs(build(top / "small", top / "run-small"), SHARD_TOKENS, MEMORY)
        large = build(top / "large", top / "run-large")
        actual = measure_costs(large, SHARD_TOKENS, MEMORY)
        n_read = costs.stages["sift"].measure * FACTOR
        predicted = predict(costs, Input("large", n_read, 0.0), Machines(1, 1, 10.0, 0.0, 0.0))
        record = read_plan_record(large)
        assert record is not None
        done = {stage: read_done(large, record["places"][stage]).values() for stage in costs.stages}
    seconds = {stage: count_cpu_seconds(units) for stage, units in done.items()}
    n_bytes = sum(output.n_bytes for units in done.values() for unit in units for output in unit.outputs.values())
    rows = [(f"CPU s, {stage}", predicted.cpu_seconds[stage], seconds[stage]) for stage in done]
    rows += [
        ("CPU s", sum(predicted.cpu_seconds.values()), sum(seconds.values())),
        ("MB read", n_read / 1e6, actual.stages["sift"].measure / 1e6),
        ("MB published", predicted.stored_bytes / 1e6, n_bytes / 1e6),
        ("million tokens", predicted.tokens / 1e6, actual.stages["pack"].measure / 1e6),
    ]
    print(f"{'':16}{'predicted':>12}{'measured':>12}{'error':>9}")
    for name, wanted, seen in rows:
        print(f"{name:16}{wanted:12,.2f}{seen:12,.2f}{wanted / seen - 1:9.1%}")


if __name__ == "__main__":
    main()
