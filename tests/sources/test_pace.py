"""Processes that share a pace: one is told to wait, all do."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tamiz.sources.pace import PAUSE_SECONDS_MAX, Pace

OTHER = "import sys; from tamiz.sources.pace import Pace; pace = Pace(sys.argv[1]); result = {}; print(result)"


def ask_other(folder: Path, code: str) -> str:
    """What another process prints of the expression `code`."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER.format(code), str(folder)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_hold_reaches_other_processes(tmp_path: Path) -> None:
    pace = Pace(str(tmp_path / "new"))
    assert pace.wait() == 0.0
    assert ask_other(tmp_path / "new", "pace.hold(40)") == "None"
    assert pace.describe_wait() in ("waiting for the Hub, 40 s", "waiting for the Hub, 39 s")
    pace.hold(1)  # a shorter one does not shorten it
    assert float(ask_other(tmp_path / "new", "pace._measure_left(0)")) > 30


def test_an_answer_reaches_other_processes(tmp_path: Path) -> None:
    pace = Pace(str(tmp_path))
    assert not pace.has_answered()
    ask_other(tmp_path, "pace.note_answer()")
    assert pace.has_answered()


def test_a_hold_is_waited_for(tmp_path: Path) -> None:
    Pace(str(tmp_path)).hold(0.3)
    started = time.monotonic()
    slept = Pace(str(tmp_path)).wait()
    assert time.monotonic() - started >= 0.25
    assert 0.25 <= slept <= 0.3 + 0.5


@pytest.mark.parametrize("stale", [1e9, float("inf")])
def test_a_hold_of_a_time_before_the_last_boot_is_none(tmp_path: Path, stale: float) -> None:
    pace = Pace(str(tmp_path))
    (name,) = tmp_path.iterdir()
    name.write_bytes(struct.pack("<ddd", time.monotonic() + stale, time.monotonic() + stale, 0.0))
    assert pace.wait() == 0.0
    assert pace.describe_wait() == ""
    pace.hold(5)
    assert 4 < pace._measure_left(0) <= 5


def test_no_hold_is_longer_than_the_hub_s_window(tmp_path: Path) -> None:
    pace = Pace(str(tmp_path))
    pace.hold(1e6)
    assert pace._measure_left(0) <= PAUSE_SECONDS_MAX


def test_a_folder_that_cannot_be_written_leaves_a_pace_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pace = Pace(str(tmp_path / "file"))
    pace.hold(40)
    assert pace.describe_wait()
    pace.note_answer()
    assert pace.has_answered()
