"""What Ray costs over the local engine: the same build on the same cores with each, in turns.

Run from the project's root: python -m benchmarks.engines [--files 8] [--copies 40] [--rounds 3] [--workers 2]

Prints wall seconds of every build (Ray's include starting a cluster and ending it), and the CPU seconds that the units
report. A copy is 0.67 MB of text; a split of real size has 256 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.crawl import OPTIONS, ROOT, write_crawl
from tamiz.run.ledger import read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.simulate import count_cpu_seconds
from tamiz.store import Folder

ENGINES = {"local": ("--engine", "local"), "ray": ("--engine", "ray", "--address", "local")}


def build(crawl: Path, run_dir: Path, workers: int, engine: str) -> tuple[float, float]:
    """(wall seconds, CPU seconds of the units)."""
    paths = json.dumps([f"{crawl}/*.parquet"])
    tamiz = Path(sys.executable).with_name("tamiz")
    command = [tamiz, "build", "configs/fineweb-raw.yaml", "--run-dir", run_dir, "--workers", str(workers)]
    command += ["--set", f"sources.mine.paths={paths}", *OPTIONS, *ENGINES[engine]]
    started = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    folder = Folder(run_dir)
    record = read_plan_record(folder)
    assert record is not None
    units = [unit for place in record["places"].values() for unit in read_done(folder, place).values()]
    return seconds, count_cpu_seconds(units)


def main() -> None:
    """Builds in turns, so that both engines see the same neighbours, and the ratio of the fastest."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("files", 8), ("copies", 40), ("rounds", 3), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    walls: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    cpus: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    with tempfile.TemporaryDirectory() as name:
        crawl = Path(name) / "crawl"
        n_bytes = write_crawl(crawl, arguments.files, arguments.copies)
        print(f"{arguments.files} splits of {n_bytes / arguments.files / 1e6:.1f} MB, {arguments.workers} workers")
        for number in range(arguments.rounds):
            for engine in ENGINES:
                wall, cpu = build(crawl, Path(name) / f"{engine}-{number}", arguments.workers, engine)
                walls[engine].append(wall)
                cpus[engine].append(cpu)
                print(f"{engine:6} {wall:8.1f} s wall {cpu:8.1f} CPU-s in units", flush=True)
    print(f"overhead, wall: {min(walls['ray']) / min(walls['local']) - 1:.1%}")
    print(f"overhead, CPU in units: {min(cpus['ray']) / min(cpus['local']) - 1:.1%}")


if __name__ == "__main__":
    main()
