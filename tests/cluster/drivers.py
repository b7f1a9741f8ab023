"""The commands of these tests, and what they must leave behind."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tamiz.store import Folder
from tests.cluster.conftest import ROOT, Nodes

TAMIZ = Path(sys.executable).with_name("tamiz")


def finish(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return done


def use_ray(nodes: Nodes) -> list[str]:
    return ["--engine", "ray", "--address", nodes.address]


def hash_corpus(run_dir: str) -> dict[str, str]:
    """SHA-256 of every file of the corpus: shards, manifest and card."""
    folder = Folder(run_dir)
    return {path: hashlib.sha256(folder.read_bytes(path)).hexdigest() for path in folder.list("corpus/")}


def check_books(run_dir: str) -> dict[str, Any]:
    """The summary balances, verify finds nothing, and no shard is there that the manifest does not name."""
    folder = Folder(run_dir)
    summary: dict[str, Any] = json.loads(folder.read_bytes("report/summary.json"))
    documents = summary["documents"]
    assert documents["read"] == sum(count for outcome, count in documents.items() if outcome != "read")
    verified = finish([str(TAMIZ), "verify", run_dir], dict(os.environ))
    assert verified.stdout.startswith("ok:"), verified.stdout
    return summary
