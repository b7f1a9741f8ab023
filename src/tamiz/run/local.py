"""The local engine: worker processes on this machine.

Processes, not threads: a crash of one must not end the run. They are spawned, not forked: pyarrow's and the
tokenizer's threads do not survive a fork. Each has a pipe and counters of its own: one that is killed in the middle of
a message or an addition spoils nothing of the others, who go on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from ctypes import c_int64
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, Generic, NamedTuple

import pyarrow as pa

from tamiz.errors import RunError, TamizError, WorkerDiedError
from tamiz.run.engine import MEMORY_BYTES, ONE_THREAD, R, Report, U, Work
from tamiz.run.ledger import start_meter

TRIES = 3  # times a unit may kill its worker before the run stops
_POLL_SECONDS = 0.5


class _Failure(NamedTuple):
    """What a worker sends instead of a result: an error made for the user, or the text of one that was not."""

    known: TamizError | None
    text: str


class _Tried(NamedTuple, Generic[U]):
    """A unit and the exit codes of the workers that died of it."""

    unit: U
    deaths: tuple[int | None, ...]


class _Worker:
    """A process that works the units sent to it, one at a time."""

    def __init__(self, context: SpawnContext) -> None:
        self._counters: Any = context.RawArray(c_int64, 3)  # written by the worker only, so that no lock is needed
        self._seen = [0, 0, 0]
        self.pipe, end = context.Pipe()
        self._process = context.Process(target=_serve, args=(end, self._counters), daemon=True)
        self._process.start()
        end.close()  # or the pipe would not end with the process

    def tell(self, report: Report) -> None:
        """Report what it counted since the last time."""
        now = list(self._counters)
        report(*(new - old for new, old in zip(now, self._seen, strict=True)))
        self._seen = now

    def kill(self) -> int | None:
        """End it; its exit code, which is its own if it was dying already."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
        return self._process.exitcode


class LocalEngine:
    """At most `n_workers` processes, started as units come and kept for all stages."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []

    def run(
        self, work: Work[U, R], units: Iterable[U], report: Report, memory_bytes: int = MEMORY_BYTES
    ) -> Iterator[tuple[U, R]]:
        """See Engine. A unit whose worker died is tried again by a new one, up to TRIES times.

        `memory_bytes` is not looked at: the user chose the number of workers.
        """
        waiting = deque(_Tried(unit, ()) for unit in units)
        running: dict[Connection, tuple[_Worker, _Tried[U]]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.n_workers:
                    worker = self._find_idle(running)
                    running[worker.pipe] = worker, waiting.popleft()
                    with contextlib.suppress(OSError):  # it died meanwhile: its pipe tells below
                        worker.pipe.send((work, running[worker.pipe][1].unit))
                ready = wait(list(running), _POLL_SECONDS)
                for worker, _ in running.values():
                    worker.tell(report)
                for pipe in [pipe for pipe in running if pipe in ready]:
                    worker, tried = running.pop(pipe)
                    try:
                        outcome = pickle.loads(pipe.recv_bytes())
                    except (EOFError, OSError):
                        waiting.appendleft(_blame(tried, self._bury(worker)))
                        continue
                    if isinstance(outcome, _Failure):
                        raise outcome.known or RunError(f"{tried.unit}: {outcome.text}")
                    yield tried.unit, outcome
        finally:
            for worker, _ in running.values():  # nobody waits for their units any more
                self._bury(worker)

    def close(self) -> None:
        """Kill the workers: units are published whole or not at all, so there is nothing to wait for."""
        for worker in self._workers:
            worker.kill()
        self._workers = []

    def _find_idle(self, running: dict[Connection, tuple[_Worker, _Tried[U]]]) -> _Worker:
        for worker in self._workers:
            if worker.pipe not in running:
                return worker
        self._workers.append(_Worker(self._context))
        return self._workers[-1]

    def _bury(self, worker: _Worker) -> int | None:
        self._workers.remove(worker)
        return worker.kill()


def _blame(tried: _Tried[U], exit_code: int | None) -> _Tried[U]:
    deaths = (*tried.deaths, exit_code)
    if len(deaths) >= TRIES:
        raise WorkerDiedError(
            f"{tried.unit}: its worker died {TRIES} times (out of memory, or a crash in native code); what is "
            "published stays valid. Give the machine more memory or take this split out, then run again",
            deaths,
        )
    return _Tried(tried.unit, deaths)


def _serve(pipe: Connection, counters: Any) -> None:
    """A worker's life: leave Ctrl-C to the driver, end with it, and keep native libraries on one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(ONE_THREAD)
    pa.set_cpu_count(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def count(documents: int, n_bytes: int, tokens: int) -> None:
        counters[0] += documents
        counters[1] += n_bytes
        counters[2] += tokens

    while True:
        work, unit = pipe.recv()
        pipe.send_bytes(_work_unit(work, unit, count))


def _work_unit(work: Work[U, Any], unit: U, count: Report) -> bytes:
    """The result or failure, pickled."""
    start_meter()
    try:
        return pickle.dumps(work(unit, count))
    except TamizError as error:
        return pickle.dumps(_Failure(error, ""))
    except Exception as error:  # the worker's edge: a defect in a unit names the unit
        cause = "".join(traceback.format_exception(error))
        return pickle.dumps(_Failure(None, f"{type(error).__name__}: {error}\n{cause}"))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # returns when the driver is gone, however it went
        os._exit(1)
