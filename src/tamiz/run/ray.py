"""The Ray engine: units as Ray tasks, on as many machines as the cluster has.

Ray schedules, moves a task whose worker or node is lost to another one, and ends the tasks of a dead driver. Here
remain: how many units are in flight, what each one needs, and whom to blame. The result of a unit is its small done
record; the documents go through the run directory, never through Ray's object store.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import threading
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tamiz.errors import ConfigError, InterruptedRunError, RunError, TamizError
from tamiz.run.engine import MEMORY_BYTES, ONE_THREAD, R, Report, U, Work

RETRIES = 5  # times a unit may lose its worker or node before the run stops; spot machines take some of them
_POLL_SECONDS = 0.5
_log = logging.getLogger(__name__)
_OBJECT_STORE_BYTES = 100 << 20  # of a cluster started here: only units and records pass through it


@dataclass(frozen=True)
class _Ended:
    """How a unit ended: its result or an error, and the documents, bytes and tokens it reported."""

    result: Any
    error: TamizError | None
    counts: tuple[int, int, int]


class RayEngine:
    """Tasks of one CPU each on the cluster at `address`: `auto` (the one this machine belongs to), `ray://host:port`,
    `host:port`, or `local` (one started here, with `n_workers` CPUs, and ended by `close`).

    `n_workers` bounds the units in flight; None keeps twice the cluster's CPUs in flight, so that none waits for the
    driver and an autoscaler sees demand. Raises ConfigError when Ray is not installed or there is no such cluster.
    """

    def __init__(self, address: str, n_workers: int | None) -> None:
        try:
            import ray
        except ImportError:
            raise ConfigError("run.engine is 'ray', but Ray is not installed; pip install 'tamiz[ray]'") from None
        self._ray: Any = ray
        self._most = n_workers
        self._running: dict[Any, Any] = {}  # object ref -> unit
        _connect(ray, address, n_workers)
        self._task: Any = self._ray.remote(_work_unit)
        self._environment = {**ONE_THREAD, "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", "")}

    def run(
        self, work: Work[U, R], units: Iterable[U], report: Report, memory_bytes: int = MEMORY_BYTES
    ) -> Iterator[tuple[U, R]]:
        """See Engine. `report` is told a unit's counts when it ends, and nothing twice a second."""
        self._check_room(memory_bytes)
        waiting = iter(units)
        task = self._task.options(num_cpus=1, memory=memory_bytes, max_retries=RETRIES, retry_exceptions=False)
        while True:
            for unit in islice(waiting, self._count_free()):
                # Pickled here, so that the worker can set its environment before it imports what a unit is made of.
                self._running[task.remote(self._environment, pickle.dumps((work, unit)))] = unit
            if not self._running:
                return
            with _uncover_interrupt():
                ready, _ = self._ray.wait(list(self._running), timeout=_POLL_SECONDS)
            report(0, 0, 0)  # a sign of life, however long units take
            for ref in ready:
                unit = self._running.pop(ref)
                ended = self._fetch(ref, unit)
                if ended.error is not None:
                    raise ended.error
                report(*ended.counts)
                yield unit, ended.result

    @property
    def n_workers(self) -> int:
        """The bound, or the cluster's CPUs."""
        return self._most or self._count_cores()

    def close(self) -> None:
        """Kill what runs and leave the cluster: units are published whole or not at all."""
        for ref in self._running:
            with contextlib.suppress(Exception):  # a task that cannot be cancelled ends with its driver
                self._ray.cancel(ref, force=True)
        self._running.clear()
        self._ray.shutdown()

    def _check_room(self, memory_bytes: int) -> None:
        """Say that Ray will wait for a larger node: an autoscaler may bring one."""
        rooms = [node["Resources"].get("memory", 0.0) for node in self._ray.nodes() if node["Alive"]]
        if max(rooms, default=0.0) < memory_bytes:
            _log.warning(
                "no node of the cluster offers the %.1f GB of memory that a unit needs (the largest %.1f GB); "
                "waiting for one",
                memory_bytes / 1e9,
                max(rooms, default=0.0) / 1e9,
            )

    def _count_free(self) -> int:
        """Units to submit now. The cluster is asked again each time: nodes come and go."""
        return max(0, (self._most or 2 * self._count_cores()) - len(self._running))

    def _count_cores(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _fetch(self, ref: Any, unit: object) -> _Ended:
        try:
            with _uncover_interrupt():
                ended: _Ended = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            raise RunError(
                f"{unit}: its worker or node died {RETRIES + 1} times ({type(error).__name__}: out of memory, a crash "
                "in native code, or machines taken away); what is published stays valid. Give the machines more "
                "memory or take this split out, then run again"
            ) from error
        return ended


@contextlib.contextmanager
def _uncover_interrupt() -> Iterator[None]:
    """What a signal raises inside Ray's compiled calls comes out of them as the cause of a SystemError."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, InterruptedRunError):
            raise error.__cause__ from None
        raise


def _connect(ray: Any, address: str, n_workers: int | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else a cluster started here reports to Ray's authors
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options |= {
            "num_cpus": n_workers or len(os.sched_getaffinity(0)),
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
        }
    on_terminate = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a ray:// address out of reach: the error says it
            ray.init(**options)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_terminate)  # Ray puts its own, which does not tell that a run can go on
    except (ConnectionError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise ConfigError(
            f"run.address: no Ray cluster at {address!r} ({cause}); start one (ray start --head), name its address, or "
            "use --address local"
        ) from error


def _work_unit(environment: dict[str, str], pickled: bytes) -> _Ended:
    """In a worker: nothing heavy is imported before the environment is set."""
    os.environ.update(environment)
    import pyarrow as pa

    pa.set_cpu_count(1)
    from tamiz.run.ledger import start_meter

    start_meter()
    work, unit = pickle.loads(pickled)
    counts = [0, 0, 0]

    def count(*more: int) -> None:
        counts[:] = [a + b for a, b in zip(counts, more, strict=True)]

    result, failure = None, None
    try:
        result = work(unit, count)
    except TamizError as error:
        failure = error
    except Exception as error:  # the worker's edge: a defect in a unit names the unit
        trace = "".join(traceback.format_exception(error))
        failure = RunError(f"{unit}: {type(error).__name__}: {error}\n{trace}")
    return _Ended(result, failure, (counts[0], counts[1], counts[2]))
