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


def serve(parent: int, cpu_seconds: int, memory_bytes: int) -> None:
    """Answer requests until standard input ends; `parent` is the process to die with."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not become an answer
    _die_with(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, resource.RLIM_INFINITY))
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
    except Exception:  # the parsers' own failures, of every kind: the page's fault, and the next page is not to suffer
        return REASON, b"extract_failed"


def _answer(answers: BinaryIO, kind: int, content: bytes) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)
    answers.write(ANSWER.pack(kind, peak, len(content)))
    answers.write(content)
    answers.flush()


def _limit_processor(seconds: int) -> None:
    """From now on: the kernel ends this process with SIGXCPU when it has used them up, even inside C code."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds + 1, resource.RLIM_INFINITY))


def _die_with(parent: int) -> None:
    """An idle child ends when its input does; this is for one in the middle of a page."""
    with contextlib.suppress(OSError, AttributeError):  # Linux only; elsewhere the limits end it in the end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
