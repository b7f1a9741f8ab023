"""docs/scaling.md: the cluster file keeps Ray's schema, and the Slurm script does what it says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
STUB = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
[ "$(basename "$0")" != scontrol ] || printf "n1\\nn2\\nn3\\n"
"""


def find_block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    return match[1]


def read_cluster() -> dict[str, Any]:
    cluster: dict[str, Any] = yaml.safe_load(find_block("yaml"))
    return cluster


def test_cluster_file_names_what_it_defines() -> None:
    cluster = read_cluster()
    kinds = cluster["available_node_types"]
    assert cluster["head_node_type"] in kinds
    assert kinds["head"]["resources"] == {"CPU": 0}
    assert kinds["worker"]["max_workers"] <= cluster["max_workers"]


@pytest.mark.ray
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is absent")
def test_cluster_file_keeps_rays_schema() -> None:
    import jsonschema
    import ray

    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(read_cluster(), schema)


@pytest.mark.parametrize("n_nodes", [1, 3])
def test_slurm_script_starts_every_node_and_then_the_build(tmp_path: Path, n_nodes: int) -> None:
    for name in ("srun", "scontrol", "ray", "tamiz"):
        stub = tmp_path / name
        stub.write_text(STUB, encoding="utf-8")
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    script = tmp_path / "tamiz.sh"
    script.write_text(find_block("bash"), encoding="utf-8")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_JOB_NUM_NODES": str(n_nodes),
        "SLURM_CPUS_PER_TASK": "16",
    }
    command = ["bash", script, "configs/cyber.yaml", "/shared/runs/cyber"]
    subprocess.run(command, env=environment, check=True, timeout=30)
    n_expected = 4 if n_nodes == 1 else 5
    while len(calls := (tmp_path / "calls").read_text(encoding="utf-8").splitlines()) < n_expected:
        pass  # what runs in the background may be a little late
    started = [call for call in calls if call.startswith("srun")]
    assert any("--nodelist=n1 ray start --num-cpus=16" in call and "--head" in call for call in started)
    assert len(started) == (1 if n_nodes == 1 else 2)
    if n_nodes > 1:
        assert any("--nodes=2 --ntasks=2 --exclude=n1" in call and "--address=n1:6379" in call for call in started)
    assert "tamiz build configs/cyber.yaml --run-dir /shared/runs/cyber --engine ray --address n1:6379" in calls


def test_slurm_script_without_arguments_tells_its_usage() -> None:
    done = subprocess.run(["bash", "-c", find_block("bash")], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: sbatch" in done.stderr
