"""What `store` needs of local folders: durable ones, their files, a lock, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator

from tamiz.errors import StoreError
from tamiz.lease import Hold

AGAIN = "then run the same command again: what was published stays valid"


@contextlib.contextmanager
def hold_lock(root: str, name: str) -> Iterator[Hold]:
    """Hold the lock `name` of the folder `root`; the kernel frees it when the holder dies. The file itself stays.

    Raises StoreError with the holder's host and process.
    """
    path = f"{root}/.lock-{name}"
    with explain(path, "lock"):
        make_folders(root)
        file = open(path, "a+b")  # noqa: SIM115 (closed below; "w" would wipe the holder's name)
    with file:
        with explain(path, "lock"):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StoreError(_describe_holder(root, file.read())) from None
            file.truncate(0)
            file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
            file.flush()
        yield Hold(root)


def walk_local(top: str) -> Iterator[str]:
    """The files below `top`, none when it does not exist.

    fsspec's own walk leaves out a whole folder when one of its files vanishes meanwhile, as aside files do.
    """

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, _, names in os.walk(top, onerror=fail):
        for name in names:
            yield f"{folder}/{name}"


def make_folders(path: str) -> None:
    """Make `path` and its parents, each made durable in its own parent."""
    made = []
    while not os.path.isdir(path):
        made.append(path)
        path = os.path.dirname(path)
    for folder in reversed(made):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        sync_folder(os.path.dirname(folder))


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _describe_holder(root: str, record: bytes) -> str:
    try:
        holder = json.loads(record)
        who = f"process {holder['pid']} on {holder['host']}"
    except (ValueError, KeyError, TypeError):  # taken, but its name is not written yet
        who = "another process"
    return f"{root} is in use by {who}; wait for it or stop it, or choose another --run-dir"


@contextlib.contextmanager
def explain(name: str, verb: str) -> Iterator[None]:
    """Turn an OSError into a StoreError that names the path, the cause and what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {verb} {name}: {_name_cause(name, error)}") from error


def _name_cause(name: str, error: OSError) -> str:
    cause = error.strerror or str(error) or type(error).__name__
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"disk full{_measure_free(name)}; free space, {AGAIN}"
    if error.errno == errno.EROFS:
        return f"the file system is read-only; make it writable or choose another --run-dir, {AGAIN}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"permission denied; give this user access or choose another --run-dir, {AGAIN}"
    if isinstance(error, FileNotFoundError):  # fsspec raises it without an errno
        return "no such file; it was removed after it was published, or belongs to another run directory"
    return f"{cause}; put it right, {AGAIN}"


def _measure_free(name: str) -> str:
    while name and not os.path.exists(name):
        name = os.path.dirname(name)
    with contextlib.suppress(OSError):
        return f" ({shutil.disk_usage(name).free / 1e6:.0f} MB free)"
    return ""
