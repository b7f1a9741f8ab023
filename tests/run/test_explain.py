"""`tamiz explain` tells of every kind of end a document can come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tamiz.errors import ConfigError
from tamiz.report.story import format_story
from tamiz.run.explain import find_document, find_near, tell_story
from tamiz.store import Folder
from tests.run.test_against import build as build_months
from tests.run.test_against import make_texts, write_source
from tests.run.test_build import ROOT, run_tamiz

CACHE = Path.home() / ".cache" / "tamiz"


def read_rows(run: Path, pattern: str) -> list[dict[str, Any]]:
    return [row for path in sorted(run.glob(pattern)) for row in pq.read_table(path).to_pylist()]


@pytest.fixture(scope="module")
def texts() -> dict[str, str | None]:
    """The sample's texts by origin, from its own files."""
    folder = ROOT / "src" / "tamiz" / "sample"
    return {
        f"{path.name}#{i}": text
        for path in sorted(folder.glob("*.parquet"))
        for i, text in enumerate(pq.read_table(path)["text"].to_pylist())
    }


def test_every_outcome_is_told_with_the_text_as_read(cyber: Path, texts: dict[str, str | None]) -> None:
    lost = {row["doc_id"] for row in read_rows(cyber, "dedup/*/duplicates.parquet")}
    seen = set()
    for row in read_rows(cyber, "sift/*/*.verdicts.parquet")[::7]:
        expected = row["outcome"]
        if expected == "kept":
            expected = "duplicate" if row["doc_id"] in lost else "packed"
        if expected in seen:
            continue
        seen.add(expected)
        story = tell_story(Folder(cyber), row["doc_id"], CACHE)
        assert story.outcome == expected
        assert list(story.failed) == row["failed"]
        assert {m.metric: m.value for m in story.measured} == {m.metric: row[m.metric] for m in story.measured}
        if expected != "quarantined":
            assert story.read == texts[row["origin"]]
        assert {name for m in story.measured for name, _, fails in m.rules if fails} == set(row["failed"])
    assert seen == {"packed", "duplicate", "rejected", "quarantined"}


def test_the_tokens_of_the_longest_document_are_where_it_says(cyber: Path) -> None:
    rows = read_rows(cyber, "tokens/*/part-?????-???.parquet")
    longest = max(rows, key=lambda row: row["n_tokens"])
    story = tell_story(Folder(cyber), longest["doc_id"], CACHE)
    there = []
    for piece in story.pieces:
        row = pq.read_table(cyber / piece.shard)["input_ids"][piece.row].as_py()
        there += row[piece.first : piece.past]
    assert there == longest["input_ids"]
    assert story.n_tokens == longest["n_tokens"] == len(there)
    kept = {row["doc_id"]: row["text"] for row in read_rows(cyber, "sift/*/*.kept.parquet")}
    assert story.decoded == story.kept == kept[longest["doc_id"]]


def test_a_duplicate_names_what_it_lost_to(cyber: Path) -> None:
    for row in read_rows(cyber, "dedup/*/duplicates.parquet")[:5]:
        story = tell_story(Folder(cyber), row["doc_id"], CACHE)
        assert story.duplicate is not None
        assert story.duplicate.doc_id == row["lost_to"].hex()
        assert story.duplicate.kind == row["kind"]
        winner = tell_story(Folder(cyber), row["lost_to"], CACHE)
        assert winner.kept == story.duplicate.text


def test_it_is_found_by_the_first_digits_by_url_and_by_a_piece_of_its_text(
    cyber: Path, texts: dict[str, str | None]
) -> None:
    folder = Folder(cyber)
    verdicts = read_rows(cyber, "sift/*/*.verdicts.parquet")
    rejected = next(row for row in verdicts if row["outcome"] == "rejected" and row["n_bytes"] > 800)
    name = rejected["doc_id"]
    assert find_document(folder, name.hex()[:12], None) == name
    with pytest.raises(ConfigError, match="no document"):
        find_document(folder, "0" * 32, None)
    with pytest.raises(ConfigError, match="hexadecimal"):
        find_document(folder, "xyz", None)
    urls = [row["url"] for row in verdicts if row["url"]]
    once = next(row for row in verdicts if row["url"] and urls.count(row["url"]) == 1)
    assert find_document(folder, None, once["url"]) == once["doc_id"]
    words = (texts[rejected["origin"]] or "").split()
    found = find_near(folder, " ".join(words[20:45]).upper())
    assert found[0].share > 0.8
    assert name.hex() in [one.doc_id for one in found if one.share == found[0].share]
    assert np.all(np.diff([one.share for one in found]) <= 0)


def test_the_command_tells_within_80_columns_what_failed_and_what_was_changed(cyber: Path) -> None:
    verdicts = read_rows(cyber, "sift/*/*.verdicts.parquet")
    rejected = next(row for row in verdicts if row["outcome"] == "rejected")
    told = run_tamiz("explain", str(cyber), "--id", rejected["doc_id"].hex())
    assert told.returncode == 0, told.stderr
    assert "FAILS" in told.stdout
    assert "\x1b" not in told.stdout
    table = told.stdout.split("asked for")[1].split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= 80
    redacted = next(row for row in read_rows(cyber, "sift/*/*.kept.parquet") if "email@example.com" in row["text"])
    told = run_tamiz("explain", str(cyber), "--id", redacted["doc_id"].hex())
    assert "what line rules and redaction changed" in told.stdout
    assert any(line.startswith("  +") and "email@example.com" in line for line in told.stdout.splitlines())
    wrong = run_tamiz("explain", str(cyber))
    assert wrong.returncode == 2
    assert "one of --id" in wrong.stderr


def test_the_words_that_differ_from_the_winner_are_marked(cyber: Path) -> None:
    """The sample's renamed copies have a name changed and nothing else."""
    labels = (ROOT / "tests/golden/sample_labels.tsv").read_text(encoding="utf-8").splitlines()
    renamed = {f"{row[0]}#{row[1]}" for row in (line.split("\t") for line in labels) if row[4] == "renamed"}
    marked = 0
    for row in read_rows(cyber, "dedup/*/duplicates.parquet"):
        story = tell_story(Folder(cyber), row["doc_id"], CACHE)
        if story.origin in renamed:
            assert story.duplicate is not None
            assert story.kept is not None
            pairs = zip(story.duplicate.text.split(), story.kept.split(), strict=False)
            theirs, ours = next((a, b) for a, b in pairs if a != b)
            told = " ".join(format_story(story).split("only here+}")[1].split("what line rules")[0].split())
            assert f"[-{theirs}" in told
            assert f"{{+{ours}" in told
            marked += 1
    assert marked > 3


@pytest.mark.slow
def test_what_an_older_run_has_is_found_there_while_it_has_it(tmp_path: Path) -> None:
    for name in "ab":
        write_source(tmp_path, name, make_texts(1, 40))  # the same pages twice
    build_months(tmp_path, "first", ["a"], {})
    second = build_months(tmp_path, "second", ["b"], {"against": ["first"]})
    row = next(row for row in read_rows(second, "dedup/*/duplicates.parquet") if row["lost_to_run"] is not None)
    told = tell_story(Folder(second), row["doc_id"], CACHE)
    assert told.duplicate is not None
    assert told.duplicate.run == str(tmp_path / "first")
    assert told.duplicate.doc_id == row["lost_to"].hex()
    assert told.duplicate.text == tell_story(Folder(tmp_path / "first"), row["lost_to"], CACHE).kept
    assert f"of the older run {tmp_path / 'first'}" in format_story(told)
    for path in (tmp_path / "first").glob("sift/*/*.kept.parquet"):
        path.unlink()
    without = tell_story(Folder(second), row["doc_id"], CACHE)
    assert without.duplicate is not None
    assert without.duplicate.text is None
    assert "its text is not there any more" in format_story(without)


@pytest.mark.slow
def test_a_bloom_index_does_not_know_the_winner(tmp_path: Path) -> None:
    for name in "ab":
        write_source(tmp_path, name, make_texts(1, 40))
    run = build_months(tmp_path, "run", ["a", "b"], {"index": "bloom"})
    row = read_rows(run, "dedup/*/duplicates.parquet")[0]
    assert "a Bloom index does not know which" in format_story(tell_story(Folder(run), row["doc_id"], CACHE))
