"""Where the run lies gives trouble: a full disk, a read-only directory, a second build."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.test_build import ROOT, TAMIZ, build, hash_corpus, run_tamiz

ENOUGH = "200m"  # the run over the sample takes 850 kB


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    assert build(run_dir, "--workers", "1").returncode == 0
    return hash_corpus(run_dir)


@pytest.fixture(params=["150k", "600k"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, too small for sift, or for a later stage."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk takes root and mount")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", place], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_named_and_the_run_goes_on_when_there_is_room(disk: Path, whole: dict[str, str]) -> None:
    run_dir = disk / "run"
    full = build(run_dir, "--workers", "2")
    assert full.returncode == 1, full.stderr
    message = full.stderr.splitlines()[-1]
    assert str(run_dir) in message
    assert "disk full" in message
    assert "run the same command again" in message
    assert "Traceback" not in full.stderr
    subprocess.run(["mount", "-o", f"remount,size={ENOUGH}", disk], check=True)
    again = build(run_dir, "--workers", "2")
    assert again.returncode == 0, again.stderr
    assert hash_corpus(run_dir) == whole
    assert not list(run_dir.rglob(".aside-*"))


@pytest.mark.parametrize("disk", [ENOUGH], indirect=True)
def test_a_read_only_disk_is_named_and_the_run_goes_on(disk: Path, whole: dict[str, str]) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    refused = build(disk / "run")
    assert refused.returncode == 1
    assert "read-only" in refused.stderr.splitlines()[-1]
    assert str(disk / "run") in refused.stderr.splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert build(disk / "run").returncode == 0
    assert hash_corpus(disk / "run") == whole


def test_a_second_build_on_the_same_run_is_refused_by_host_and_pid(tmp_path: Path, whole: dict[str, str]) -> None:
    run_dir = tmp_path / "run"
    first = subprocess.Popen(
        [TAMIZ, "build", "configs/cyber.yaml", "--run-dir", run_dir, "--workers", "1"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not (run_dir / "plan.json").exists():
        assert first.poll() is None
        time.sleep(0.02)
    second = run_tamiz("build", "configs/cyber.yaml", "--run-dir", str(run_dir))
    assert first.poll() is None, "the first build ended before the second began"
    assert second.returncode == 1
    message = second.stderr.splitlines()[-1]
    assert f"in use by process {first.pid} on {os.uname().nodename}" in message
    assert first.wait(timeout=300) == 0
    assert hash_corpus(run_dir) == whole
