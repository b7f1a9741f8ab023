"""Reading Parquet against what pyarrow itself and a few lines of Python say is in the file."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz import schema
from tamiz.errors import ConfigError, SourceError
from tamiz.sources import Bound, Cursor, ParquetSource, list_splits, read_split, table
from tamiz.sources.split import Split

TEXTS = st.one_of(st.none(), st.text(max_size=30))
ROWS = st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.integers(-3, 3)), st.sampled_from(["en", "es", None])))


def write(path: Path, rows: list[tuple[Any, ...]], group_rows: int = 1000) -> None:
    texts, scores, languages = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {
        "id": pa.array([f"<{i}>" for i in range(len(rows))], pa.string()),
        "text": pa.array(texts, pa.string()),
        "url": pa.array([f"https://a.example/{i}" for i in range(len(rows))], pa.string()),
        "score": pa.array(scores, pa.int64()),
        "language": pa.array(languages, pa.string()),
        "language_score": pa.array([0.5] * len(rows), pa.float64()),
    }
    pq.write_table(pa.table(columns), path, row_group_size=group_rows)


def read_all(spec: ParquetSource, split_bytes: int = 1 << 28) -> tuple[list[dict[str, Any]], int]:
    rows: list[dict[str, Any]] = []
    n_not_selected = 0
    for split in list_splits(spec, split_bytes).splits:
        for chunk in read_split(Split.from_json(split.to_json()), spec):
            schema.check_batch(chunk.batch, schema.RAW, "test")
            rows += chunk.batch.to_pylist()
            n_not_selected += chunk.skipped.get("where", 0)
    return rows, n_not_selected


def make_doc_id(source: str, path: str, position: int) -> bytes:
    return hashlib.blake2b(source.encode() + b"\0" + path.encode() + b"\0" + str(position).encode()).digest()[:16]


@settings(max_examples=60, deadline=None)
@given(
    rows=ROWS.filter(bool),
    group_rows=st.integers(1, 7),
    split_bytes=st.integers(1, 400),
    batch_rows=st.integers(1, 5),
    low=st.one_of(st.none(), st.integers(-3, 3)),
    languages=st.one_of(st.none(), st.just(("en",)), st.just(("en", "es"))),
    limit=st.one_of(st.none(), st.integers(1, 12)),
)
def test_any_cut_gives_the_rows_that_where_and_limit_ask_for(
    rows: list[tuple[Any, ...]],
    group_rows: int,
    split_bytes: int,
    batch_rows: int,
    low: int | None,
    languages: tuple[str, ...] | None,
    limit: int | None,
) -> None:
    where = {name: bound for name, bound in (("score", low), ("language", languages)) if bound is not None}
    bounds = {name: Bound(one_of=b) if isinstance(b, tuple) else Bound(min=b) for name, b in where.items()}
    expected = [
        (i, text)
        for i, (text, score, language) in enumerate(rows)
        if (low is None or (score is not None and score >= low)) and (languages is None or language in languages)
    ]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(table, "BATCH_ROWS", batch_rows):
        write(Path(folder) / "a.parquet", rows, group_rows)
        spec = ParquetSource("src", (f"{folder}/*.parquet",), where=bounds, limit=limit)
        found, n_not_selected = read_all(spec, split_bytes)
    wanted = expected if limit is None else expected[:limit]
    assert [(row["origin"], row["text"]) for row in found] == [(f"a.parquet#{i}", text) for i, text in wanted]
    assert [row["doc_id"] for row in found] == [make_doc_id("src", "a.parquet", i) for i, _ in wanted]
    assert all((row["quarantine"] == "text_missing") == (row["text"] is None) for row in found)
    if limit is None or len(expected) < limit:
        assert n_not_selected == len(rows) - len(wanted)
    else:
        assert n_not_selected == wanted[-1][0] + 1 - len(wanted)


@settings(max_examples=30, deadline=None)
@given(rows=ROWS.filter(bool), group_rows=st.integers(1, 7), batch_rows=st.integers(1, 5), limited=st.booleans())
def test_every_cursor_gives_the_chunks_behind_it(
    rows: list[tuple[Any, ...]], group_rows: int, batch_rows: int, limited: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(table, "BATCH_ROWS", batch_rows):
        write(Path(folder) / "a.parquet", rows, group_rows)
        limit = 1 + len(rows) // 2 if limited else None
        spec = ParquetSource("src", (folder,), where={"language": Bound(one_of=("en", "es"))}, limit=limit)
        for split in list_splits(spec, 200).splits:
            chunks = list(read_split(split, spec))
            for i, chunk in enumerate(chunks):
                rest = list(read_split(split, spec, Cursor(*chunk.cursor)))
                assert [c.batch.to_pylist() for c in rest] == [c.batch.to_pylist() for c in chunks[i + 1 :]]
                assert [c.skipped for c in rest] == [c.skipped for c in chunks[i + 1 :]]


def test_labels_come_with_the_text_and_ids_name_file_and_row(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    write(tmp_path / "one" / "a.parquet", [("first", 1, "en")])
    write(tmp_path / "two" / "b.parquet", [("second", 1, None), ("third", 2, "es")])
    spec = ParquetSource("s", (str(tmp_path / "two" / "*.parquet"), str(tmp_path / "one" / "a.parquet")))
    rows, _ = read_all(spec)
    assert [(row["origin"], row["url"], row["language"], row["language_score"], row["source"]) for row in rows] == [
        ("one/a.parquet#0", "https://a.example/0", "en", 0.5, "s"),
        ("two/b.parquet#0", "https://a.example/0", None, 0.5, "s"),
        ("two/b.parquet#1", "https://a.example/1", "es", 0.5, "s"),
    ]
    assert len({row["doc_id"] for row in rows}) == 3


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_text_columns_of_every_kind(tmp_path: Path, kind: pa.DataType) -> None:
    texts = ["café", None, "", "漢字", "café"]
    values = pa.array(texts, pa.string())
    column = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    pq.write_table(pa.table({"body": column}), tmp_path / "a.parquet")
    rows, _ = read_all(ParquetSource("s", (str(tmp_path),), text_column="body"))
    assert [row["text"] for row in rows] == texts
    assert [row["quarantine"] for row in rows] == [None, "text_missing", None, None, None]
    assert [row["url"] for row in rows] == [None] * 5


@pytest.mark.parametrize("is_string", [True, False])
def test_bytes_that_are_not_utf8_are_quarantined(tmp_path: Path, is_string: bool) -> None:
    # Latin-1, half a surrogate pair in UTF-8 dress, and an overlong slash; Parquet takes any bytes as a string.
    values = pa.array([b"ok", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\xaf", None], pa.binary())
    column = values.view(pa.string()) if is_string else values
    pq.write_table(pa.table({"text": column, "url": column}), tmp_path / "a.parquet")
    rows, _ = read_all(ParquetSource("s", (str(tmp_path),)))
    assert [row["text"] for row in rows] == ["ok", None, None, None, None]
    assert [row["url"] for row in rows] == ["ok", None, None, None, None]
    assert [row["quarantine"] for row in rows] == [None, *["invalid_utf8"] * 3, "text_missing"]


def test_batches_are_bounded_in_rows_and_text(tmp_path: Path) -> None:
    write(tmp_path / "many.parquet", [("x", 0, None)] * 2500, 2000)
    spec = ParquetSource("s", (str(tmp_path),))
    (split,) = list_splits(spec).splits
    assert [chunk.batch.num_rows for chunk in read_split(split, spec)] == [1024, 976, 500]
    # Incompressible digits: Parquet's dictionary must not hide the size.
    large = ["".join(hashlib.sha256(f"{i},{j}".encode()).hexdigest() for j in range(15_625)) for i in range(20)]
    pq.write_table(pa.table({"text": large}), tmp_path / "many.parquet", use_dictionary=False)
    (split,) = list_splits(spec).splits
    sizes = [chunk.batch.column("text").nbytes for chunk in read_split(split, spec)]
    assert len(sizes) == 3
    assert max(sizes) < 9e6


def test_a_float_bound_leaves_out_nan_and_null(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": list("abcd"), "q": [1.5, float("nan"), None, 0.5]}), tmp_path / "a.parquet")
    spec = ParquetSource("s", (str(tmp_path),), where={"q": Bound(min=0.0, max=1.0)}, limit=9)
    rows, n_not_selected = read_all(spec)
    assert [row["text"] for row in rows] == ["d"]
    assert n_not_selected == 3


def test_wrong_configs_name_the_key_and_what_there_is(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [("x", 1, "en")])
    path = (str(tmp_path / "a.parquet"),)
    with pytest.raises(ConfigError, match=r"sources\.mine\.text_column: .*'body'; it has id, text, url, score"):
        list_splits(ParquetSource("mine", path, text_column="body"))
    with pytest.raises(ConfigError, match=r"sources\.mine\.text_column: .*'score' .* is int64, not text"):
        list_splits(ParquetSource("mine", path, text_column="score"))
    with pytest.raises(ConfigError, match=r"sources\.mine\.where\.quality: .* it has id, text"):
        list_splits(ParquetSource("mine", path, where={"quality": Bound(min=1)}))
    with pytest.raises(ConfigError, match=r"sources\.mine\.where\.language: the column is string"):
        list_splits(ParquetSource("mine", path, where={"language": Bound(min=1)}, limit=1))


def test_a_file_without_a_column_of_where_takes_nothing_of_the_limit(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [("x", 5, "en")] * 5)
    pq.write_table(pa.table({"text": ["y"] * 100}), tmp_path / "b.parquet")
    write(tmp_path / "c.parquet", [("z", 5, "en")] * 100)
    spec = ParquetSource("mine", (str(tmp_path),), where={"score": Bound(min=1)}, limit=50)
    splits = list_splits(spec).splits
    rows = [row for split in splits for chunk in read_split(split, spec) for row in chunk.batch.to_pylist()]
    assert [row["text"] for row in rows if row["quarantine"] is None] == ["x"] * 5 + ["z"] * 45
    assert [row["quarantine"] for row in rows].count("where_missing") == 100


def test_a_limit_leaves_files_behind_it_unopened(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [("x", 5, "en")] * 5)
    (tmp_path / "b.parquet").symlink_to(tmp_path / "b.parquet")  # opening it is an error, whoever asks
    (split,) = list_splits(ParquetSource("mine", (f"{tmp_path}/*.parquet",), limit=5)).splits
    assert split.path == "a.parquet"


def test_no_documents_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [])
    with pytest.raises(ConfigError, match=r"sources\.mine: no document in 1 files"):
        list_splits(ParquetSource("mine", (str(tmp_path),)))


def test_a_source_of_nothing_but_damage_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"<html>404</html>")
    with pytest.raises(SourceError, match=r"a\.parquet: cannot be read as Parquet"):
        list_splits(ParquetSource("mine", (str(tmp_path),)))


def test_damage_loses_its_row_group_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(6000)]
    options = {"use_dictionary": False, "write_page_checksum": True}
    pq.write_table(pa.table({"text": texts}), path, row_group_size=2000, **options)
    data = bytearray(path.read_bytes())
    second = pq.read_metadata(path).row_group(1).column(0)
    for i in range(second.data_page_offset + 200, second.data_page_offset + 5000):
        data[i] ^= 0xFF
    path.write_bytes(data)
    spec = ParquetSource("s", (str(path),))
    (split,) = list_splits(spec).splits
    chunks = list(read_split(split, spec))
    rows = [row for chunk in chunks for row in chunk.batch.to_pylist()]
    assert [row["text"] for row in rows] == texts[:2000] + [None] * 2000 + texts[4000:]
    assert [row["origin"] for row in rows] == [f"a.parquet#{i}" for i in range(6000)]
    assert {row["quarantine"] for row in rows if row["text"] is None} == {"parquet_unreadable"}
    damage = [damage for chunk in chunks for damage in chunk.damage]
    assert sum(d.n_rows for d in damage) == 2000
    assert all(d.start <= second.data_page_offset + 200 < d.stop < path.stat().st_size for d in damage)
    for number, chunk in enumerate(chunks):
        again = list(read_split(split, spec, chunk.cursor))
        assert [row for c in again for row in c.batch.to_pylist()] == rows[chunk.cursor.position :], number
    limited = list(read_split(replace(split, limit=2500), spec))
    assert sum(chunk.batch.num_rows for chunk in limited) == 2500


def test_one_damaged_or_foreign_file_among_others_is_quarantined_whole(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", [("x", 1, "en")] * 10)
    (tmp_path / "a.parquet").write_bytes(b"<html>404</html>")
    pq.write_table(pa.table({"body": ["x"] * 3}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "d.parquet")
    spec = ParquetSource("s", (str(tmp_path),))
    splits = list_splits(spec).splits
    assert [Split.from_json(split.to_json()) for split in splits] == list(splits)
    rows = [row for split in splits for chunk in read_split(split, spec) for row in chunk.batch.to_pylist()]
    reasons = ["parquet_unreadable", *[None] * 10, *["text_missing"] * 3, *["text_not_string"] * 2]
    assert [row["quarantine"] for row in rows] == reasons
    for limit in range(1, 17):
        limited = ParquetSource("s", (str(tmp_path),), limit=limit)
        if limit == 1:  # nothing but the damaged file would be read
            with pytest.raises(SourceError, match=r"a\.parquet: cannot be read as Parquet"):
                list_splits(limited)
            continue
        chunks = [chunk for split in list_splits(limited).splits for chunk in read_split(split, limited)]
        assert [row for chunk in chunks for row in chunk.batch.to_pylist()] == rows[:limit]


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [("x", 1, "en")] * 10)
    spec = ParquetSource("s", (str(tmp_path),))
    before = list_splits(spec)
    write(tmp_path / "a.parquet", [("x", 1, "en")] * 11)
    with pytest.raises(SourceError, match=r"has 11 rows in row groups 0 to 1, the plan says 10"):
        next(read_split(before.splits[0], spec))
    assert list_splits(spec).revision != before.revision
