"""kill -9 at random moments, then the same command: the corpus is the same, byte for byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.crawls import write_crawl
from tests.run.test_build import ROOT, TAMIZ, hash_corpus, run_tamiz

N_FILES, N_KILLS = 8, 5


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight Parquet files: the sample's texts, each file with its words shuffled within sentences in its own way."""
    folder = tmp_path_factory.mktemp("crawl")
    write_crawl(folder, range(N_FILES))
    return folder


def make_command(crawl: Path, run_dir: Path, workers: int) -> list[str]:
    return [
        "build", "configs/fineweb-raw.yaml", "--run-dir", str(run_dir), "--workers", str(workers),
        "--set", f'sources.mine.paths=["{crawl}/*.parquet"]',
        "--set", "pack.shard_tokens=60000", "--set", "pack.sequence_length=1024", "--set", "pack.holdout=0.05",
        "--set", "rules.fineweb_quality=null",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(crawl: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    built = run_tamiz(*make_command(crawl, run_dir, 1))
    assert built.returncode == 0, built.stderr
    hashes = hash_corpus(run_dir)
    assert {"train-00001.parquet", "validation-00000.parquet", "manifest.json", "README.md"} <= hashes.keys()
    return hashes


def count_published(run_dir: Path) -> int:
    return sum(1 for path in run_dir.rglob("*") if path.is_file() and not path.name.startswith("."))


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_five_times_the_corpus_is_the_same(
    crawl: Path, uninterrupted: dict[str, str], tmp_path: Path, workers: int
) -> None:
    rng = random.Random(workers)
    run_dir = tmp_path / "run"
    for _ in range(N_KILLS):
        enough = count_published(run_dir) + rng.randint(1, 9)
        driver = subprocess.Popen(
            [TAMIZ, *make_command(crawl, run_dir, workers)],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        while count_published(run_dir) < enough:
            assert driver.poll() is None, "the build ended before it could be killed"
            time.sleep(0.005)
        time.sleep(rng.random() * 0.3)
        if rng.random() < 0.5:
            os.kill(driver.pid, signal.SIGKILL)  # the driver alone: its workers must not live on
        else:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert run_tamiz(*make_command(crawl, run_dir, workers)).returncode == 0
    assert hash_corpus(run_dir) == uninterrupted
    assert run_tamiz("verify", str(run_dir)).returncode == 0
    assert not list(run_dir.rglob(".aside-*"))


def test_interrupted_it_says_so_and_goes_on(crawl: Path, uninterrupted: dict[str, str], tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    driver = subprocess.Popen(
        [TAMIZ, *make_command(crawl, run_dir, 2)], cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not any(run_dir.rglob("*.done.json")):  # files alone are not done
        assert driver.poll() is None
        time.sleep(0.01)
    os.killpg(driver.pid, signal.SIGINT)  # what Ctrl-C does: driver and workers all get it
    _, errors = driver.communicate(timeout=30)
    assert driver.returncode == 130
    assert errors.splitlines()[-1] == "interrupted; the same command goes on from what is published"
    assert "Traceback" not in errors
    again = run_tamiz(*make_command(crawl, run_dir, 2))
    assert again.returncode == 0
    assert "were done before" in again.stderr
    assert hash_corpus(run_dir) == uninterrupted
