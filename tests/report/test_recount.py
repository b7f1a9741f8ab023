"""The page, summary.json, the console and the Parquet files say the same: recounted here with pyarrow alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.run.test_build import run_tamiz


def read_all(run: Path, pattern: str) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(run.glob(pattern))], promote_options="permissive")


@pytest.fixture(scope="module")
def recount(cyber: Path) -> dict[str, Any]:
    verdicts, kept = read_all(cyber, "sift/*/*.verdicts.parquet"), read_all(cyber, "sift/*/*.kept.parquet")
    duplicates, shards = read_all(cyber, "dedup/*/duplicates.parquet"), read_all(cyber, "corpus/*.parquet")
    outcome, n_bytes = verdicts["outcome"], verdicts["n_bytes"]
    lost = pc.is_in(kept["doc_id"], value_set=duplicates["doc_id"].combine_chunks())
    names = [[x for x in row if x is not None] for row in shards["doc_ids"].to_pylist()]
    packed = {name for row in names for name in row}
    lengths, ids = shards["seq_lens"].to_pylist(), shards["doc_ids"].to_pylist()
    pairs = [(n, name) for row in zip(lengths, ids, strict=True) for n, name in zip(*row, strict=True)]
    rules: dict[str, Counter[str]] = {}
    for failed in verdicts["failed"].to_pylist():
        for i, rule in enumerate(failed):
            rules.setdefault(rule, Counter()).update(["failed"] + ["first"] * (i == 0) + ["alone"] * (len(failed) == 1))
    return {
        "documents": {
            "read": len(verdicts),
            "quarantined": pc.sum(pc.equal(outcome, "quarantined")).as_py(),
            "rejected": pc.sum(pc.equal(outcome, "rejected")).as_py(),
            "duplicate": len(duplicates),
            "packed": len(packed),
        },
        "bytes": {
            "read": pc.sum(n_bytes).as_py(),
            "rejected": pc.sum(n_bytes.filter(pc.equal(outcome, "rejected"))).as_py(),
            "duplicate": pc.sum(pc.binary_length(kept["text"].filter(lost))).as_py() or 0,
            "packed": pc.sum(pc.binary_length(kept["text"].filter(pc.invert(lost)))).as_py(),
        },
        "tokens": {
            "packed": sum(n for n, name in pairs if name is not None),
            "padding": sum(n for n, name in pairs if name is None),
        },
        "rules": rules,
        "kept": {row["doc_id"] for row in kept.select(["doc_id"]).to_pylist()},
        "packed": packed,
        "quarantine": Counter(verdicts["quarantine"].drop_null().to_pylist()),
    }


class _Tables(HTMLParser):
    """Every table row of the page as its cells' texts."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data.strip()


def find_row(rows: list[list[str]], first: str, n_cells: int) -> list[str]:
    (row,) = [row for row in rows if row and row[0] == first and len(row) == n_cells]
    return row


def test_summary_json_is_what_the_files_hold(cyber: Path, recount: dict[str, Any]) -> None:
    summary = json.loads((cyber / "report" / "summary.json").read_text())
    for what in ("documents", "bytes", "tokens"):
        for outcome, n in recount[what].items():
            assert summary[what][outcome] == n, (what, outcome)
    for rule, counts in summary["rules"].items():
        assert counts == {name: recount["rules"].get(rule, Counter())[name] for name in counts}
    assert summary["quarantine"] == recount["quarantine"]
    assert recount["packed"] < recount["kept"]


def test_the_page_says_the_same(cyber: Path, recount: dict[str, Any]) -> None:
    tables = _Tables()
    tables.feed((cyber / "report" / "index.html").read_text(encoding="utf-8"))
    labels = {
        "read": "Read",
        "quarantined": "Quarantined: unreadable or empty",
        "rejected": "Rejected by rules",
        "duplicate": "Duplicates",
        "packed": "Packed",
    }
    for outcome, label in labels.items():
        row = find_row(tables.rows, label, 7)
        assert row[1] == f"{recount['documents'][outcome]:,}"
        if outcome != "quarantined":
            assert row[4] == f"{recount['bytes'][outcome] / 1e6:,.2f}"
    assert find_row(tables.rows, "Packed", 7)[6] == f"{recount['tokens']['packed']:,}"
    for rule, counts in recount["rules"].items():
        row = find_row(tables.rows, rule, 9)
        assert row[3:6] == [f"{counts[name]:,}" for name in ("failed", "alone", "first")]
    for reason, n in recount["quarantine"].items():
        assert find_row(tables.rows, reason, 3)[1] == f"{n:,}"


def test_the_console_and_json_say_the_same(cyber: Path, recount: dict[str, Any]) -> None:
    printed = run_tamiz("report", str(cyber))
    assert printed.returncode == 0, printed.stderr
    assert max(map(len, printed.stdout.split("\nreport ")[0].splitlines())) <= 80
    numbers = {tuple(re.findall(r"[\d,.]+", line)) for line in printed.stdout.splitlines()}
    documents, n_bytes, tokens = recount["documents"], recount["bytes"], recount["tokens"]
    packed = (f"{documents['packed']:,}", f"{n_bytes['packed'] / 1e6:,.3f}", f"{tokens['packed']:,}")
    assert packed in numbers
    as_json = json.loads(run_tamiz("report", str(cyber), "--json").stdout)
    assert as_json["state"] == "finished"
    assert {k: as_json["documents"][k] for k in documents} == documents
    assert as_json == {"state": "finished", **json.loads((cyber / "report" / "summary.json").read_text())}
