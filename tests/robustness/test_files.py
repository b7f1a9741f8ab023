"""Damaged, foreign and misshapen files: only what is unreadable is lost, and the report says where."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.errors import ConfigError, SourceError
from tamiz.run.engine import Report
from tamiz.run.isolation import Isolation
from tamiz.run.local import LocalEngine
from tamiz.run.measuring import SiftSettings
from tamiz.sources import JsonlSource, ParquetSource, Source, Split, list_splits, read_split
from tests.robustness.cases import MB, PACK, PROCESSED, STREAMS, TABLES, Good, Stream, Table, write_good
from tests.robustness.worker import MEMORY_MAX, Sifted, count_measured, sift_files

N_FLIPS = 100


def param(case: Stream | Table) -> object:
    return pytest.param(case, id=case.name, marks=[pytest.mark.slow] * case.is_slow)


def check(sifted: Sifted, reason: str) -> None:
    """Every record that is not kept was quarantined for this reason, and damage says which bytes."""
    assert sifted.peak < MEMORY_MAX, f"{sifted.peak / MB:.0f} MB"
    reasons = {row["quarantine"] for row in sifted.verdicts} - {None}
    assert reasons <= {reason, "bad_json"}  # a frame need not begin where a line does
    assert reason == PROCESSED or reason in reasons


@pytest.mark.parametrize("place", ["alone", "mixed"])
@pytest.mark.parametrize("stream", [param(stream) for stream in STREAMS])
def test_a_packed_stream(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path, stream: Stream, place: str
) -> None:
    (tmp_path / f"b.jsonl{stream.suffix}").write_bytes(stream.make(good))
    others = ["a.jsonl", "c.jsonl"] if place == "mixed" else []
    for name in others:
        (tmp_path / name).write_bytes(good.write_lines(0, 1))
    sifted = sift_files(engine, settings, tmp_path / "run", JsonlSource("s", (f"{tmp_path}/*.jsonl*",)), 1 << 28)
    check(sifted, stream.reason)
    kept = [text for origin, text in sifted.kept.items() if origin.startswith("b.")]
    assert len(set(kept) & set(good.texts)) >= int(stream.survives * len(good.texts))
    if "changed" not in stream.name:  # what a changed byte alters comes before the checksum that tells
        assert set(kept) <= set(good.texts)
    for name in others:
        assert [text for origin, text in sifted.kept.items() if origin.startswith(f"{name}#")] == good.texts
    size = (tmp_path / f"b.jsonl{stream.suffix}").stat().st_size
    assert bool(sifted.damage) == (stream.reason.startswith(("gz", "zst")))
    for stretch in sifted.damage:
        assert stretch["path"].startswith("b.jsonl")
        assert 0 <= stretch["start"] <= stretch["stop"] <= size
        own = [row for row in sifted.verdicts if row["origin"] == f"{stretch['path']}#{stretch['position']}"]
        assert [row["quarantine"] for row in own] == [stretch["reason"]]


@pytest.mark.parametrize("table", [param(table) for table in TABLES])
def test_a_parquet_file_among_good_ones(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path, table: Table, isolation: Isolation
) -> None:
    for name in ("a.parquet", "c.parquet"):
        write_good(good, tmp_path / name)
    table.make(good, tmp_path / "b.parquet")
    spec = ParquetSource("s", (f"{tmp_path}/*.parquet",), where=table.where)
    sifted = sift_files(engine, settings, tmp_path / "run", spec, 1 << 28, isolation)
    check(sifted, table.reason)
    for name in ("a.parquet", "c.parquet"):
        assert [text for origin, text in sifted.kept.items() if origin.startswith(f"{name}#")] == good.texts
    own = [row for row in sifted.verdicts if row["origin"].startswith("b.parquet#")]
    assert [row["origin"] for row in own] == [f"b.parquet#{i}" for i in range(len(own))]
    assert sum(row["quarantine"] is not None for row in own) == sum(d["n_rows"] for d in sifted.damage)
    kept = [text for origin, text in sifted.kept.items() if origin.startswith("b.parquet#")]
    assert set(kept) <= set(good.texts)
    assert len(kept) >= int(table.survives * len(good.texts))


@pytest.mark.parametrize(
    "table", [param(table) for table in TABLES if table.reason != PROCESSED and not table.survives]
)
def test_a_source_of_one_unreadable_file_is_refused_before_anything_runs(
    good: Good, tmp_path: Path, table: Table, isolation: Isolation
) -> None:
    table.make(good, tmp_path / "b.parquet")
    with pytest.raises((SourceError, ConfigError), match=r"b\.parquet"):
        list_splits(ParquetSource("s", (str(tmp_path),), where=table.where), call=isolation)


def read_rows(unit: tuple[Source, tuple[Split, ...]], report: Report) -> list[dict[str, Any]]:
    """All rows of the splits, without sifting them."""
    spec, splits = unit
    return [row for split in splits for chunk in read_split(split, spec) for row in chunk.batch.to_pylist()]


@pytest.mark.parametrize("checked", [True, False], ids=["checksums", "no checksums"])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_a_byte_changed_anywhere_in_a_parquet_file(
    engine: LocalEngine, tmp_path: Path, compression: str, checked: bool, isolation: Isolation
) -> None:
    """Wherever it is, reading ends, every row is accounted for, and the other file loses nothing."""
    good = Good([f"document {i} " + "lorem ipsum dolor " * 20 for i in range(130)])
    whole = tmp_path / "whole"
    write_good(good, whole, compression=compression, write_page_checksum=checked)
    data = whole.read_bytes()
    rng = random.Random(compression)
    folder = tmp_path / "in"
    folder.mkdir()
    write_good(good, folder / "a.parquet")
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places = [rng.randrange(footer) for _ in range(N_FLIPS)] + [
        rng.randrange(footer, len(data)) for _ in range(N_FLIPS)
    ]
    for place in places:
        bad = bytearray(data)
        bad[place] ^= 1 << rng.randrange(8)
        (folder / "b.parquet").write_bytes(bad)
        spec = ParquetSource("s", (str(folder),))
        splits = list_splits(spec, call=isolation).splits
        ((_, rows),) = engine.run(read_rows, [(spec, splits)], lambda *_: None)
        assert [row["text"] for row in rows[:130]] == good.texts
        assert len(rows) in (260, 131)  # 131: the footer is unreadable
        if checked and place < footer:
            assert all(row["quarantine"] or row["text"] == good.texts[i] for i, row in enumerate(rows[130:]))


@pytest.mark.parametrize("pack", ["gz", "zst"])
def test_a_byte_changed_anywhere_in_a_stream(tmp_path: Path, pack: str) -> None:
    """No document of another frame is lost."""
    good = Good([f"document {i} {i * 7919 % 1000003} " + "lorem ipsum dolor " * 20 for i in range(400)])
    frames = [PACK[pack](good.write_lines(i / 4, (i + 1) / 4)) for i in range(4)]
    data = b"".join(frames)
    rng = random.Random(pack)
    for _ in range(N_FLIPS):
        place = rng.randrange(len(data))
        bad = bytearray(data)
        bad[place] ^= 1 << rng.randrange(8)
        (tmp_path / f"a.jsonl.{pack}").write_bytes(bad)
        spec = JsonlSource("s", (str(tmp_path),))
        texts = {row["text"] for row in read_rows((spec, list_splits(spec).splits), lambda *_: None)}
        start = 0
        for i, frame in enumerate(frames):
            is_hit = start <= place < start + len(frame)
            assert is_hit or texts.issuperset(good.texts[i * 100 : (i + 1) * 100])
            start += len(frame)


def test_files_of_other_schemas_are_read_together(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path
) -> None:
    n = len(good.texts)
    kinds: list[Callable[[pa.Array], pa.Array]] = [
        lambda text: text,
        lambda text: text.cast(pa.large_string()),
        lambda text: text.dictionary_encode(),
        lambda text: text.cast(pa.binary()),
        lambda text: text.cast(pa.string_view()),
    ]
    for number, make in enumerate(kinds):
        columns = {"text": make(pa.array(good.texts)), f"extra{number}": pa.array(range(n)), "id": ["the same"] * n}
        columns |= {"language_score": pa.array([0.9] * n, [pa.float64(), pa.float32()][number % 2])}
        columns |= {"language": pa.array(["en"] * n)} if number < 2 else {"language": pa.array([1] * n)}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    sifted = sift_files(engine, settings, tmp_path / "run", ParquetSource("s", (f"{tmp_path}/*.parquet",)), 1 << 28)
    assert list(sifted.kept.values()) == good.texts * len(kinds)


def test_a_parquet_bomb_is_read_in_bounded_memory(engine: LocalEngine, tmp_path: Path) -> None:
    """2.5 GB of text in a file of some kB: a text of 1 MB that a dictionary holds once, in one row group."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2500, pa.int32()), pa.array(["a b c. " * (MB // 7)]))
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet", dictionary_pagesize_limit=1 << 30)
    spec = ParquetSource("s", (str(tmp_path),))
    ((_, (n_bytes, peak)),) = engine.run(count_measured, [spec], lambda *_: None)
    assert n_bytes == 2500 * 7 * (MB // 7)
    assert peak < MEMORY_MAX
