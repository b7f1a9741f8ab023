"""Hostile records, alone and in the middle of good ones, from Parquet and from packed JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.run.local import LocalEngine
from tamiz.run.measuring import SiftSettings
from tamiz.sources import JsonlSource, ParquetSource
from tests.robustness.cases import MB, PROCESSED, RECORDS, Good, Line, Record, pack_zst
from tests.robustness.worker import MEMORY_MAX, Sifted, sift_files

PLACES = ["alone", "mixed"]
N_GOOD = 40  # before the hostile record, and behind it


def param(record: Record) -> object:
    return pytest.param(record, id=record.name, marks=[pytest.mark.slow] * record.is_slow)


def write_parquet(path: Path, record: Record, good: list[str]) -> None:
    value = record.make()
    assert not isinstance(value, Line)
    middle = len(good) // 2
    data = [text.encode() for text in good[:middle]] + [value.encode() if isinstance(value, str) else value]
    data += [text.encode() for text in good[middle:]]
    text = pa.array(data, pa.large_binary()).view(pa.large_string())  # not checked, as other writers do not
    pq.write_table(pa.table({"id": ["the same"] * len(data), "text": text}), path, row_group_size=25)


def write_jsonl(path: Path, record: Record, good: list[str]) -> None:
    value = record.make()
    if isinstance(value, Line):
        line = value.data
    elif isinstance(value, bytes):
        line = b'{"text": "' + value + b'"}'
    else:
        line = json.dumps({"text": value}).encode()
    middle = len(good) // 2
    lines = [json.dumps({"id": "the same", "text": text}).encode() for text in good]
    path.write_bytes(pack_zst(b"\n".join([*lines[:middle], line, *lines[middle:], b""])))


def check(sifted: Sifted, outcome: str, good: list[str], name: str) -> None:
    middle = len(good) // 2
    assert len(sifted.verdicts) == len(good) + 1
    own = sifted.verdicts.pop(middle)
    assert own["origin"].startswith(f"{name}#")
    if outcome == PROCESSED:
        assert own["quarantine"] is None
    else:
        assert own["quarantine"] == outcome
    assert [row["outcome"] for row in sifted.verdicts] == ["kept"] * len(good)
    assert [sifted.kept[row["origin"]] for row in sifted.verdicts] == good
    assert sifted.peak < MEMORY_MAX, f"{sifted.peak / MB:.0f} MB"
    assert not sifted.damage


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("record", [param(record) for record in RECORDS if record.parquet])
def test_from_parquet(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path, record: Record, place: str
) -> None:
    texts = good.texts[: 2 * N_GOOD] if place == "mixed" else []
    write_parquet(tmp_path / "a.parquet", record, texts)
    sifted = sift_files(engine, settings, tmp_path / "run", ParquetSource("s", (f"{tmp_path}/*.parquet",)), 1 << 28)
    assert record.parquet is not None
    check(sifted, record.parquet, texts, "a.parquet")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("record", [param(record) for record in RECORDS if record.jsonl])
def test_from_packed_json_lines(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path, record: Record, place: str
) -> None:
    texts = good.texts[: 2 * N_GOOD] if place == "mixed" else []
    write_jsonl(tmp_path / "a.jsonl.zst", record, texts)
    sifted = sift_files(engine, settings, tmp_path / "run", JsonlSource("s", (f"{tmp_path}/*.zst",)), 1 << 28)
    assert record.jsonl is not None
    check(sifted, record.jsonl, texts, "a.jsonl.zst")
