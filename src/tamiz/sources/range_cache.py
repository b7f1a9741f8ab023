"""Ranges of remote files kept on disk under a quota: those used longest ago go first.

One file per range: the SHA-256 of key and bytes, then the bytes. Several processes may share the folder. What does not
read back as written is forgotten and fetched again, so that a cache can cost time but never change a byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Iterator

_DIGEST_BYTES = 32
_SUFFIX = ".range"
_ASIDE = ".aside"
_ASIDE_SECONDS = 3600.0  # an older one was left by a process that was killed
_KEPT_SHARE = 0.9  # of the quota, after making room: the folder is looked through once for many ranges

_log = logging.getLogger(__name__)


class RangeCache:
    """Bytes by key in `folder`, whose files hold at most `quota` bytes together."""

    def __init__(self, folder: str, quota: int) -> None:
        self._folder = folder
        self._quota = quota
        self._is_broken = False

    def load(self, key: str) -> bytes | None:
        """The bytes saved under `key`; None when there are none, or not those that were saved."""
        name = self._locate(key)
        try:
            with open(name, "rb") as file:
                digest, data = file.read(_DIGEST_BYTES), file.read()
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if digest != _hash(key, data):
                os.unlink(name)
                return None
            os.utime(name)  # used now
        return data

    def save(self, key: str, data: bytes) -> None:
        """Keep `data` if the quota allows it. A disk that refuses ends saving, with one warning, not the run."""
        size = _DIGEST_BYTES + len(data)
        if self._is_broken or size > self._quota:
            return
        aside = f"{self._folder}/{os.getpid()}-{os.urandom(6).hex()}{_ASIDE}"
        try:
            with self._lock() as handle:
                written = os.pread(handle, 20, 0)
                total = int(written) if written.isdigit() else self._quota  # not known: count
                if total + size > self._quota:
                    total = self._make_room(size)
                with open(aside, "xb") as file:
                    file.truncate(size)  # counted by whoever makes room meanwhile
                os.pwrite(handle, b"%020d" % (total + size), 0)
            with open(aside, "r+b") as file:
                file.write(_hash(key, data))
                file.write(data)
            os.replace(aside, self._locate(key))
        except OSError as error:
            self._is_broken = True
            _log.warning("nothing more is kept in %s: %s", self._folder, error)
            with contextlib.suppress(OSError):
                os.unlink(aside)

    def _locate(self, key: str) -> str:
        return f"{self._folder}/{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    @contextlib.contextmanager
    def _lock(self) -> Iterator[int]:
        """The open file that holds the sum of all sizes; a process that is killed in between leaves it too large."""
        os.makedirs(self._folder, exist_ok=True)
        handle = os.open(f"{self._folder}/total", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _make_room(self, size: int) -> int:
        """Remove what was used longest ago until `size` more fit; returns the bytes left."""
        found = []
        for entry in os.scandir(self._folder):
            if entry.name.endswith((_SUFFIX, _ASIDE)):
                with contextlib.suppress(FileNotFoundError):
                    facts = entry.stat()
                    found.append((facts.st_mtime_ns, facts.st_size, entry.path))
        total = sum(n_bytes for _, n_bytes, _ in found)
        wanted = min(self._quota * _KEPT_SHARE, self._quota - size)
        now = time.time_ns()
        for used_ns, n_bytes, path in sorted(found):
            is_living = path.endswith(_ASIDE) and now - used_ns < _ASIDE_SECONDS * 1e9
            if total > wanted and not is_living:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                total -= n_bytes
        return total


def _hash(key: str, data: bytes) -> bytes:
    digest = hashlib.sha256(key.encode() + b"\0")
    digest.update(data)
    return digest.digest()
