"""A whole build over everything hostile at once, by the command line: it ends, the books balance, memory is bounded."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.cases import RECORDS, STREAMS, TABLES, Good, Record, write_good
from tests.robustness.pages import ARCHIVES, PAGES, make_good, make_response
from tests.robustness.test_records import write_jsonl, write_parquet
from tests.robustness.worker import MEMORY_MAX
from tests.run.test_build import ROOT, TAMIZ, run_tamiz

# No rule: what can be read is kept, so that the tokenizer and the packer meet it too.
CONFIG = """
name: hostile
source: [rows, lines, web]
sources:
  rows: {kind: parquet, paths: ["rows/*.parquet"]}
  lines: {kind: jsonl, paths: ["lines/*.jsonl*"]}
  web: {kind: warc, paths: ["web/*.warc*"]}
quarantine: {max_share: 1.0}
pack: {sequence_length: 2048, shard_tokens: 2000000}
"""
RUN = "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]); "
RUN += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024); sys.exit(r.returncode)"


def write_all(folder: Path, good: Good, records: list[Record]) -> None:
    for kind in ("rows", "lines", "web"):
        (folder / kind).mkdir()
    for number, record in enumerate(records):
        if record.parquet:
            write_parquet(folder / "rows" / f"{number:02d}.parquet", record, good.texts[:4])
        if record.jsonl:
            write_jsonl(folder / "lines" / f"{number:02d}.jsonl.zst", record, good.texts[:4])
    for number, stream in enumerate(case for case in STREAMS if not case.is_slow):
        (folder / "lines" / f"stream{number:02d}.jsonl{stream.suffix}").write_bytes(stream.make(good))
    for number, table in enumerate(TABLES):
        table.make(good, folder / "rows" / f"table{number:02d}.parquet")
    around = [make_good(good, i) for i in range(4)]
    for number, page in enumerate(page for page in PAGES if not page.is_slow):
        records = [*around[:2], make_response(7, page.make(), page.fields), *around[2:]]
        (folder / "web" / f"{number:02d}.warc.gz").write_bytes(b"".join(map(gzip.compress, records)))
    for number, archive in enumerate(archive for archive in ARCHIVES if not archive.is_slow):
        (folder / "web" / f"archive{number:02d}{archive.suffix}").write_bytes(archive.make(around))
    write_good(good, folder / "rows" / "whole.parquet")
    (folder / "lines" / "whole.jsonl").write_bytes(good.write_lines(0, 1))
    (folder / "hostile.yaml").write_text(CONFIG)


@pytest.mark.slow
def test_everything_at_once(good: Good, tmp_path: Path) -> None:
    write_all(tmp_path, good, [record for record in RECORDS if not record.is_slow])
    build = [TAMIZ, "build", tmp_path / "hostile.yaml", "--run-dir", tmp_path / "run", "--workers", "2"]
    built = subprocess.run(
        [sys.executable, "-c", RUN, *build], cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False
    )
    assert built.returncode == 0, built.stderr
    assert int(built.stdout.splitlines()[-1]) < MEMORY_MAX
    assert "unreadable stretches of files" in built.stdout
    summary = json.loads((tmp_path / "run" / "report" / "summary.json").read_text())
    documents = summary["documents"]
    assert documents["read"] == sum(count for outcome, count in documents.items() if outcome != "read")
    assert {damage["reason"] for damage in summary["damage"]} >= {"gz_corrupt", "zst_truncated", "parquet_unreadable"}
    assert set(summary["quarantine"]) >= {"extract_too_deep", "http_truncated", "warc_bad_length"}
    verified = run_tamiz("verify", str(tmp_path / "run"))
    assert verified.returncode == 0, verified.stdout


def write_share(folder: Path, good: Good, n_bad: int) -> list[str]:
    lines = good.write_lines(0, 1) + b"{\n" * n_bad
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "hostile.yaml").write_text(
        CONFIG.replace("[rows, lines, web]", "lines").replace("lines/", "").replace("1.0", "0.01")
    )
    return ["build", str(folder / "hostile.yaml"), "--run-dir", str(folder / "run"), "--workers", "1"]


def test_too_much_of_a_source_stops_the_run_and_a_higher_share_goes_on(good: Good, tmp_path: Path) -> None:
    command = write_share(tmp_path, good, 3)
    stopped = run_tamiz(*command)
    assert stopped.returncode == 1
    message = stopped.stderr.splitlines()[-1]
    n = len(good.texts) + 3
    assert f"source lines: 3 of {n} documents ({3 / n:.2%}) are quarantined" in message
    assert "quarantine.max_share 0.01" in message
    assert "bad_json 3" in message
    again = run_tamiz(*command, "--set", "quarantine.max_share=0.1")
    assert again.returncode == 0, again.stderr
    assert "1 of 1 splits were done before" in again.stderr
