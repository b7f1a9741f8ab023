"""What a build costs: each stage alone, the whole from reading to packed shards, growth with the input, start-up.

    python -m benchmarks.bench [PARQUET ...]        (make bench, make bench BENCH_INPUT='data/*.parquet')

Without files: the sample that comes with tamiz, repeated with fresh noise to 50 MB of text. Prints one table per
question and writes them to benchmarks/out/bench.md and .json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.builds import TAMIZ, Built, build, write_config
from benchmarks.machine import describe_machine
from benchmarks.noise import list_inputs, read_documents, write_input
from benchmarks.stages import STAGES, Cost, measure_stage

OUT = Path(__file__).parent / "out"
STAGE_BYTES = 50_000_000  # of text, for the stages
UNIT_BYTES = 25_000_000  # of text, for 1x of the whole build
GROWTH = (1, 4, 16)
WORKERS = (1, 2)

NAMES = {
    "words": "words alone",
    "language": "language, whole document",
    "chain": "filter chain (language, Gopher x 2, C4, FineWeb)",
    "minhash": "MinHash: normalise, 5-grams, 112 hashes, bands",
    "redaction": "e-mail and IP redaction",
    "tokenize": "tokenize (Tekken)",
    "parquet": "Parquet read + write, zstd",
    "whole": "whole build, read to packed shards",
    "net": "whole build, net of start-up",
}
BOUNDS = {
    "language": (0.10, 0.05),
    "chain": (0.20, 0.11),
    "minhash": (0.05, 0.03),
    "redaction": (0.02, None),
    "tokenize": (0.06, 0.03),
    "parquet": (0.05, None),
    "whole": (0.40, 0.25),
    "net": (0.40, 0.25),
}
"""CPU seconds per MB of text: (must reach, aim)."""
STARTUP_MAX, HELP_MAX, SPEEDUP_MIN = 3.0, 0.5, 1.8

Row = tuple[object, ...]


def format_table(header: Sequence[str], rows: Iterable[Row]) -> str:
    """A Markdown table with columns of even width, numbers to the right."""
    cells = [list(header), *[[_show(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "| "
        + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _show(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.3f}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else str(cell)


def make_row(key: str, workers: int, cost: Cost) -> Row:
    """stage, workers, CPU s/MB, MB/s wall, documents/s, peak MB, must reach, aim."""
    megabytes = cost.n_bytes / 1e6
    must, aim = BOUNDS.get(key, (None, None))
    rates = (cost.cpu / megabytes, megabytes / cost.wall, int(cost.documents / cost.wall))
    return (NAMES[key], workers, *rates, int(cost.peak / 1e6), must, aim)


def measure_growth(documents: Path, unit_bytes: int) -> list[Built]:
    """The whole build of 1x, 4x and 16x the input with one worker, and of 1x and 16x with two."""
    builds = []
    table = read_documents([str(documents / "*.parquet")], unit_bytes)
    for times in GROWTH:
        pattern = write_input(table, times * unit_bytes, OUT / "growth")
        config = write_config(pattern, OUT / "growth.yaml")
        for workers in WORKERS if times in (GROWTH[0], GROWTH[-1]) else WORKERS[:1]:
            builds.append(build(config, OUT / "run", workers))
            say(f"  {times}x, {workers} workers: {builds[-1].cpu:.1f} CPU-s, {builds[-1].wall:.1f} s")
    return builds


def subtract(large: Built, small: Built) -> Cost:
    """What the documents cost that `large` has more than `small`: start-up drops out."""
    return Cost(
        large.cpu - small.cpu,
        large.wall - small.wall,
        large.n_bytes - small.n_bytes,
        large.documents - small.documents,
        large.peak,
    )


def measure_startup() -> dict[str, float]:
    """Wall seconds of `tamiz --help`, and CPU and wall seconds of what a worker does first; the best of three."""
    helps = [_time([str(TAMIZ), "--help"])[0] for _ in range(3)]
    starts = []
    for _ in range(3):
        wall, output = _time([sys.executable, "-m", "benchmarks.startup"])
        steps = json.loads(output.splitlines()[-1])
        starts.append((wall, {f"worker: {step} (CPU s)": cpu for step, (cpu, _) in steps.items()}))
    wall, steps = min(starts, key=lambda start: start[0])
    return {"tamiz --help (wall s)": min(helps), "worker start-up (wall s)": wall, **steps}


def _time(command: list[str]) -> tuple[float, str]:
    started = time.perf_counter()
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return time.perf_counter() - started, output


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    machine = describe_machine()
    inputs = list_inputs(sys.argv[1:])
    OUT.mkdir(exist_ok=True)
    pattern = write_input(read_documents(inputs, STAGE_BYTES), STAGE_BYTES, OUT / "input")
    costs = {(stage, n): _say_cost(stage, n, measure_stage(stage, [pattern], n)) for stage in STAGES for n in WORKERS}
    builds = measure_growth(OUT / "input", UNIT_BYTES)
    one, four, sixteen = (built for built in builds if built.workers == 1)
    one_by_two, sixteen_by_two = (built for built in builds if built.workers == 2)
    for workers, first, last in ((1, one, sixteen), (2, one_by_two, sixteen_by_two)):
        costs["whole", workers] = Cost(last.cpu, last.wall, last.n_bytes, last.documents, last.peak)
        costs["net", workers] = subtract(last, first)
    startup = measure_startup()
    rows = [make_row(key, n, costs[key, n]) for key in NAMES for n in WORKERS]
    header = ("stage", "workers", "CPU s/MB", "MB/s", "documents/s", "peak MB", "must reach", "aim")
    growth_header = ("input", "workers", "MB", "documents", "packed", "CPU s", "wall s", "CPU s/MB", "peak MB")
    growth = [
        (f"{round(b.n_bytes / one.n_bytes)}x", b.workers, b.n_bytes / 1e6, b.documents, b.packed, b.cpu, b.wall,
         b.cpu / (b.n_bytes / 1e6), int(b.peak / 1e6))
        for b in builds
    ]  # fmt: skip
    speedup = (costs["net", 1].wall / costs["net", 1].n_bytes) / (costs["net", 2].wall / costs["net", 2].n_bytes)
    facts: list[Row] = [(name, seconds) for name, seconds in startup.items()]
    facts += [
        (f"two workers over one, net of start-up (>= {SPEEDUP_MIN})", speedup),
        ("two workers over one, 16x", sixteen.wall / sixteen_by_two.wall),
        ("CPU s/MB of 4x over 16x, net of start-up",
         _slope(four, one) / _slope(sixteen, four)),
    ]  # fmt: skip
    text = "\n\n".join(
        [
            format_table(("machine", ""), machine.items()),
            format_table(header, rows),
            format_table(growth_header, growth),
            format_table((f"start-up (< {STARTUP_MAX} s a worker, < {HELP_MAX} s for --help) and workers", ""), facts),
        ]
    )
    print(text)
    (OUT / "bench.md").write_text(text + "\n")
    record = {
        "machine": machine,
        "inputs": list(inputs),
        "stages": [dict(zip(header, row, strict=True)) for row in rows],
        "growth": [built._asdict() for built in builds],
        "facts": dict(facts),
    }
    (OUT / "bench.json").write_text(json.dumps(record, indent=1) + "\n")


def _say_cost(stage: str, workers: int, cost: Cost) -> Cost:
    say(f"  {stage}, {workers} workers: {cost.cpu / (cost.n_bytes / 1e6):.4f} CPU-s/MB")
    return cost


def _slope(large: Built, small: Built) -> float:
    return (large.cpu - small.cpu) / (large.n_bytes - small.n_bytes)


if __name__ == "__main__":
    main()
