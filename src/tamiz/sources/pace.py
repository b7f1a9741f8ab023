"""What the processes of one machine tell each other about the Hub, in a file of 24 bytes.

One that is told to wait makes all the others wait too: the Hub counts requests by address or account, not by process,
and a worker that goes on asking only prolongs the pause for everybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import struct
import threading
import time

PAUSE_SECONDS_MAX = 300.0  # the Hub counts requests in windows of five minutes
_JITTER_SECONDS = 0.5  # so that workers do not come back as one
_ANSWER_SECONDS = 600.0  # for so long an answer proves that the Hub is within reach
_VALUES = struct.Struct("<ddd")


class Pace:
    """Until when nobody may ask (a hold), until when somebody waits (to show it), and when the Hub last answered.

    Values are seconds of time.monotonic, which all processes of a machine share. Without a folder, or with one that
    cannot be written, they are this process's alone.
    """

    def __init__(self, folder: str | None) -> None:
        self._own = (0.0, 0.0, 0.0)
        self._handle: int | None = None
        self._lock = threading.Lock()
        if folder is not None:
            with contextlib.suppress(OSError):
                os.makedirs(folder, exist_ok=True)
                name = os.path.join(folder, f"pace-{socket.gethostname()}")  # a shared home has one for each machine
                self._handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def hold(self, seconds: float) -> None:
        """Nobody may ask before `seconds` have passed."""
        until = time.monotonic() + min(seconds, PAUSE_SECONDS_MAX)
        self._raise(until, until, 0.0)

    def pause(self, seconds: float) -> None:
        """Sleep, and let it be seen."""
        self._raise(0.0, time.monotonic() + seconds, 0.0)
        time.sleep(seconds)

    def wait(self) -> float:
        """Sleep until no hold is left; returns the seconds slept."""
        slept = 0.0
        while (left := self._measure_left(0)) > 0:
            self.pause(left := left + random.uniform(0.0, _JITTER_SECONDS))
            slept += left
        return slept

    def note_answer(self) -> None:
        """The Hub has answered, whatever it said."""
        now, last = time.monotonic(), self._read()[2]
        if last == 0.0 or not 0 <= now - last < _ANSWER_SECONDS / 10:  # not at every answer
            self._raise(0.0, 0.0, now)

    def has_answered(self) -> bool:
        """True when the Hub has answered a process of this machine lately."""
        at = self._read()[2]
        return at > 0 and 0 <= time.monotonic() - at < _ANSWER_SECONDS

    def describe_wait(self) -> str:
        """For the progress line: how long somebody still waits, from two seconds on; else an empty string."""
        left = self._measure_left(1)
        return f"waiting for the Hub, {left:.0f} s" if left >= 2 else ""

    def _measure_left(self, which: int) -> float:
        left = self._read()[which] - time.monotonic()
        return left if left <= PAUSE_SECONDS_MAX + _JITTER_SECONDS else 0.0  # more: of a time before the last boot

    def _read(self) -> tuple[float, ...]:
        if self._handle is None:
            return self._own
        data = os.pread(self._handle, _VALUES.size, 0)
        return _VALUES.unpack(data) if len(data) == _VALUES.size else (0.0, 0.0, 0.0)

    def _raise(self, *values: float) -> None:
        """Each value becomes the larger of what it was and this."""
        with self._lock:
            if self._handle is None:
                self._own = _pick_later(self._own, values)
                return
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            try:
                os.pwrite(self._handle, _VALUES.pack(*_pick_later(self._read(), values)), 0)
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)


def _pick_later(old: tuple[float, ...], new: tuple[float, ...]) -> tuple[float, float, float]:
    latest = time.monotonic() + PAUSE_SECONDS_MAX + _JITTER_SECONDS
    a, b, c = (max(was if was <= latest else 0.0, now) for was, now in zip(old, new, strict=True))
    return a, b, c
