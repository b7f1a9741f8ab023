"""The local engine: worker processes on this machine.

Processes, not threads: a crash of one must not end the run. They are spawned, not forked: pyarrow's and the
tokenizer's threads do not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_int64
from typing import Any

import pyarrow as pa

from tamiz.errors import RunError, TamizError
from tamiz.run.engine import MEMORY_BYTES, ONE_THREAD, R, Report, U, Work
from tamiz.run.ledger import start_meter

TRIES = 3  # times a unit may kill its worker before the run stops
_POLL_SECONDS = 0.5

_counters: Any = None


class LocalEngine:
    """`n_workers` processes, started at the first unit and kept for all stages."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._context = multiprocessing.get_context("spawn")
        self._counters = self._context.Array(c_int64, 3)
        self._seen = [0, 0, 0]
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self, work: Work[U, R], units: Iterable[U], report: Report, memory_bytes: int = MEMORY_BYTES
    ) -> Iterator[tuple[U, R]]:
        """See Engine. A unit whose worker died is tried again alone, so that the blame falls on the right one.

        `memory_bytes` is not looked at: the user chose the number of workers.
        """
        waiting = deque(units)
        suspects: deque[tuple[U, int]] = deque()  # (unit, times its worker died)
        running: dict[Future[R], tuple[U, int]] = {}
        while waiting or suspects or running:
            while waiting and not suspects and len(running) < 2 * self.n_workers:
                self._submit(running, work, waiting.popleft(), 0)
            if suspects and not running:
                self._submit(running, work, *suspects.popleft())
            done, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            self._tell(report)
            for future in done:
                unit, deaths = running.pop(future)
                try:
                    result = future.result()
                except BrokenProcessPool:
                    lost = [(unit, deaths), *running.values()]
                    running.clear()
                    self._blame(lost, suspects)
                    break
                except TamizError:
                    raise
                except Exception as error:  # the worker's edge: a defect in a unit names the unit
                    raise RunError(f"{unit}: {type(error).__name__}: {error}\n{_format_cause(error)}") from error
                yield unit, result

    def close(self) -> None:
        """Kill the workers: units are published whole or not at all, so there is nothing to wait for."""
        if self._pool is None:
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()
        self._pool = None

    def _submit(self, running: dict[Future[R], tuple[U, int]], work: Work[U, R], unit: U, deaths: int) -> None:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.n_workers, self._context, initializer=_start_worker, initargs=(self._counters,)
            )
        running[self._pool.submit(_work_unit, work, unit)] = (unit, deaths)

    def _blame(self, lost: list[tuple[U, int]], suspects: deque[tuple[U, int]]) -> None:
        """The pool broke: whoever ran alone did it; of several, all are suspects and will run one by one."""
        self._pool = None
        alone = len(lost) == 1
        for unit, deaths in lost:
            deaths += alone
            if deaths >= TRIES:
                raise RunError(
                    f"{unit}: its worker died {TRIES} times (out of memory, or a crash in native code); what is "
                    "published stays valid. Give the machine more memory or take this split out, then run again"
                )
            suspects.append((unit, deaths))

    def _tell(self, report: Report) -> None:
        now = self._counters[:]
        report(*(new - old for new, old in zip(now, self._seen, strict=True)))
        self._seen = now


def _start_worker(counters: Any) -> None:
    """In a new worker: leave Ctrl-C to the driver, end with it, and keep native libraries on one thread."""
    global _counters
    _counters = counters
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(ONE_THREAD)
    pa.set_cpu_count(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # returns when the driver is gone, however it went
        os._exit(1)


def _count(documents: int, n_bytes: int, tokens: int) -> None:
    with _counters.get_lock():
        _counters[0] += documents
        _counters[1] += n_bytes
        _counters[2] += tokens


def _work_unit(work: Work[U, R], unit: U) -> R:
    start_meter()
    return work(unit, _count)


def _format_cause(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
