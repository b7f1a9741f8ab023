"""Datasets laid out as the Hub has them, and builds of them by the command line a user types."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers
import yaml
from tokenizers import models, pre_tokenizers, trainers

from tests.run.test_build import ROOT, TAMIZ

SHARED = ROOT.parent / "shared" / "data"
SAMPLE = ROOT / "src" / "tamiz" / "sample"
CARD = """---
configs:
- config_name: default
  data_files: [{split: train, path: "data/*/*.parquet"}]
- config_name: old
  data_files: [{split: train, path: "data/CC-MAIN-2023-14/*.parquet"}]
---
"""


def lay_out(folder: Path, name: str, n_rows: int | None = None) -> Path:
    """A copy of `../shared/data/<name>`, or the sample in its layout when that is absent: files of `n_rows` at most."""
    (folder / "README.md").parent.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(CARD)
    found = sorted((SHARED / name / "data").glob("*/*.parquet"))
    for path in found:
        target = folder / "data" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if n_rows is None:
            shutil.copyfile(path, target)
        else:
            pq.write_table(pq.read_table(path).slice(0, n_rows), target, row_group_size=max(n_rows // 4, 1))
    if not found:
        for number, dump in enumerate(("CC-MAIN-2023-14", "CC-MAIN-2024-10")):
            target = folder / "data" / dump / f"000_0000{number}.parquet"
            target.parent.mkdir(parents=True)
            pq.write_table(_copy_sample(number), target, row_group_size=50)
    return folder


def _copy_sample(number: int) -> pa.Table:
    rows = [row for path in sorted(SAMPLE.glob("*.parquet")) for row in pq.read_table(path).to_pylist() if row["text"]]
    scores = [i % 5 for i in range(len(rows))]
    return pa.table(
        {
            "text": [f"{row['text']}\nCopy {number}." for row in rows],
            "id": [f"<urn:uuid:{i}>" for i in range(len(rows))],
            "url": [f"https://a.example/{number}/{i}" for i in range(len(rows))],
            "int_score": pa.array(scores, pa.int64()),
        }
    )


def write_config(folder: Path, datasets: dict[str, str], **settings: Any) -> Path:
    """A config that reads the first of these sources (name -> dataset), with a small tokenizer beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>"]
    tokenizer.train_from_iterator(
        [], trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "name": "streamed",
        "source": next(iter(datasets)),
        "sources": {name: {"kind": "hub", "dataset": dataset} for name, dataset in datasets.items()},
        "rules": {"gopher_quality": {}},
        "pack": {"tokenizer": "tokenizer.json", "sequence_length": 1024, "holdout": 0.02, "shard_tokens": 4_000_000},
        **settings,
    }
    path = folder / "streamed.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


class Builds:
    """Builds of one config in folders below `home`; `endpoint` is the Hub's."""

    def __init__(self, home: Path, config: Path, endpoint: str) -> None:
        self.home, self.config, self.endpoint = home, config, endpoint

    def start(self, run: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """`tamiz build` into the run directory `run`, with caches of the tests' own."""
        run_dir = self.home / run
        settings = {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(self.home / "hf" / run),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",  # else `datasets` asks a host outside
        }
        environment = {key: value for key, value in os.environ.items() if key not in ("HF_TOKEN", "TAMIZ_HUB_CACHE")}
        return subprocess.Popen(
            [TAMIZ, "build", str(self.config), "--run-dir", str(run_dir), *arguments],
            env={**environment, **settings, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build(self, run: str, *arguments: str, **variables: str) -> dict[str, str]:
        """Build and return the shards' SHA-256 by name."""
        code, _, errors = self.run(run, *arguments, **variables)
        assert code == 0, errors
        return hash_shards(self.home / run)

    def run(self, run: str, *arguments: str, **variables: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a build."""
        process = self.start(run, *arguments, **variables)
        output, errors = process.communicate(timeout=240)
        return process.returncode, output, errors

    def build_files(self, run: str, folder: Path, name: str, *arguments: str) -> dict[str, str]:
        """The same config with the source `name` read from the files in `folder` instead."""
        source = {"kind": "parquet", "paths": [f"{folder}/*/*/*.parquet"]}
        whole = yaml.safe_load(self.config.read_text())
        kept = {key: value for key, value in whole["sources"][name].items() if key in ("where", "limit", "license")}
        text = yaml.safe_dump({**source, **kept}, default_flow_style=True, width=10_000).strip()
        return self.build(run, "--set", f"sources.{name}={text}", *arguments)


def hash_shards(run_dir: Path) -> dict[str, str]:
    """SHA-256 by name of the corpus's Parquet files."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted((run_dir / "corpus").glob("*.parquet"))}


def find_seconds(text: str) -> list[int]:
    """The seconds that progress lines say are waited for the Hub."""
    return [int(seconds) for seconds in re.findall(r"waiting for the Hub, (\d+) s", text)]
