"""The guard, with a stand-in for trafilatura that does to its process what the page says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.errors import RunError
from tamiz.extract.guard import Guard, Limits, Outcome, extract_pages
from tamiz.extract.html import extract_page

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "html" / "article_pages.parquet"

STAND_IN = """
import os, signal, sys, time

N_PAGES = 0

def load_html(page):
    return page

def extract(page, options):
    global N_PAGES
    N_PAGES += 1
    order, _, argument = page.partition("<b>")
    if order == "die" or (order == "die later" and N_PAGES > 1):
        os.kill(os.getpid(), getattr(signal, argument))
    if order == "spin":
        while True:
            pass
    if order == "sleep":
        time.sleep(1000)
    if order == "raise":
        raise ValueError(page)
    if order == "panic":
        raise BaseException(page)
    if order == "exit":
        raise ImportError(page)
    if order == "eat":
        return str(len(bytearray(3 << 29)))
    if order == "eat and go on":
        try:
            bytearray(3 << 29)
        except MemoryError:
            held = bytearray(7 << 27)
            held[:: 4096] = b"x" * len(held[:: 4096])
            return "less"
    if order == "print":
        print("not an answer", flush=True)
    return f"{order} {os.getpid()} {N_PAGES}"
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trafilatura").mkdir()
    (tmp_path / "trafilatura" / "__init__.py").write_text(STAND_IN)
    (tmp_path / "trafilatura" / "settings.py").write_text("def Extractor(**options): pass\n")
    (tmp_path / "trafilatura" / "utils.py").write_text("class HTML_PARSER:\n    error_log = ()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


@pytest.fixture
def guard(stand_in: None) -> Iterator[Guard]:
    limits = Limits(page_bytes=1000, cpu_seconds=1, memory_bytes=1 << 30, wall_seconds=300)
    with Guard(limits) as guard:
        yield guard


def ask(guard: Guard, order: str, argument: str = "") -> Outcome:
    return guard.extract(f"{order}<b>{argument}".encode(), None, "trafilatura")


def say(guard: Guard, order: str = "text") -> tuple[int, int]:
    """The child's process id and the number of pages it has seen."""
    text = ask(guard, order).text
    assert text is not None
    return int(text.split()[-2]), int(text.split()[-1])


def test_one_child_for_all_pages(guard: Guard) -> None:
    first, second = say(guard), say(guard, "print")
    assert first[0] == second[0] != os.getpid()
    assert second[1] == 2


@pytest.mark.parametrize(
    ("order", "argument", "reason"),
    [
        ("spin", "", "extract_timeout"),
        ("die", "SIGSEGV", "extract_crash"),
        ("die", "SIGABRT", "extract_crash"),
        ("raise", "", "extract_failed"),
        ("panic", "", "extract_failed"),
        ("eat", "", "extract_out_of_memory"),
        ("eat and go on", "", "extract_out_of_memory"),
        ("long" * 1000, "", "extract_too_large"),
    ],
)
def test_reasons_and_the_next_page(guard: Guard, order: str, argument: str, reason: str) -> None:
    assert ask(guard, order, argument) == Outcome(None, reason)
    say(guard)


def test_a_child_that_sleeps_is_ended(stand_in: None) -> None:
    with Guard(Limits(wall_seconds=1)) as guard:
        assert ask(guard, "sleep") == Outcome(None, "extract_timeout")


@pytest.mark.parametrize("argument", ["SIGSEGV", "SIGXCPU"])
def test_the_verdict_of_a_child_that_has_worked_is_the_same(guard: Guard, argument: str) -> None:
    fresh = ask(guard, "die", argument)
    say(guard)
    assert ask(guard, "die", argument) == fresh


def test_what_a_fresh_child_says_counts(guard: Guard) -> None:
    """The page is not to blame for what pages before it did to the child."""
    say(guard)
    assert (ask(guard, "die later", "SIGSEGV").text or b"").endswith(b" 1")


@pytest.mark.parametrize(("order", "argument"), [("die", "SIGKILL"), ("die", "SIGTERM"), ("exit", "")])
def test_a_child_killed_from_outside_is_no_verdict(guard: Guard, order: str, argument: str) -> None:
    with pytest.raises(RunError, match="twice on the same page"):
        ask(guard, order, argument)


def test_a_child_that_was_killed_once_is_replaced(guard: Guard) -> None:
    pid, _ = say(guard)
    os.kill(pid, signal.SIGKILL)
    assert say(guard) != (pid, 2)


def test_columns(guard: Guard) -> None:
    payloads = pa.array([b"a<b>", None, b"raise<b>"], pa.large_binary())
    text, reason = extract_pages(payloads, pa.array(["utf-8", None, None]), "trafilatura", guard)
    assert (text.type, reason.type) == (pa.large_string(), pa.string())
    assert [value is not None for value in text.to_pylist()] == [True, False, False]
    assert reason.to_pylist() == [None, None, "extract_failed"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's help is Linux's")
@pytest.mark.parametrize("order", ["spin", "text"])
def test_the_child_dies_with_its_parent(stand_in: None, order: str) -> None:
    """In the middle of a page, and idle."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from tamiz.extract.guard import Guard\n"
        "guard = Guard()\n"
        "guard.extract(b'text<b>', None, 'trafilatura')\n"
        "print(guard._child.pid, flush=True)\n"
        f"guard.extract(b'{order}<b>', None, 'trafilatura')\n"
        "input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    for _ in range(600):
        if not is_alive(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlived its parent")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # nobody may be there to collect it


SENTENCE = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while. "
HOSTILE = {
    "deep": (b"<html><body>" + b"<div>" * 100_000 + SENTENCE.encode() * 9, "extract_too_deep", "extract_too_deep"),
    "attribute": (b'<html><body><img src="' + b"x" * 50_000_000 + b'">', "extract_too_large", "extract_too_large"),
    "line": (b"<html><body><p>" + b"word " * 60_000_000, "extract_too_large", "extract_too_large"),
    "cells": (b"<html><body><table><tr>" + b"<td>x" * 300_000, "extract_timeout", None),  # grows with the square
    "nothing but NUL": (b"\0" * 1_000_000, "extract_not_html", "extract_not_html"),
    "open brackets": (b"<html><body>" + b"<" * 3_000_000, None, None),
    "a long attribute": (b"<html><body><p title='" + b"x" * 5_000_000 + b"'>" + SENTENCE.encode() * 9, None, None),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("engine", ["trafilatura", "resiliparse"])
def test_hostile_pages(engine: str, name: str) -> None:
    payload, *reasons = HOSTILE[name]
    normal = f"<html><body><article><p>{SENTENCE * 9}</p></article></body></html>".encode()
    with Guard(Limits(cpu_seconds=4)) as guard:
        assert guard.extract(payload, "shift_jis", engine).reason == reasons[engine == "resiliparse"]
        assert (guard.extract(normal, None, engine).text or b"").decode() == (SENTENCE * 9).strip()


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="no reference data beside the checkout")
@pytest.mark.parametrize("engine", ["trafilatura", "resiliparse"])
def test_a_page_depends_on_the_page_alone(engine: str) -> None:
    """In any order, through the guard or without it."""
    payloads = pq.read_table(DATA, columns=["html"])["html"].cast(pa.large_binary()).combine_chunks()[:12]
    alone = [extract_page(payload, None, engine) for payload in payloads.to_pylist()]
    order = [*reversed(range(12)), 3, 3, 3]  # trafilatura's deduplication would drop the third copy
    with Guard() as guard:
        text, _ = extract_pages(payloads.take(pa.array(order)), pa.nulls(15, pa.string()), engine, guard)
    assert text.to_pylist() == [alone[i] for i in order]
