"""One large file that cannot seek, killed in the middle again and again: at most one part is repeated each time."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crawls import read_sample, shuffle_words
from tests.robustness.cases import PACK
from tests.run.test_build import ROOT, hash_corpus, run_tamiz

N_KILLS = 20

# The command line has no key for the size of parts, which is a constant: this is `tamiz build` with small ones.
DRIVER = """
import os, sys
from pathlib import Path
from tamiz.cli import _cache_dir
from tamiz.kernels import name_kernel_folder
os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(_cache_dir())))
from tamiz.config_file import load_config
from tamiz.run.build import Place, build_corpus
from tamiz.sources import jsonl
jsonl.BATCH_ROWS = 100  # in the workers too, which import this file
if __name__ == "__main__":
    config = load_config(Path("configs/fineweb-raw.yaml"), sys.argv[3:])
    build_corpus(config, Place(sys.argv[1], _cache_dir()), print, part_bytes=int(sys.argv[2]))
"""


@pytest.fixture(scope="module", params=["gz", "zst"])
def stream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's texts fifteen times, their words shuffled within sentences, in one packed file."""
    texts, rng = read_sample(), random.Random(5)
    lines = [json.dumps({"text": text}).encode() + b"\n" for _ in range(15) for text in shuffle_words(texts, rng)]
    path = tmp_path_factory.mktemp(request.param) / f"all.jsonl.{request.param}"
    path.write_bytes(PACK[request.param](b"".join(lines)))
    return path


def start(stream: Path, run_dir: Path, driver: Path) -> subprocess.Popen[bytes]:
    overrides = [
        "source=lines", f'sources.lines.paths=["{stream}"]', "rules={}", "run.workers=1",
        "pack.shard_tokens=200000", "pack.sequence_length=1024",
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, driver, run_dir, str(50_000), *overrides], cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def list_parts(run_dir: Path) -> dict[str, int]:
    """The records of finished parts and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in run_dir.glob("sift/*/part-*.done.json")}


@pytest.mark.slow
def test_killed_twenty_times_in_the_middle_of_a_stream(stream: Path, tmp_path: Path) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    assert start(stream, tmp_path / "whole", driver).wait(timeout=600) == 0
    n_parts = len(list_parts(tmp_path / "whole"))
    assert n_parts > 2 * N_KILLS
    run_dir = tmp_path / "run"
    rng = random.Random(stream.suffix)
    for n_killed in range(1, N_KILLS + 1):
        before = list_parts(run_dir)
        process = start(stream, run_dir, driver)
        while len(list_parts(run_dir)) <= len(before):  # it gets one part further each time, and dies in the next
            assert process.poll() is None, f"it ended before it could be killed {N_KILLS} times"
            time.sleep(0.002)
        time.sleep(rng.random() * 0.02)
        if rng.random() < 0.5:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        after = list_parts(run_dir)
        assert before.items() <= after.items(), n_killed  # no part was made again
    assert start(stream, run_dir, driver).wait(timeout=600) == 0
    assert before.items() <= list_parts(run_dir).items()
    assert hash_corpus(run_dir) == hash_corpus(tmp_path / "whole")
    assert run_tamiz("verify", str(run_dir)).returncode == 0
