"""One suite for every engine: what a run may ask of it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamiz.errors import ConfigError, RunError, SourceError
from tamiz.run.engine import Engine, Report
from tamiz.run.local import TRIES, LocalEngine
from tamiz.run.ray import RETRIES, RayEngine

HAS_RAY = importlib.util.find_spec("ray") is not None
ENGINES = [
    pytest.param("local", id="local"),
    pytest.param("ray", id="ray", marks=[pytest.mark.ray, pytest.mark.skipif(not HAS_RAY, reason="Ray is absent")]),
]
DEATHS_MAX = {LocalEngine: TRIES, RayEngine: RETRIES + 1}
SMALL = 100 << 20


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


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    if request.param == "ray":  # workers find this module as the local engine's do, which inherit sys.path
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path]))
    engine: Engine = LocalEngine(2) if request.param == "local" else RayEngine("local", 2)
    yield engine
    engine.close()


def ignore(documents: int, n_bytes: int, tokens: int) -> None:
    pass


def test_every_unit_is_worked_once_and_progress_adds_up(engine: Engine) -> None:
    told = [0, 0, 0]

    def report(*counts: int) -> None:
        told[:] = [a + b for a, b in zip(told, counts, strict=True)]

    assert sorted(engine.run(double, range(20), report, SMALL)) == [(n, 2 * n) for n in range(20)]
    assert told == [20, sum(range(20)), 2 * sum(range(20))]
    assert list(engine.run(double, [], report, SMALL)) == []


def test_a_unit_whose_worker_is_killed_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    units = [(str(tmp_path / f"{i}"), 0 if i else TRIES - 1) for i in range(6)]
    assert dict(engine.run(die_until, units, ignore, SMALL)) == {unit: unit[1] for unit in units}


def test_a_unit_that_keeps_killing_its_worker_stops_the_run_by_name(engine: Engine, tmp_path: Path) -> None:
    units = [(str(tmp_path / "good"), 0), (str(tmp_path / "bad"), 99)]
    n_deaths = DEATHS_MAX[type(engine)]
    with pytest.raises(RunError, match=rf"bad.*died {n_deaths} times"):
        list(engine.run(die_until, units, ignore, SMALL))
    assert (tmp_path / "bad").stat().st_size == n_deaths


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


def test_the_other_workers_go_on_when_one_dies(engine: Engine, tmp_path: Path) -> None:
    units = [("go on", str(tmp_path / "a")), ("die", str(tmp_path / "b"))]
    pids = dict(engine.run(mark, units, ignore, SMALL))
    assert [(tmp_path / name).read_text() for name in "ab"] == ["x", "x"]
    assert len(set(pids.values())) == 2 or isinstance(engine, RayEngine)  # Ray may give both to the one that is left


def test_known_errors_pass_and_defects_name_their_unit(engine: Engine) -> None:
    with pytest.raises(SourceError, match="known"):
        list(engine.run(fail, ["known"], ignore, SMALL))
    with pytest.raises(RunError, match=r"odd: ZeroDivisionError"):
        list(engine.run(fail, ["odd"], ignore, SMALL))


def test_the_number_of_workers_is_told(engine: Engine) -> None:
    assert engine.n_workers == 2


def look_around(unit: int, report: Report) -> tuple[dict[str, str | None], int]:
    import pyarrow as pa

    names = ("FASTOKENS_BPE_THREADS", "RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM", "NUMBA_CACHE_DIR")
    return {name: os.environ.get(name) for name in names}, pa.cpu_count()


def test_a_worker_is_one_core_and_shares_the_kernel_cache(engine: Engine) -> None:
    [(_, (environment, n_threads))] = engine.run(look_around, [0], ignore, SMALL)
    assert n_threads == 1
    assert environment == {
        "FASTOKENS_BPE_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "NUMBA_CACHE_DIR": os.environ["NUMBA_CACHE_DIR"],
    }


@pytest.mark.ray
@pytest.mark.skipif(not HAS_RAY, reason="Ray is absent")
@pytest.mark.parametrize("engine", ["ray"], indirect=True)
def test_units_are_submitted_a_bounded_number_ahead(engine: Engine) -> None:
    taken = 0

    def take() -> Iterator[int]:
        nonlocal taken
        for n in range(20):
            taken += 1
            yield n

    for n_ended, _ in enumerate(engine.run(double, take(), ignore, SMALL), 1):
        assert taken <= n_ended + 2


def take_long(unit: int, report: Report) -> int:
    time.sleep(2.0)
    return unit


def test_a_long_unit_gives_signs_of_life(engine: Engine) -> None:
    """Else `tamiz status` would take the build for dead."""
    told: list[tuple[int, ...]] = []
    assert list(engine.run(take_long, [1], lambda *counts: told.append(counts), SMALL)) == [(1, 1)]
    assert len(told) >= 3
    assert set(told) == {(0, 0, 0)}


@pytest.mark.ray
@pytest.mark.skipif(not HAS_RAY, reason="Ray is absent")
def test_ray_leaves_the_signals_to_tamiz() -> None:
    before = signal.getsignal(signal.SIGTERM)
    engine = RayEngine("local", 1)
    assert signal.getsignal(signal.SIGTERM) is before
    engine.close()


def test_without_ray_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'tamiz\[ray\]'"):
        RayEngine("auto", None)


def is_in_a_cluster() -> bool:
    """Whether a node of some Ray cluster runs here."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"/raylet/raylet" in entry.read_bytes():
                return True
    return False


@pytest.mark.ray
@pytest.mark.skipif(not HAS_RAY, reason="Ray is absent")
@pytest.mark.parametrize("address", ["auto", "ray://127.0.0.1:1", "nonsense"])
def test_no_cluster_at_the_address_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if address == "auto" and is_in_a_cluster():
        pytest.skip("this machine belongs to a Ray cluster")
    monkeypatch.setenv("RAY_ADDRESS", "")
    with pytest.raises(ConfigError, match=r"run.address: no Ray cluster at"):
        RayEngine(address, None)
