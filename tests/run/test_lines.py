"""dedup.lines: a banner on many pages of a dump goes, before near copies are looked for; the books balance."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.run.test_against import make_texts, write_source
from tests.run.test_build import hash_corpus, run_tamiz

BANNER = "We use cookies on this site, OK?"


@pytest.mark.slow
def test_repeated_lines_are_removed_by_dump(tmp_path: Path) -> None:
    pages = list(dict.fromkeys(make_texts(9, 80)))
    dumps = ["CC-1" if i % 3 else "CC-2" for i in range(len(pages))]
    rare = {i for i, dump in enumerate(dumps) if dump == "CC-2"} - set(range(12))  # fewer than ten in CC-2
    texts = []
    for i, page in enumerate(pages):
        banner = BANNER.upper() if i % 2 else BANNER  # equal when normalised
        texts.append(page if i in rare else f"{banner}\n{page}")
    texts += [BANNER, f"{BANNER}\n\n"]
    dumps += ["CC-1", "CC-1"]
    write_source(tmp_path, "a", texts, dumps)
    config = {
        "name": "lines", "source": "a", "sources": {"a": {"kind": "parquet", "paths": ["a/*.parquet"]}},
        "dedup": {"lines": {"min_copies": 10}}, "pack": {"sequence_length": 256}, "run": {"workers": 1},
    }  # fmt: skip
    (tmp_path / "lines.yaml").write_text(yaml.safe_dump(config))
    run = tmp_path / "run"
    built = run_tamiz("build", str(tmp_path / "lines.yaml"), "--run-dir", str(run))
    assert built.returncode == 0, built.stderr
    summary = json.loads((run / "report" / "summary.json").read_text())
    lines = summary["dedup"]["lines"]
    n_first = sum(dump == "CC-1" for dump in dumps)
    (top,) = lines["top"]
    assert (top["documents"], top["dump"], top["text"].lower()) == (n_first, "CC-1", BANNER.lower())
    assert lines["emptied"] == 2
    assert lines["removed"] == n_first - 2
    assert summary["rules"]["dedup.lines"]["first"] == summary["documents"]["rejected"] == 2
    kept = [t for path in run.glob("lines/*/*.kept.parquet") for t in pq.read_table(path)["text"].to_pylist()]
    with_banner = [text for text in kept if BANNER.lower() in text.lower()]
    assert len(with_banner) == sum(dump == "CC-2" for dump in dumps) - len(rare) == 4
    assert sorted(text.split("\n")[-1] for text in kept) == sorted(pages)
    verified = run_tamiz("verify", str(run))
    assert verified.returncode == 0, verified.stdout
    again = tmp_path / "again"
    assert run_tamiz("build", str(tmp_path / "lines.yaml"), "--run-dir", str(again), "--workers", "2").returncode == 0
    assert hash_corpus(again) == hash_corpus(run)
