from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamiz.errors import RunError, SourceError
from tamiz.run.engine import Report
from tamiz.run.local import TRIES, LocalEngine


def double(unit: int, report: Report) -> int:
    report(1, unit, 2 * unit)
    return 2 * unit


def die_until(unit: tuple[str, int], report: Report) -> int:
    """Kill the worker until the file `unit[0]` has `unit[1]` bytes: one more per try."""
    path = Path(unit[0])
    tries = path.stat().st_size if path.exists() else 0
    if tries < unit[1]:
        path.write_bytes(b"x" * (tries + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return tries


def fail(unit: str, report: Report) -> int:
    raise SourceError(unit) if unit == "known" else ZeroDivisionError(unit)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    engine = LocalEngine(2)
    yield engine
    engine.close()


def ignore(documents: int, n_bytes: int, tokens: int) -> None:
    pass


def test_every_unit_is_worked_once_and_progress_adds_up(engine: LocalEngine) -> None:
    told = [0, 0, 0]

    def report(*counts: int) -> None:
        told[:] = [a + b for a, b in zip(told, counts, strict=True)]

    assert sorted(engine.run(double, range(20), report)) == [(n, 2 * n) for n in range(20)]
    assert told == [20, sum(range(20)), 2 * sum(range(20))]
    assert list(engine.run(double, [], report)) == []


def test_a_unit_whose_worker_is_killed_is_tried_again(engine: LocalEngine, tmp_path: Path) -> None:
    units = [(str(tmp_path / f"{i}"), 0 if i else TRIES - 1) for i in range(6)]
    assert dict(engine.run(die_until, units, ignore)) == {unit: unit[1] for unit in units}


def test_a_unit_that_keeps_killing_its_worker_stops_the_run_by_name(engine: LocalEngine, tmp_path: Path) -> None:
    units = [(str(tmp_path / "good"), 0), (str(tmp_path / "bad"), 99)]
    with pytest.raises(RunError, match=r"bad.*died 3 times"):
        list(engine.run(die_until, units, ignore))
    assert (tmp_path / "bad").stat().st_size == TRIES


def mark(unit: tuple[str, str], report: Report) -> int:
    """Die if told to; else tell by the size of a file how often this was worked, and take longer than a death takes."""
    kind, name = unit
    if kind == "die" and not Path(name).exists():
        Path(name).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(name).open("a") as file:
        file.write("x")
    time.sleep(1.5)
    return os.getpid()


def test_the_other_workers_go_on_when_one_dies(engine: LocalEngine, tmp_path: Path) -> None:
    units = [("go on", str(tmp_path / "a")), ("die", str(tmp_path / "b"))]
    pids = dict(engine.run(mark, units, ignore))
    assert [(tmp_path / name).read_text() for name in "ab"] == ["x", "x"]
    assert len(set(pids.values())) == 2


def test_known_errors_pass_and_defects_name_their_unit(engine: LocalEngine) -> None:
    with pytest.raises(SourceError, match="known"):
        list(engine.run(fail, ["known"], ignore))
    with pytest.raises(RunError, match=r"odd: ZeroDivisionError"):
        list(engine.run(fail, ["odd"], ignore))
