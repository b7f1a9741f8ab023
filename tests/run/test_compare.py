"""`tamiz compare` against sets counted from the files of both runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tamiz.report.comparison import OUTCOMES, count_moves, render_comparison
from tamiz.run.compare import compare_runs
from tamiz.store import Folder
from tests.run.test_build import build, run_tamiz


def read_ends(run: Path) -> dict[bytes, tuple[str, str]]:
    """(outcome, first failing rule or outcome) by doc_id."""
    lost = {
        name for path in run.glob("dedup/*/duplicates.parquet") for name in pq.read_table(path)["doc_id"].to_pylist()
    }
    ends = {}
    for path in run.glob("sift/*/*.verdicts.parquet"):
        for row in pq.read_table(path, columns=["doc_id", "failed", "outcome"]).to_pylist():
            outcome = "duplicate" if row["doc_id"] in lost else row["outcome"].replace("kept", "packed")
            ends[row["doc_id"]] = (outcome, row["failed"][0] if row["failed"] else outcome)
    return ends


def test_what_entered_and_left_is_counted_right(cyber: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    changes = ("domain.score_min=0", "domain.terms_min=0", "rules.gopher_quality.n_words_max=300", "dedup.minhash=null")
    built = build(other, *(part for change in changes for part in ("--set", change)))
    assert built.returncode == 0, built.stderr
    comparison = compare_runs(Folder(cyber), Folder(other))
    a, b = read_ends(cyber), read_ends(other)
    expected = Counter((a[name][0], b[name][0]) for name in a)
    for x in OUTCOMES:
        for y in OUTCOMES:
            assert comparison.count("documents", x, y) == expected[x, y]
    entered = Counter(a[name][1] for name in a if b[name][0] == "packed" != a[name][0])
    left = Counter(b[name][1] for name in a if a[name][0] == "packed" != b[name][0])
    assert dict(comparison.list_reasons("entered")) == entered
    assert dict(comparison.list_reasons("left")) == left
    assert entered
    assert left
    assert count_moves(comparison, "sample")["entered"] == sum(entered.values())
    assert set(comparison.config) == {
        'minhash: {"bands": 14, "ngram": 5, "rows": 8} -> null',
        "rules.domain.score_min: 15 -> 0",
        "rules.domain.terms_min: 2 -> 0",
        "rules.gopher_quality.n_words_max: 100000 -> 300",
    }
    for moved in comparison.left:
        assert moved.why == b[bytes.fromhex(moved.doc_id)][1]
        assert moved.text
    printed = run_tamiz("compare", str(cyber), str(other))
    assert printed.returncode == 0, printed.stderr
    assert max(map(len, printed.stdout.split("\npage ")[0].splitlines())) <= 80
    page = (other / "report" / "compared-to-cyber.html").read_text(encoding="utf-8")
    assert f"<dd>{sum(left.values()):,}<small>packed in A" in page


def test_a_run_compared_to_itself_has_nothing_to_tell(cyber: Path) -> None:
    comparison = compare_runs(Folder(cyber), Folder(cyber))
    assert not comparison.config
    assert not comparison.entered
    assert not comparison.left
    assert comparison.list_reasons("left") == []
    assert "nothing" in render_comparison(comparison)


def test_an_unfinished_run_is_refused(cyber: Path, tmp_path: Path) -> None:
    import shutil

    other: Any = tmp_path / "other"
    shutil.copytree(cyber, other)
    (other / "corpus" / "manifest.json").unlink()
    refused = run_tamiz("compare", str(cyber), str(other))
    assert refused.returncode == 2
    assert "not finished" in refused.stderr
