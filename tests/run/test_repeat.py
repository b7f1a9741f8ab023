"""pack.repeat packs documents again by their number of copies; the books and `verify` know of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tamiz.pack.decode import read_documents
from tests.run.test_against import make_texts, write_source
from tests.run.test_build import run_tamiz


@pytest.mark.slow
@pytest.mark.parametrize("length", [64, 512])
def test_documents_with_copies_are_packed_again(tmp_path: Path, length: int) -> None:
    write_source(tmp_path, "a", make_texts(5, 80))
    config = {
        "name": "again", "source": "a", "sources": {"a": {"kind": "parquet", "paths": ["a/*.parquet"]}},
        "pack": {"sequence_length": length, "holdout": 0.1, "repeat": {1: 2, 3: 4}, "shard_tokens": 3000},
        "run": {"workers": 1},
    }  # fmt: skip
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config))
    run = tmp_path / "run"
    built = run_tamiz("build", str(tmp_path / "again.yaml"), "--run-dir", str(run))
    assert built.returncode == 0, built.stderr
    summary = json.loads((run / "report" / "summary.json").read_text())
    (copies,) = run.glob("dedup/*/copies.parquet")
    n_copies = {row["doc_id"]: row["n_copies"] for row in pq.read_table(copies).to_pylist()}
    assert sum(n_copies.values()) == summary["documents"]["duplicate"]
    held = {
        row["doc_id"]
        for path in run.glob("tokens/*/part-?????-???.parquet")
        for row in pq.read_table(path, columns=["doc_id", "is_holdout"]).to_pylist()
        if row["is_holdout"]
    }
    seen: list[bytes] = []
    for path in sorted(run.glob("corpus/*.parquet")):
        seen += read_documents(pq.read_table(path), is_repeated=True).doc_ids.to_pylist()
    expected = {}
    for doc_id in set(seen):
        times = 1 if n_copies.get(doc_id, 0) < 1 else 2 if n_copies[doc_id] < 3 else 4
        expected[doc_id] = 1 if doc_id in held else times
    assert {doc_id: seen.count(doc_id) for doc_id in set(seen)} == expected
    assert max(expected.values()) == 4
    assert summary["repeated"]["documents"] == sum(expected.values()) - len(expected) > 0
    assert summary["documents"]["packed"] == len(expected)
    first = read_documents(pq.read_table(run / "corpus" / "train-00000.parquet"), is_repeated=True).doc_ids.to_pylist()
    assert len(first) == len(set(first))  # repetitions come behind all documents
    verified = run_tamiz("verify", str(run))
    assert verified.returncode == 0, verified.stdout
    path = run / "corpus" / "train-00000.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    assert run_tamiz("verify", str(run)).returncode == 1
