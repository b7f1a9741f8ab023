"""Whole builds by the command a user types, in a process of their own: CPU of driver and workers, wall, peak memory."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.stages import FINEWEB

TAMIZ = Path(sys.executable).with_name("tamiz")
_LOOK_SECONDS = 0.2


class Built(NamedTuple):
    """One build: bytes of text and documents read, CPU and wall seconds, peak memory of all its processes in bytes."""

    workers: int
    n_bytes: int
    documents: int
    packed: int
    cpu: float
    wall: float
    peak: int


def write_config(pattern: str, path: Path) -> Path:
    """FineWeb's recipe on this input: language, the four recipes, redaction, exact and near copies, Tekken."""
    config = {
        "name": "bench",
        "seed": 17,
        "source": "input",
        "sources": {"input": {"kind": "parquet", "paths": [pattern]}},
        **FINEWEB,
        "redact": ["email", "ip"],
        "pack": {"tokenizer": "tekken"},
    }
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def build(config: Path, run_dir: Path, n_workers: int) -> Built:
    """Build into `run_dir`, made anew."""
    shutil.rmtree(run_dir, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [TAMIZ, "build", str(config), "--run-dir", str(run_dir), "--workers", str(n_workers)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, measure_tree(process.pid))
        time.sleep(_LOOK_SECONDS)
    wall = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{config}: exit code {process.returncode}\n{process.stderr.read() if process.stderr else ''}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # its workers' too: it has waited for them
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    summary = json.loads((run_dir / "report" / "summary.json").read_text())
    documents, n_bytes = summary["documents"], summary["bytes"]
    return Built(n_workers, n_bytes["read"], documents["read"], documents["packed"], cpu, wall, peak)


def measure_tree(pid: int) -> int:
    """Resident bytes of a process and all below it; pages that several of them share count once each (PSS)."""
    total = 0
    for process in _list_tree(pid):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def _list_tree(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [pid]
    for process in found:
        found += children.get(process, [])
    return found
