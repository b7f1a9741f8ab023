"""After warming, a worker finds every kernel compiled: sifting real documents adds no machine code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from importlib import resources
from pathlib import Path

import numba.core.dispatcher

from tamiz.config import Config
from tamiz.run.measuring import sift_batch
from tamiz.run.settings import make_sift_settings
from tamiz.run.warming import warm_kernels
from tamiz.sources import ParquetSource, list_splits, read_split


def count_compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("tamiz.")]
    kernels = {id(k): k for m in modules for k in vars(m).values() if isinstance(k, numba.core.dispatcher.Dispatcher)}
    return {f"{k.py_func.__module__}.{k.py_func.__name__}": len(k.overloads) for k in kernels.values()}


recipes = dict.fromkeys(("gopher_repetition", "gopher_quality", "c4", "fineweb_quality"), {})
raw = {"name": "warm", "source": "s", "sources": {"s": {"kind": "sample"}}, "rules": recipes, "redact": ["email", "ip"]}
raw |= {"language": {"keep": ["en"], "recompute": True}}
settings = make_sift_settings(Config.model_validate(raw), Path(sys.argv[1]))
warm_kernels(settings)
warm = count_compiled()
spec = ParquetSource("s", (f"{resources.files('tamiz.sample')}/*.parquet",))
for split in list_splits(spec).splits:
    for chunk in read_split(split, spec):
        sift_batch(settings, chunk.batch)
print(sorted(name for name, n in count_compiled().items() if n != warm[name]))
"""


def test_no_kernel_is_compiled_after_warming(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
