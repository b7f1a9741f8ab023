"""Findings do not depend on how verdicts were cut into batches and parts."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.report import findings as room
from tamiz.report.findings import Findings, count_batch, merge_findings
from tamiz.run.reporting import list_rule_facts
from tamiz.run.verdicts import open_verdicts, read_failures, read_keys
from tamiz.store import Folder


def count(batch: pa.RecordBatch, cyber: Path) -> Findings:
    config, verdicts = open_verdicts(Folder(cyber))
    failures = read_failures(batch.column("failed"), verdicts.rules)
    return count_batch(batch, list_rule_facts(verdicts, config), failures, read_keys(batch.column("doc_id")))


@pytest.mark.parametrize("seed", range(4))
def test_pieces_merged_in_any_shape_make_the_whole(cyber: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SAMPLE", 100)
    rng = random.Random(seed)
    paths = sorted(cyber.glob("sift/*/*.verdicts.parquet"))
    table = pa.concat_tables([pq.read_table(path) for path in paths]).unify_dictionaries().combine_chunks()
    (whole,) = table.to_batches()
    cuts = sorted(rng.sample(range(len(whole)), 7))
    pieces = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    parts = [count(piece, cyber) for piece in pieces]
    while len(parts) > 1:  # neighbours, in any order: only the quarantined positions depend on it
        at = rng.randrange(len(parts) - 1)
        parts[at : at + 2] = [merge_findings(parts[at : at + 2])]
    merged, expected = parts[0], count(whole, cyber)
    assert merged.tally == expected.tally
    assert np.array_equal(merged.overlap, expected.overlap)
    for side in ("kept", "rejected"):
        for name, histogram in getattr(expected, side).items():
            assert np.array_equal(getattr(merged, side)[name].counts, histogram.counts)
    assert merged.top == expected.top
    assert merged.passing == expected.passing
    assert merged.failing == expected.failing
    assert merged.quarantined == expected.quarantined
    assert np.array_equal(merged.sample.keys, expected.sample.keys)
    assert len(expected.sample.keys) == 100
    assert np.array_equal(merged.sample.failed, expected.sample.failed)


def test_examples_are_the_nearest_that_would_change_sides(cyber: Path) -> None:
    paths = sorted(cyber.glob("sift/*/*.verdicts.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    total = merge_findings(count(b, cyber) for path in paths for b in pq.read_table(path).combine_chunks().to_batches())
    name = "domain.score_min"
    alone = [row for row in rows if row["failed"] == [name]]
    nearest = sorted(alone, key=lambda row: (15 - row["domain_score"], row["doc_id"]))[:10]
    assert [example.doc_id for example in total.failing[name]] == [row["doc_id"] for row in nearest]
    kept = [row for row in rows if row["outcome"] == "kept"]
    nearest = sorted(kept, key=lambda row: (row["domain_score"] - 15, row["doc_id"]))[:10]
    assert [example.doc_id for example in total.passing[name]] == [row["doc_id"] for row in nearest]
