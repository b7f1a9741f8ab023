"""Every option of dedup in one run: the same bytes for any number of workers, whatever kills it in between."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.run.test_against import make_texts, write_source
from tests.run.test_build import ROOT, TAMIZ, hash_corpus, run_tamiz
from tests.run.test_kill import count_published

OPTIONS = {
    "all": {
        "verify": True, "keep": {"metric": "n_words", "order": "asc"}, "prefer": ["b"], "scope": "dump",
        "lines": {"min_copies": 5}, "minhash": {"ngram": 5, "hashes": 112, "bands": 20, "rows": 5},
    },
    "bloom": {"index": "bloom", "scope": "source"},
}  # fmt: skip


def hash_dedup(run: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in run.glob("dedup/*/*.parquet")}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(OPTIONS))
def test_options_keep_the_guarantees(tmp_path: Path, name: str) -> None:
    for source in "ab":
        texts = [f"A banner that is on pages.\n{text}" for text in make_texts(ord(source), 90)]
        dumps = [random.Random(i).choice(["CC-1", "CC-2"]) for i in range(len(texts))]
        write_source(tmp_path, source, texts, dumps)
    config = {
        "name": "options", "source": ["a", "b"],
        "sources": {s: {"kind": "parquet", "paths": [f"{s}/*.parquet"]} for s in "ab"},
        "dedup": OPTIONS[name], "pack": {"sequence_length": 256, "repeat": {} if name == "bloom" else {1: 2}},
    }  # fmt: skip
    path = tmp_path / "options.yaml"
    path.write_text(yaml.safe_dump(config))
    whole = tmp_path / "whole"
    built = run_tamiz("build", str(path), "--run-dir", str(whole), "--workers", "1")
    assert built.returncode == 0, built.stderr
    assert run_tamiz("verify", str(whole)).returncode == 0
    assert not list(whole.glob("dedup/*/work-*/*"))
    rng = random.Random(name)
    run = tmp_path / "run"
    command = ["build", str(path), "--run-dir", str(run), "--workers", "2"]
    for _ in range(3):
        enough = count_published(run) + rng.randint(4, 20)
        driver = subprocess.Popen(
            [TAMIZ, *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while driver.poll() is None and count_published(run) < enough:
            time.sleep(0.005)
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    again = run_tamiz(*command)
    assert again.returncode == 0, again.stderr
    assert hash_corpus(run) == hash_corpus(whole)
    assert hash_dedup(run) == hash_dedup(whole)
