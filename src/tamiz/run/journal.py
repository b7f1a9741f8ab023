"""`progress.json`: what a build is doing, published every few seconds, for `tamiz status`, the report, and other eyes.

It is no proof of anything (done records are) and nothing is decided by it; it goes on after a restart, so that a
stage's seconds are those of all its runs together.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import time
from pathlib import Path
from typing import Any

from tamiz.store import Folder

PROGRESS = "progress.json"
SECONDS = 2.0  # between two publications
STALE_SECONDS = 30.0  # without one, the build is taken for dead


class Journal:
    """The state of one build. Stages are kept as long as their place stays, so that a resumed stage adds up."""

    def __init__(self, folder: Folder, n_workers: int, places: dict[str, str]) -> None:
        self._folder = folder
        old = read_journal(folder) or {"stages": {}}
        stages = {name: facts for name, facts in old["stages"].items() if facts["place"] == places.get(name)}
        self._places = places
        self._record: dict[str, Any] = {
            "state": "running",
            "message": "",
            "stage": None,
            "workers": n_workers,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": time.time(),
            "stages": stages,
        }
        self._published = self._entered = 0.0

    def begin(self, stage: str, total_bytes: int, done_bytes: int) -> None:
        """A stage begins, or goes on: `done_bytes` of about `total_bytes` of text were done before."""
        zero: dict[str, Any] = dict.fromkeys(("seconds", "documents", "bytes", "tokens", "peak_worker_bytes"), 0)
        facts = self._record["stages"].setdefault(stage, {"place": self._places[stage], **zero})
        facts |= {"total_bytes": total_bytes, "done_bytes": done_bytes, "session_bytes": 0, "session_seconds": 0.0}
        self._record["stage"] = stage
        self._entered = time.monotonic()
        self._publish()

    def add(self, documents: int, n_bytes: int, tokens: int) -> None:
        """Count what was done since the last call."""
        facts = self._record["stages"][self._record["stage"]]
        for key, count in (
            ("documents", documents),
            ("bytes", n_bytes),
            ("tokens", tokens),
            ("session_bytes", n_bytes),
        ):
            facts[key] += count
        facts["peak_worker_bytes"] = max(facts["peak_worker_bytes"], _measure_largest_worker())
        if time.monotonic() - self._published >= SECONDS:
            self._take_time()
            self._publish()

    def end(self) -> None:
        """The stage ended, well or not."""
        self._take_time()
        self._publish()

    def close(self, state: str, message: str = "") -> None:
        """The build ended: `state` is finished, failed or interrupted."""
        self._record |= {"state": state, "message": message, "stage": None if state == "finished" else self.stage}
        self._publish()

    @property
    def stage(self) -> str | None:
        """The stage at work."""
        stage: str | None = self._record["stage"]
        return stage

    def _take_time(self) -> None:
        now = time.monotonic()
        facts = self._record["stages"][self._record["stage"]]
        for key in ("seconds", "session_seconds"):
            facts[key] = round(facts[key] + now - self._entered, 3)
        self._entered = now

    def _publish(self) -> None:
        self._published = time.monotonic()
        self._record["updated"] = time.time()
        self._folder.publish_bytes(PROGRESS, (json.dumps(self._record, indent=1) + "\n").encode())


def read_journal(folder: Folder) -> dict[str, Any] | None:
    """The record as published last, with `state` "stopped" if it says "running" and has been silent; None if none."""
    if not folder.exists(PROGRESS):
        return None
    record: dict[str, Any] = json.loads(folder.read_bytes(PROGRESS))
    record["silent_seconds"] = max(time.time() - record["updated"], 0.0)
    if record["state"] == "running" and record["silent_seconds"] > STALE_SECONDS:
        record["state"] = "stopped"
    return record


def _measure_largest_worker() -> int:
    """Resident bytes of the largest worker process right now; 0 where /proc does not tell."""
    largest = 0
    for process in multiprocessing.active_children():
        try:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue
        largest = max(largest, pages * os.sysconf("SC_PAGE_SIZE"))
    return largest
