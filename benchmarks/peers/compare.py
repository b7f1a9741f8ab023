"""tamiz beside datatrove 0.10.1, plain and repaired: the same stages on the same documents in the same run.

    make bench-peers [BENCH_INPUT='data/*.parquet']

datatrove's filters end with the first that drops a document; tamiz measures all rules of all documents. Each stage gets
all documents as they came, in one process, one pass, start-up and first document left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import NAMES, format_table
from benchmarks.machine import describe_machine
from benchmarks.noise import list_inputs, read_documents
from benchmarks.reference import make_settings
from benchmarks.stages import FINEWEB, MAKERS, Cost, cache_dir, measure_stage
from tamiz.pack.tekken import cache_tekken

HERE = Path(__file__).parent
OUT = HERE.parent / "out"
PYTHON = HERE / ".venv" / "bin" / "python"
WHOLE = ("chain", "redaction", "minhash", "tokenize")  # what a build does to every document
READ_BYTES = 200_000_000  # of the input, to choose documents from

Costs = dict[str, dict[str, tuple[float, int, int]]]


def write_documents(patterns: list[str], n_documents: int) -> Path:
    """`n_documents` documents, evenly spaced over the input, as one Parquet file."""
    table = read_documents(list_inputs(patterns), READ_BYTES)
    rows = np.unique(np.linspace(0, len(table) - 1, min(n_documents, len(table))).astype(np.int64))
    OUT.mkdir(exist_ok=True)
    path = OUT / "peers.parquet"
    pq.write_table(table.take(pa.array(rows)), path)
    return path


def measure_datatrove(documents: Path) -> Costs:
    """variant -> stage -> (CPU seconds, bytes, documents that came out)."""
    model = make_settings(cache_dir(), language=FINEWEB["language"]).language_model
    command = [PYTHON, HERE / "reference_chain.py", documents, model, cache_tekken(cache_dir())]
    one_thread = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(part) for part in command], env={**os.environ, **one_thread}, stdout=subprocess.PIPE, text=True, check=True
    )
    costs: Costs = json.loads(done.stdout.splitlines()[-1])
    return costs


def measure_tamiz(stage: str, documents: Path) -> Cost:
    """The median of five processes: what takes 0.03 s is easily disturbed."""
    return sorted(measure_stage(stage, [str(documents)], 1) for _ in range(5))[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="Parquet files [default: the sample]")
    parser.add_argument("--documents", type=int, default=800)
    options = parser.parse_args()
    machine = describe_machine()
    documents = write_documents(options.files, options.documents)
    ours = {stage: measure_tamiz(stage, documents) for stage in MAKERS}
    theirs = measure_datatrove(documents)
    megabytes = ours["chain"].n_bytes / 1e6
    per_mb = {
        "datatrove": {stage: cost[0] / megabytes for stage, cost in theirs["datatrove"].items()},
        "repaired": {stage: cost[0] / megabytes for stage, cost in theirs["repaired"].items()},
        "tamiz": {stage: cost.cpu / megabytes for stage, cost in ours.items()},
    }
    rows = [(NAMES[stage], *(per_mb[variant][stage] for variant in per_mb)) for stage in MAKERS]
    rows.append(("sum: " + ", ".join(WHOLE), *(sum(costs[stage] for stage in WHOLE) for costs in per_mb.values())))
    with_ratios = [(*row, f"{row[1] / row[3]:.0f}x", f"{row[2] / row[3]:.0f}x") for row in rows]
    header = ("CPU s per MB of text", *per_mb, "datatrove / tamiz", "repaired / tamiz")
    kept = {variant: theirs[variant]["chain"][2] for variant in ("datatrove", "repaired")}
    text = "\n\n".join(
        [
            format_table(("machine", ""), machine.items()),
            format_table(header, with_ratios),
            f"{ours['chain'].documents} documents, {megabytes:.2f} MB; the chain keeps "
            + ", ".join(f"{n} ({variant})" for variant, n in kept.items()),
        ]
    )
    print(text)
    (OUT / "peers.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
