"""The program of the guarded child: pages come in on standard input, texts or reasons go out on standard output.

A request is its header (see REQUEST) and then engine, charset label and payload; an answer is its header (see ANSWER)
and then the text, or the reason. The child limits itself, through the kernel, before each page: processor seconds,
because they do not depend on what else the machine does, and address space.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from typing import BinaryIO

from tamiz.extract.html import PageError, extract_page

REQUEST = struct.Struct("<IIQ")
"""Lengths in bytes of the engine's name, the charset label (0: none) and the payload."""
ANSWER = struct.Struct("<B3xIQ")
"""TEXT or REASON; the peak of the child's memory so far in MiB; the length in bytes of what follows."""
TEXT, REASON = 0, 1
OUT_OF_MEMORY = "extract_out_of_memory"

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_STACK_BYTES = 8 << 20  # the usual size, set so that how deep a parser may recurse is the same everywhere


def serve(parent: int, cpu_seconds: int, memory_bytes: int) -> None:
    """Answer requests until standard input ends; `parent` is the process to die with."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not become an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to both; the parent decides
    _die_with(parent)
    _set_soft_limit(resource.RLIMIT_CORE, 0)
    _set_soft_limit(resource.RLIMIT_AS, memory_bytes)
    _set_soft_limit(resource.RLIMIT_STACK, _STACK_BYTES)
    requests = sys.stdin.buffer
    while header := requests.read(REQUEST.size):
        n_engine, n_charset, n_payload = REQUEST.unpack(header)
        engine = requests.read(n_engine).decode()
        charset = requests.read(n_charset).decode(errors="replace") or None
        payload = requests.read(n_payload)
        _limit_processor(cpu_seconds)
        _answer(answers, *_extract(payload, charset, engine))


def _extract(payload: bytes, charset: str | None, engine: str) -> tuple[int, bytes]:
    try:
        return TEXT, extract_page(payload, charset, engine).encode()
    except PageError as error:
        return REASON, error.reason.encode()
    except MemoryError:
        return REASON, OUT_OF_MEMORY.encode()
    except (ImportError, SystemExit):  # the installation's fault
        raise
    except BaseException:  # the parsers' own failures (a panic of Rust is no Exception): the page's fault
        return REASON, b"extract_failed"


def _answer(answers: BinaryIO, kind: int, content: bytes) -> None:
    answers.write(ANSWER.pack(kind, _measure_peak() >> 10, len(content)))
    answers.write(content)
    answers.flush()


def _measure_peak() -> int:
    """The most memory this process ever held, in KiB."""
    try:
        with open("/proc/self/status", "rb") as status:
            return int(status.read().partition(b"VmHWM:")[2].split()[0])
    except FileNotFoundError:  # not Linux; there, getrusage would tell what the parent held when it forked
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (10 if sys.platform == "darwin" else 0)


def _limit_processor(seconds: int) -> None:
    """From now on: the kernel ends this process with SIGXCPU when it has used them up, even inside C code."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_soft_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds + 1)


def _set_soft_limit(kind: int, limit: int) -> None:
    """As low as the hard limit when that is lower."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _die_with(parent: int) -> None:
    """An idle child ends when its input does; this is for one in the middle of a page."""
    with contextlib.suppress(OSError, AttributeError):  # Linux only; elsewhere the limits end it in the end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
