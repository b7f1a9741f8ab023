"""Status and the report of runs that are going, were killed, failed, or are done."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tamiz.run.journal import PROGRESS, Journal, read_journal
from tamiz.run.status import format_seconds
from tamiz.store import Folder
from tests.run.test_build import ROOT, TAMIZ, build, run_tamiz


def test_a_finished_run_has_every_unit_done(cyber: Path) -> None:
    status = run_tamiz("status", str(cyber))
    assert status.returncode == 0, status.stderr
    lines = status.stdout.splitlines()
    assert max(map(len, lines[1:])) <= 80
    table = {line.split()[0]: line.split()[1:] for line in lines if line.split()[:1] and line.split()[0] in _STAGES}
    assert {stage: row[1] for stage, row in table.items()} == dict.fromkeys(_STAGES, "0")
    assert lines[-1] == "the corpus is finished"
    journal = json.loads((cyber / PROGRESS).read_text())
    assert journal["state"] == "finished"
    summary = json.loads((cyber / "report" / "summary.json").read_text())
    assert journal["stages"]["sift"]["documents"] == summary["documents"]["read"]
    assert journal["stages"]["sift"]["bytes"] == summary["bytes"]["read"]
    assert journal["stages"]["tokens"]["tokens"] == summary["tokens"]["packed"]
    assert journal["stages"]["sift"]["peak_worker_bytes"] > 50e6


_STAGES = ("sift", "dedup", "tokens", "pack")


def test_a_run_is_told_of_while_it_goes_after_a_kill_and_after_it_went_on(cyber: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [TAMIZ, "build", "configs/cyber.yaml", "--run-dir", run, "--workers", "1"]
    going = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (run / PROGRESS).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    going.send_signal(signal.SIGSTOP)  # or the build may be over before status has started
    status = run_tamiz("status", str(run))
    going.send_signal(signal.SIGKILL)
    going.wait()
    assert re.search(r"^running: (sift|dedup|tokens|pack) with 1 workers on ", status.stdout, re.MULTILINE)
    journal = json.loads((run / PROGRESS).read_text())
    (run / PROGRESS).write_text(json.dumps({**journal, "updated": journal["updated"] - 100}))
    assert "stopped without a word" in run_tamiz("status", str(run)).stdout
    made = run_tamiz("report", str(run))
    assert made.returncode == 0, made.stderr
    assert "stopped without a word" in (run / "report" / "index.html").read_text(encoding="utf-8")
    assert build(run, "--workers", "1").returncode == 0
    assert run_tamiz("status", str(run)).stdout.endswith("the corpus is finished\n")


def test_a_failed_run_has_a_page_that_says_why(tmp_path: Path) -> None:
    run = tmp_path / "run"
    failed = build(run, "--set", "domain.score_min=100000", "--workers", "1")
    assert failed.returncode == 1
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert "This run failed" in page
    assert "no document passed the rules; domain.score_min alone rejects" in page
    assert 'id="rule-domain.score_min"' in page
    assert "No tokens yet" in page
    status = run_tamiz("status", str(run))
    assert "failed in sift" in status.stdout
    as_json = json.loads(run_tamiz("report", str(run), "--json").stdout)
    assert as_json["state"] == "failed"
    assert as_json["documents"]["read"] > as_json["documents"]["packed"] == 0


def test_a_run_half_done_has_a_page(cyber: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(cyber, run)
    (run / "corpus" / "manifest.json").unlink()
    shutil.rmtree(run / "pack")
    (path,) = run.glob("dedup/*/duplicates.done.json")
    path.unlink()
    made = run_tamiz("report", str(run))
    assert made.returncode == 0, made.stderr
    assert "Nothing is packed yet" in (run / "report" / "index.html").read_text(encoding="utf-8")


def test_what_would_run_again_is_named(cyber: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(cyber, run)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("score_min: 15.0", "score_min: 16.0"))
    status = run_tamiz("status", str(run)).stdout
    assert "sift would run again:" in status
    assert "rules.domain.score_min: 15 -> 16" in status


def test_a_stage_resumed_adds_up_and_one_with_another_place_begins_anew(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for place, expected in (("sift/a", 5), ("sift/a", 10), ("sift/b", 5)):
        journal = Journal(folder, 1, {"sift": place})
        journal.begin("sift", 100, 0)
        journal.add(5, 50, 0)
        journal.end()
        journal.close("interrupted")
        record = read_journal(folder)
        assert record is not None
        assert record["state"] == "interrupted"
        assert record["stages"]["sift"]["documents"] == expected


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 s"), (600, "10 min"), (12_000, "3 h 20 min")])
def test_seconds_are_told_as_people_do(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
