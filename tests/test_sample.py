"""The sample and its labels agree with each other and with what they claim to be."""

from __future__ import annotations

import csv
import itertools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "src" / "tamiz" / "sample"
FILES = [SAMPLE / "sample-0.parquet", SAMPLE / "sample-1.parquet"]
LABELS = ROOT / "tests" / "golden" / "sample_labels.tsv"
FINEWEB = {  # the columns and types of HuggingFaceFW/fineweb
    "text": pa.string(),
    "id": pa.string(),
    "dump": pa.string(),
    "url": pa.string(),
    "date": pa.string(),
    "file_path": pa.string(),
    "language": pa.string(),
    "language_score": pa.float64(),
    "token_count": pa.int64(),
}
RECIPES = {"language", "gopher_repetition", "gopher_quality", "c4", "fineweb_quality", "domain"}
Label = dict[str, str]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [row for path in FILES for row in pq.read_table(path).to_pylist()]


@pytest.fixture(scope="module")
def labels() -> list[Label]:
    with LABELS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def make_5grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(5)), strict=False))


def measure_similarity(one: set[tuple[str, ...]], two: set[tuple[str, ...]]) -> float:
    return len(one & two) / len(one | two)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_layout(path: Path) -> None:
    file = pq.ParquetFile(path)
    assert dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True)) == FINEWEB
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [40] * 5
    assert {group.column(0).compression for group in groups} == {"ZSTD"}


def test_size() -> None:
    assert sum(path.stat().st_size for path in FILES) < 600_000
    parts = [*FILES, LABELS, *(ROOT / "sample").rglob("*.*")]
    assert sum(path.stat().st_size for path in parts if path.is_file()) < 1_000_000


def test_columns(rows: list[Row]) -> None:
    assert len({row["id"] for row in rows}) == len(rows) == 400
    assert len({row["url"] for row in rows}) == len(rows)
    for row in rows:
        assert re.fullmatch(r"<urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}>", row["id"])
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", row["date"])
        assert re.match(r"https://[a-z0-9.-]+\.(example|test)/", row["url"]), "only reserved domains"
        assert (row["language"] is None) == (row["language_score"] is None)
        assert row["language_score"] is None or 0 < row["language_score"] < 1
        assert row["token_count"] >= 0


def test_labels_follow_the_files(rows: list[Row], labels: list[Label]) -> None:
    assert [label["id"] for label in labels] == [row["id"] for row in rows]
    places = [(path.name, str(row)) for path in FILES for row in range(200)]
    assert [(label["file"], label["row"]) for label in labels] == places


def test_outcomes_have_their_reasons(rows: list[Row], labels: list[Label]) -> None:
    for row, label in zip(rows, labels, strict=True):
        text, reason = row["text"], label["reason"]
        if label["outcome"] == "quarantined":
            assert reason == ("text_missing" if text is None else "text_empty")
            continue
        assert text.strip()
        if label["outcome"] == "packed":
            assert reason == ""
        elif label["outcome"] == "rejected":
            assert set(reason.split("|")) <= RECIPES
        else:
            assert label["outcome"] == "duplicate"
    assert Counter(label["outcome"] for label in labels) == {
        "packed": 46 + 40,
        "rejected": 36 + 24 + 9 + 163,
        "duplicate": 30 + 52 - 9,
        "quarantined": 9,
    }


def test_originals(rows: list[Row], labels: list[Label]) -> None:
    originals = [row for row, label in zip(rows, labels, strict=True) if label["recipe"] == "original"]
    assert len(originals) == len(list((ROOT / "sample" / "originals").glob("*/*.txt"))) == 106
    assert sum(150 <= len(row["text"].split()) <= 600 for row in originals) >= 90
    for label, row in zip(labels, rows, strict=True):
        if label["reason"] == "language" and row["language"] is not None:
            assert row["language"] in {"de", "es", "fr", "pt"}


def test_languages(rows: list[Row], labels: list[Label]) -> None:
    assert {row["language"] for row in rows} >= {"en", "de", "es", "fr", "pt", None}
    unknown = [label for row, label in zip(rows, labels, strict=True) if row["language"] is None]
    assert Counter(label["outcome"] for label in unknown)["packed"] >= 5
    assert sum(label["reason"] == "language" for label in unknown) >= 2


def test_copies_stand_after_their_source(labels: list[Label]) -> None:
    places = {label["id"]: place for place, label in enumerate(labels)}
    outcomes = {label["id"]: label["outcome"] for label in labels}
    copies = [(places[label["reason"]], place) for place, label in enumerate(labels) if label["outcome"] == "duplicate"]
    assert all(source < copy for source, copy in copies)
    assert sum(source < 200 <= copy for source, copy in copies) >= 15, "copies in another file than their source"
    assert sum(copy < 200 or source >= 200 for source, copy in copies) >= 15, "copies in the same file"
    assert {outcomes[label["reason"]] for label in labels if label["outcome"] == "duplicate"} == {"packed"}


def test_similarity(rows: list[Row], labels: list[Label]) -> None:
    kept = [
        (label, make_5grams(row["text"]))
        for row, label in zip(rows, labels, strict=True)
        if label["outcome"] in ("packed", "duplicate")
    ]
    for (one, grams), (two, others) in itertools.combinations(kept, 2):
        similarity = measure_similarity(grams, others)
        if two["reason"] == one["id"]:
            assert similarity >= 0.93, (one["derived_from"], two["recipe"])
        elif (one["reason"] or one["id"]) != (two["reason"] or two["id"]):
            assert similarity < 0.4, (one["derived_from"], two["derived_from"])


def test_digests_are_new_pages(rows: list[Row], labels: list[Label]) -> None:
    grams = [make_5grams(row["text"] or "") for row in rows]
    digests = [place for place, label in enumerate(labels) if label["recipe"] == "digest"]
    assert all(len(set(labels[place]["derived_from"].split("|"))) == 3 for place in digests)
    for digest in digests:
        others = (other for place, other in enumerate(grams) if place != digest)
        assert max(measure_similarity(grams[digest], other) for other in others) < 0.4


def test_exact_copies_have_the_same_text(rows: list[Row], labels: list[Label]) -> None:
    texts = {row["id"]: row["text"] for row in rows}
    for row, label in zip(rows, labels, strict=True):
        if label["outcome"] == "duplicate":
            assert (row["text"] == texts[label["reason"]]) == (label["recipe"] == "exact_copy")


def test_script_writes_the_same_bytes_twice_and_what_is_committed(tmp_path: Path) -> None:
    builds = []
    for name in ("once", "again"):
        out = tmp_path / name
        out.mkdir()
        command = [sys.executable, str(ROOT / "scripts" / "make_sample.py"), "--out", str(out)]
        subprocess.run([*command, "--labels", str(out / LABELS.name)], check=True)
        builds.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert builds[0] == builds[1]
    assert builds[0][LABELS.name] == LABELS.read_bytes()
    for path in FILES:  # the bytes of a Parquet file depend on the version of pyarrow, its table does not
        assert pq.read_table(tmp_path / "once" / path.name).equals(pq.read_table(path))
