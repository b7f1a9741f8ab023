"""The wall around the parsers: each page is extracted in a child process that may hang, crash or run out of memory.

The verdict on a page depends on the page: its limits are processor time and memory, never the time of day, and are so
far above the normal that only pathological pages meet them (a page takes 0.02 to 1 s; 8 MB of the smallest elements
30 s and 1.5 GB). A child that crashes or runs out of memory after it has worked on other pages is replaced and asked
again, so that what counts is what a fresh child does.

Reasons, besides those of html.py: extract_too_large, extract_timeout, extract_crash (the child died of a fault),
extract_out_of_memory, extract_failed (the parser raised).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, NamedTuple, Self, cast

import pyarrow as pa

from tamiz.errors import RunError
from tamiz.extract.child import ANSWER, OUT_OF_MEMORY, REQUEST, TEXT

_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP})
_RETRIED = ("extract_crash", OUT_OF_MEMORY)  # the pages before this one may have had a part in it
# No set of strings is walked in another order; numpy reserves no memory for each of the machine's cores.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
_N_TRIES = 2  # after which a child that dies of nothing the page can do means that something is wrong outside


@dataclass(frozen=True)
class Limits:
    """What a page may take: bytes of payload, whole processor seconds, and the child's address space in bytes.

    `wall_seconds` is only for a child that sleeps: one that works is ended by its processor time long before.
    """

    page_bytes: int = 8 << 20  # Common Crawl cuts pages at 1 MiB, since 2025 at 5 MiB
    cpu_seconds: int = 120
    memory_bytes: int = 4 << 30
    wall_seconds: int = 3600


class Outcome(NamedTuple):
    """The text of a page, or the reason why it has none; the other is None."""

    text: bytes | None
    reason: str | None


class _DeadError(Exception):
    """The child is gone; `returncode` as of subprocess, None when it had to be ended because it slept."""

    def __init__(self, returncode: int | None) -> None:
        super().__init__(returncode)
        self.returncode = returncode


class Guard:
    """One child, started with the first page and replaced when it dies; it ends with the `with` block, or with us.

    Not for two threads at once.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._child: subprocess.Popen[bytes] | None = None
        self._n_pages = 0  # that the child has answered

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child; another page would start a new one."""
        child, self._child, self._n_pages = self._child, None, 0
        if child is not None:
            child.kill()
            with contextlib.suppress(BrokenPipeError), child:  # closes the pipes and waits
                pass

    def extract(self, payload: bytes | memoryview, charset: str | None, engine: str) -> Outcome:
        """The text of one page. Raises RunError when the child does not start, or is killed from outside, twice."""
        if len(payload) > self.limits.page_bytes:
            return Outcome(None, "extract_too_large")
        deaths: list[int | None] = []
        while len(deaths) < _N_TRIES:
            is_fresh = self._n_pages == 0
            try:
                outcome = self._ask(payload, charset, engine)
            except _DeadError as death:
                self.close()
                outcome = Outcome(None, _name_death(death.returncode))
                if outcome.reason is None or death.returncode is None:
                    deaths.append(death.returncode)
                    continue
            if is_fresh or outcome.reason not in _RETRIED:
                return outcome
            self.close()
        if deaths[-1] is None:
            return Outcome(None, "extract_timeout")
        raise RunError(
            f"the process that extracts text died with status {deaths[-1]} twice on the same page; "
            "look whether the machine runs out of memory (use fewer workers), or reinstall tamiz"
        )

    def _ask(self, payload: bytes | memoryview, charset: str | None, engine: str) -> Outcome:
        child = self._child or self._start()
        name, label = engine.encode(), (charset or "").encode()
        kind, peak, n_bytes = 0, 0, 0
        try:
            requests = cast(IO[bytes], child.stdin)
            requests.write(REQUEST.pack(len(name), len(label), len(payload)) + name + label)
            requests.write(payload)
            requests.flush()
            kind, peak, n_bytes = ANSWER.unpack(self._receive(child, ANSWER.size))
            content = self._receive(child, n_bytes)
        except BrokenPipeError:
            raise _DeadError(child.wait()) from None
        self._n_pages += 1
        if peak << 20 > self.limits.memory_bytes // 4:
            self.close()  # what is left of it would weigh on the next page
            if peak << 20 > self.limits.memory_bytes // 4 * 3:
                return Outcome(None, OUT_OF_MEMORY)  # the library may have caught the error and gone on with less
        return Outcome(content, None) if kind == TEXT else Outcome(None, content.decode())

    def _start(self) -> subprocess.Popen[bytes]:
        limits = self.limits
        program = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            "from tamiz.extract.child import serve\n"
            f"serve({os.getpid()}, {limits.cpu_seconds}, {limits.memory_bytes})"
        )
        self._child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ENVIRONMENT},
        )
        return self._child

    def _receive(self, child: subprocess.Popen[bytes], n_bytes: int) -> bytes:
        answers = cast(IO[bytes], child.stdout).fileno()
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        received = bytearray()
        while len(received) < n_bytes:
            if not poll.poll(self.limits.wall_seconds * 1000):
                raise _DeadError(None)
            piece = os.read(answers, min(n_bytes - len(received), 1 << 20))
            if not piece:
                raise _DeadError(child.wait())
            received += piece
        return bytes(received)


def _name_death(returncode: int | None) -> str | None:
    """The reason when the page can be the cause of the child's death, else None."""
    if returncode is None or returncode == -signal.SIGXCPU:
        return "extract_timeout"
    return "extract_crash" if -returncode in _FAULTS else None


def extract_pages(
    payloads: pa.LargeBinaryArray, charsets: pa.StringArray, engine: str, guard: Guard
) -> tuple[pa.LargeStringArray, pa.StringArray]:
    """text large_string and quarantine string of each page: one of them is null, both where the payload is null.

    `charsets` are the labels of the HTTP headers, null for none; `engine` is a key of html.ENGINES. Raises RunError as
    Guard.extract does.
    """
    texts: list[bytes | None] = []
    reasons: list[str | None] = []
    for payload, charset in zip(payloads, charsets, strict=True):
        outcome = Outcome(None, None)
        if payload.is_valid:
            outcome = guard.extract(memoryview(payload.as_buffer()), charset.as_py(), engine)
        texts.append(outcome.text)
        reasons.append(outcome.reason)
    text = pa.array(texts, pa.large_binary()).cast(pa.large_string())
    return text, pa.array(reasons, pa.string())
