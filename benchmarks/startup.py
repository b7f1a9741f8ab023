"""What a worker does before its first document, with a warm cache: imports, compiled kernels, models, tokenizer.

Run in a process of its own: python -m benchmarks.startup CONFIG
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tamiz.kernels import name_kernel_folder


def main() -> None:
    steps: dict[str, list[float]] = {}
    started, clock = time.perf_counter(), time.process_time()

    def note(step: str) -> None:
        nonlocal started, clock
        now, cpu = time.perf_counter(), time.process_time()
        steps[step] = [cpu - clock, now - started]
        started, clock = now, cpu

    cache_dir = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamiz"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(cache_dir)))
    from tamiz.config_file import load_config
    from tamiz.run.pack import pack_shard  # noqa: F401 (what a worker imports to work every stage)
    from tamiz.run.settings import make_sift_settings, make_token_settings
    from tamiz.run.sift import sift_split  # noqa: F401
    from tamiz.run.tokens import open_tokenizer
    from tamiz.run.warming import warm_kernels

    config = load_config(Path(sys.argv[1]))
    note("imports")
    warm_kernels(make_sift_settings(config, cache_dir), print)
    note("kernels and language model")
    open_tokenizer(make_token_settings(config, cache_dir))
    note("tokenizer")
    print(json.dumps(steps))


if __name__ == "__main__":
    main()
