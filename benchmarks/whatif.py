"""`tamiz whatif` and the report over made verdicts: seconds, peak memory, bytes of the page.

Run from the project's root: python benchmarks/whatif.py [--documents 10000000] [--keep DIR]

The verdicts have every column of the FineWeb recipe and row groups of 1,024 documents, as sift writes them. Four
parts of 81,920 documents are made, and copied under other names until there are enough documents.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.config_file import load_config
from tamiz.decide.rules import find_failures, list_failures
from tamiz.measure.table import GROUPS, list_metrics
from tamiz.run.settings import make_all_rules
from tamiz.schema import make_verdict_schema

ROOT = Path(__file__).resolve().parents[1]
PART_ROWS, GROUP_ROWS, DISTINCT = 81_920, 1024, 4
SECONDS, MEMORY_MB = 10.0, 2000  # the most we accept for 10 million documents on two cores
PLACE = "sift/0123456789abcdef"


def make_part(path: Path, seed: int) -> int:
    """Write one part's verdicts; the number of documents that no rule fails."""
    rng = np.random.default_rng(seed)
    n = PART_ROWS
    rules = make_all_rules(load_config(ROOT / "configs" / "fineweb-raw.yaml"))
    kinds = list_metrics(GROUPS.keys() - {"domain"})
    n_words = rng.lognormal(6, 1.2, n)
    metrics = {}
    for name, kind in kinds.items():
        if name == "language":
            metrics[name] = pa.array(rng.choice(["en", "de", "fr"], n, p=[0.9, 0.06, 0.04]))
        elif name.startswith("n_"):
            scale = {"n_chars": 6.0, "n_stop_words": 0.02, "n_sentences": 0.06, "n_text_lines": 0.05}.get(name, 1.0)
            values = np.zeros(n) if name in {"n_lorem_ipsum_lines", "n_curly_bracket_lines"} else n_words * scale
            metrics[name] = pa.array(values.astype(np.int64)).cast(kind)
        elif name in {"language_score", "frac_alpha_words", "frac_terminal_lines"}:
            metrics[name] = pa.array(1 - rng.beta(1, 9, n))
        elif name == "mean_word_chars":
            metrics[name] = pa.array(rng.normal(4.7, 0.6, n))
        else:
            metrics[name] = pa.array(rng.beta(0.5, 40, n))
    failures = find_failures(metrics, rules)
    is_kept = ~failures.any(axis=1)
    columns = {
        "doc_id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), n, [None, pa.py_buffer(rng.bytes(16 * n))]),
        "source": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, dtype=np.int32)), pa.array(["mine"])),
        "origin": pa.array([f"made/{seed:03d}.parquet#{row}" for row in range(n)]),
        "url": pa.array([f"https://host{row % 9973}.example/page/{row}" for row in range(n)]),
        "n_bytes": pa.array((n_words * 6).astype(np.int64)),
        **metrics,
        "failed": list_failures(failures, rules),
        "outcome": pa.array(np.where(is_kept, "kept", "rejected")),
        "quarantine": pa.nulls(n, pa.string()),
    }
    schema = make_verdict_schema(kinds)
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    pq.write_table(table, path, row_group_size=GROUP_ROWS, compression="zstd")
    return int(is_kept.sum())


def make_run(folder: Path, n_documents: int) -> int:
    """A run directory whose sift is finished; the number of documents kept."""
    place = folder / PLACE
    place.mkdir(parents=True)
    originals = [folder / f"made-{seed}.parquet" for seed in range(DISTINCT)]
    kept = [make_part(path, seed) for seed, path in enumerate(originals)]
    n_parts = -(-n_documents // PART_ROWS)
    for i in range(n_parts):
        name = f"part-{i:05d}-000"
        path = place / f"{name}.verdicts.parquet"
        shutil.copyfile(originals[i % DISTINCT], path)
        output = {"path": f"{PLACE}/{path.name}", "n_bytes": path.stat().st_size, "sha256": ""}
        tally = {
            "documents/read": PART_ROWS,
            "documents/kept": kept[i % DISTINCT],
            "bytes/read": 1,
            "bytes/rejected": 0,
        }
        facts = {"source": "mine", "cursor": None, "is_last": True}
        done = {"unit": name, "outputs": {"verdicts": output}, "tally": tally, "facts": facts}
        (place / f"{name}.done.json").write_text(json.dumps(done))
    shutil.copyfile(ROOT / "configs" / "fineweb-raw.yaml", folder / "config.yaml")
    places = {"sift": PLACE, "tokens": "tokens/0", "dedup": "dedup/0", "pack": "pack/0"}
    record = {"name": "fineweb-raw", "config_folder": str(ROOT), "sources": [], "places": places, "inputs": {}}
    (folder / "plan.json").write_text(json.dumps(record))
    return sum(kept[i % DISTINCT] for i in range(n_parts))


QUESTIONS = {
    "four rules": [
        *("--set", "gopher_quality.n_words_min=40", "--set", "gopher_quality.frac_alpha_words_min=0.7"),
        *("--set", "fineweb_quality.frac_dup_text_line_chars_max=0.05", "--off", "c4.n_sentences_min"),
    ],
    "a recipe off": ["--off", "gopher_repetition"],
    "examples": ["--set", "gopher_quality.n_words_min=40", "--examples", "5"],
    "a sweep": ["--sweep", "gopher_quality.n_words_min=20:200:10"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path, help="make the run here and leave it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch) / "run"
        if not (folder / "plan.json").exists():
            make_run(folder, arguments.documents)
        n = len(list(folder.glob(f"{PLACE}/*.done.json"))) * PART_ROWS
        print(f"{n:,} documents, {len(os.sched_getaffinity(0))} cores")
        worst = 0.0
        for name, options in QUESTIONS.items():
            start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [Path(sys.executable).with_name("tamiz"), "whatif", folder, *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.monotonic() - start
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            peak = now.ru_maxrss / 1024  # the most of all so far
            cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
            worst = max(worst, seconds)
            print(f"{name:14}{seconds:8.2f} s {cpu:6.1f} CPU-s   peak memory so far {peak:,.0f} MB")
        start = time.monotonic()
        subprocess.run([command[0], "report", folder], check=True, stdout=subprocess.DEVNULL)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        size = (folder / "report" / "index.html").stat().st_size
        seconds = time.monotonic() - start
        print(f"{'the page':14}{seconds:8.2f} s   peak memory so far {peak:,.0f} MB, {size / 1e6:.2f} MB of page")
    if worst > SECONDS or peak > MEMORY_MB:
        sys.exit(f"slower than {SECONDS} s or more than {MEMORY_MB} MB")


if __name__ == "__main__":
    main()
