"""A lease on a folder of an object store: what a lock is there, where no kernel frees it when its holder dies.

A lease is an object `.lease-<name>-<generation>`, made by a put that fails if it exists, and put again every few
seconds. Ages are differences of the store's own times, so that no machine's clock matters. Whoever finds the newest
lease older than LEASE_SECONDS makes the next generation. Of two live leases the lower generation holds.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from tamiz.errors import StoreError
from tamiz.objects import insist

LEASE_SECONDS = 30.0
_RENEWALS = 3  # in that time
_log = logging.getLogger(__name__)


def read_clock() -> float:
    """Seconds that go on while this process is stopped or, on Linux, the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Hold:
    """A lock or lease on `place` that is held; `check` raises StoreError once it is lost.

    until   when a lease runs out if it is not renewed, in seconds of `read_clock`; None for a lock, which does not
    lost    why it is lost, None while it is not known to be
    """

    def __init__(self, place: str, until: float | None = None) -> None:
        self.place = place
        self.until = until
        self.lost: str | None = None

    def check(self) -> None:
        """Raise StoreError when another took the folder over, or may have: this process was stopped or cut off."""
        if self.until is not None and read_clock() > self.until and not self.lost:
            self.lost = (
                f"{self.place}: this process did not renew its lease for {LEASE_SECONDS:.0f} s (was it paused?), so "
                "that another may have taken the run over; run the same command again"
            )
        if self.lost:
            raise StoreError(self.lost)


class _Lease(NamedTuple):
    generation: int
    path: str
    modified: datetime


@contextlib.contextmanager
def hold_lease(fs: Any, root: str, name: str) -> Iterator[Hold]:
    """Hold the lease `name` of the folder `root`. Raises StoreError with the holder's host and process.

    A lease that is not renewed is waited for: its holder was killed, and it ends within LEASE_SECONDS.
    """
    own, made = _acquire(fs, root, name)
    hold, ended = Hold(root, made + LEASE_SECONDS), threading.Event()
    renewer = threading.Thread(target=_renew, args=(fs, root, name, own, hold, ended), daemon=True)
    renewer.start()
    try:
        yield hold
    finally:
        ended.set()
        renewer.join()
        if not hold.lost:
            _remove(fs, own)


def _acquire(fs: Any, root: str, name: str) -> tuple[_Lease, float]:
    """The lease, and a time of `read_clock` at which it was not yet made."""
    first_seen: datetime | None = None
    while True:
        started = read_clock()
        try:
            own, rival = _try_once(fs, root, name)
        except OSError as error:
            raise StoreError(f"cannot lock {root}: {error}; put it right, then run the same command again") from error
        if own is not None and rival is None:
            return own, started
        if own is not None:
            _remove(fs, own)
        if rival is not None:
            holder = _describe_holder(fs, rival)
            if first_seen is not None and rival.modified != first_seen:
                raise StoreError(f"{root} is in use by {holder}; wait for it or stop it, or choose another --run-dir")
            if first_seen is None:
                _log.warning("%s was last in use by %s; looking whether it is alive", root, holder)
            first_seen = rival.modified
        time.sleep(LEASE_SECONDS / _RENEWALS / 4)


def _try_once(fs: Any, root: str, name: str) -> tuple[_Lease | None, _Lease | None]:
    """(own lease if it could be made, a live lease that comes before it)."""
    leases = _list_leases(fs, root, name)
    path = f"{root}/.lease-{name}-{max([0, *leases]) + 1:06d}"
    record = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "token": os.urandom(8).hex()}).encode()
    if not _put_new(fs, path, record):
        return None, None  # another was faster: look again
    leases = _list_leases(fs, root, name)
    own = next((lease for lease in leases.values() if lease.path == path), None)
    if own is None:
        return None, None
    rival = _find_rival(leases, own)
    if rival is None:
        for lease in leases.values():
            if lease.generation < own.generation:
                _remove(fs, lease)
    return own, rival


def _find_rival(leases: dict[int, _Lease], own: _Lease) -> _Lease | None:
    """The lease that holds against `own`: a live one of a lower generation, or the newest if `own` is over."""
    newest = max(leases.values(), key=lambda lease: lease.modified)
    oldest = newest.modified - timedelta(seconds=LEASE_SECONDS)
    live = [lease for lease in leases.values() if lease.modified > oldest]
    if leases[own.generation].modified <= oldest:
        return newest
    return min((lease for lease in live if lease.generation < own.generation), default=None)


def _renew(fs: Any, root: str, name: str, own: _Lease, hold: Hold, ended: threading.Event) -> None:
    """Until `ended`: put the lease again, or tell that it is lost."""
    while not ended.wait(LEASE_SECONDS / _RENEWALS):
        started = read_clock()
        try:
            leases = _list_leases(fs, root, name)
            if own.generation not in leases or _find_rival(leases, own):
                hold.lost = f"{root} was taken over by another process while this one could not renew its lease"
                return
            fs.pipe_file(own.path, fs.cat_file(own.path))
            hold.until = started + LEASE_SECONDS
        except Exception as error:  # out of reach for now: the lease lasts a while
            if hold.until is not None and read_clock() > hold.until:
                hold.lost = f"{root}: the store is out of reach ({error}); then run the same command again"
                return


def _list_leases(fs: Any, root: str, name: str) -> dict[int, _Lease]:
    start = f"{root}/.lease-{name}-"
    try:
        paths = [str(path) for path in insist(lambda: fs.ls(root, detail=False))]
    except FileNotFoundError:
        return {}
    found = {}
    for path in paths:
        path = path if path.startswith(root) else f"/{path}"
        if path.startswith(start):
            with contextlib.suppress(FileNotFoundError):  # released meanwhile
                modified = insist(partial(fs.modified, path))
                generation = int(path.removeprefix(start))
                found[generation] = _Lease(generation, path, modified)
    return found


def _put_new(fs: Any, path: str, record: bytes) -> bool:
    """Put `record` unless `path` exists; an answer that was lost is looked up. Raises OSError."""

    def put() -> bool:
        try:
            fs.pipe_file(path, record, mode="create")
        except Exception as error:
            if not isinstance(error, FileExistsError) and not fs.exists(path):
                raise
            with contextlib.suppress(FileNotFoundError):  # another's, released meanwhile
                return bool(fs.cat_file(path) == record)
            return False
        return True

    return insist(put)


def _remove(fs: Any, lease: _Lease) -> None:
    with contextlib.suppress(FileNotFoundError, OSError):  # then it runs out
        insist(lambda: fs.rm_file(lease.path))


def _describe_holder(fs: Any, lease: _Lease) -> str:
    try:
        holder = json.loads(fs.cat_file(lease.path))
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):  # gone meanwhile
        return "another process"
