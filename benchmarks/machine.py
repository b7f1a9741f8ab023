"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("tamiz", "numpy", "numba", "llvmlite", "pyarrow", "fastokens", "tokenizers", "zstandard")


def describe_machine() -> dict[str, str]:
    """CPU model, cores this process may use, memory, load, system, Python and package versions."""
    info = _read_facts(Path("/proc/cpuinfo"))
    memory = int(_read_facts(Path("/proc/meminfo")).get("MemTotal", "0 kB").split()[0]) / 1e6
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {
        "CPU": info.get("model name", platform.processor()),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.1f} GB",
        "load average before": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def _read_facts(path: Path) -> dict[str, str]:
    """`key : value` lines; the first of each key."""
    facts: dict[str, str] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return facts
