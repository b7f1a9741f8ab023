"""What a worker does before its first document, with a warm cache: imports, compiled kernels, models, tokenizer.

Run in a process of its own: python -m benchmarks.startup
"""

from __future__ import annotations

import json
import os
import time

from benchmarks.stages import FINEWEB, cache_dir
from tamiz.kernels import name_kernel_folder


def main() -> None:
    steps: dict[str, list[float]] = {}
    started, clock = time.perf_counter(), time.process_time()

    def note(step: str) -> None:
        nonlocal started, clock
        now, cpu = time.perf_counter(), time.process_time()
        steps[step] = [cpu - clock, now - started]
        started, clock = now, cpu

    os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(cache_dir())))
    from benchmarks.reference import make_settings
    from tamiz.run.pack import pack_shard  # noqa: F401 (what a worker imports to work every stage)
    from tamiz.run.sift import sift_split  # noqa: F401
    from tamiz.run.tokens import TokenSettings, open_tokenizer
    from tamiz.run.warming import warm_kernels

    settings = make_settings(cache_dir(), **FINEWEB, redact=["email", "ip"], dedup={})
    note("imports")
    warm_kernels(settings)
    note("kernels and language model")
    open_tokenizer(TokenSettings("tekken", None, False, 0.0, 0, str(cache_dir())))
    note("tokenizer")
    print(json.dumps(steps))


if __name__ == "__main__":
    main()
