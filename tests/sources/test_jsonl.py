"""Reading JSONL against the standard library's idea of lines and JSON."""

from __future__ import annotations

import errno
import gzip
import json
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz import schema
from tamiz.errors import SourceError
from tamiz.sources import Bound, Cursor, JsonlSource, jsonl, list_splits, packing, read_split
from tamiz.sources.jsonl import read_line
from tamiz.sources.split import Chunk, Damage

SPEC = JsonlSource("s", ())
ZSTD = zstandard.ZstdCompressor()
PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": ZSTD.compress}
LINES = st.one_of(
    st.fixed_dictionaries({"text": st.text(max_size=20), "n": st.integers(0, 3)}).map(lambda d: json.dumps(d).encode()),
    st.fixed_dictionaries({"text": st.text(max_size=20)}).map(lambda d: json.dumps(d, ensure_ascii=False).encode()),
    st.sampled_from([b"", b"  \r", b"{", b"[1]", b'{"text": null, "n": 1}', b'{"text": "\xff"}', b'{"text": 3}']),
)


def read_all(spec: JsonlSource, split_bytes: int) -> list[Chunk]:
    return [chunk for split in list_splits(spec, split_bytes).splits for chunk in read_split(split, spec)]


def expect(data: bytes, low: int | None) -> list[tuple[int, str | None]]:
    """Offset and text of each record that has an `n` of at least `low`, or cannot be read."""
    rows: list[tuple[int, str | None]] = []
    position = 0
    for line in data.split(b"\n"):
        if line.strip():
            try:
                value = json.loads(line.decode())
            except ValueError:
                rows.append((position, None))
            else:
                if not isinstance(value, dict):
                    rows.append((position, None))
                elif low is None or value.get("n", -1) >= low:
                    text = value.get("text")
                    rows.append((position, text if isinstance(text, str) else None))
        position += len(line) + 1
    return rows


@settings(max_examples=80, deadline=None)
@given(
    lines=st.lists(LINES, min_size=1),
    suffix=st.sampled_from(["", ".gz", ".zst"]),
    has_end=st.booleans(),
    split_bytes=st.integers(1, 100),
    batch_rows=st.integers(1, 5),
    low=st.one_of(st.none(), st.integers(0, 3)),
    limit=st.one_of(st.none(), st.integers(1, 12)),
)
def test_any_cut_gives_every_record_once_with_its_offset(
    lines: list[bytes],
    suffix: str,
    has_end: bool,
    split_bytes: int,
    batch_rows: int,
    low: int | None,
    limit: int | None,
) -> None:
    data = b"\n".join(lines) + b"\n" * has_end
    expected = expect(data, low)[:limit]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(jsonl, "BATCH_ROWS", batch_rows):
        (Path(folder) / f"a.jsonl{suffix}").write_bytes(PACK[suffix](data + b"\n"))
        where = {} if low is None else {"n": Bound(min=low)}
        chunks = read_all(JsonlSource("s", (folder,), where=where, limit=limit), split_bytes)
    rows = [row for chunk in chunks for row in chunk.batch.to_pylist()]
    assert [(row["origin"], row["text"]) for row in rows] == [(f"a.jsonl{suffix}#{i}", text) for i, text in expected]
    assert all((row["quarantine"] is None) == (row["text"] is not None) for row in rows)
    assert len({row["doc_id"] for row in rows}) == len(rows)
    if limit is None or len(expected) < limit:
        assert sum(chunk.skipped.get("where", 0) for chunk in chunks) == len(expect(data, None)) - len(expected)


@settings(max_examples=40, deadline=None)
@given(
    lines=st.lists(LINES, min_size=1),
    suffix=st.sampled_from(["", ".gz", ".zst"]),
    batch_rows=st.integers(1, 4),
    limit=st.one_of(st.none(), st.integers(1, 9)),
)
def test_every_cursor_gives_the_chunks_behind_it(
    lines: list[bytes], suffix: str, batch_rows: int, limit: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(jsonl, "BATCH_ROWS", batch_rows):
        (Path(folder) / f"a.jsonl{suffix}").write_bytes(PACK[suffix](b"\n".join([*lines, b"{}"])))
        spec = JsonlSource("s", (folder,), where={"n": Bound(max=2)}, limit=limit)
        for split in list_splits(spec, 60).splits:
            chunks = list(read_split(split, spec))
            for i, chunk in enumerate(chunks):
                rest = list(read_split(split, spec, Cursor(*chunk.cursor)))
                assert [c.batch.to_pylist() for c in rest] == [c.batch.to_pylist() for c in chunks[i + 1 :]]
                assert [c[1:] for c in rest] == [c[1:] for c in chunks[i + 1 :]]


@pytest.mark.parametrize(
    ("line", "text", "quarantine"),
    [
        (b'{"text": "plain"}', "plain", None),
        (b'{"text": "a\\u0000b"}\r\n', "a\0b", None),
        (b'{"text": "\\ud83d\\ude00"}', "\U0001f600", None),
        (b'{"text": "x", "score": NaN, "n": 1e999}', "x", None),  # not JSON, but what Python's writer makes
        (b'{"text": "x", "text": "last"}', "last", None),
        (b'{"text": ""}', "", None),
        (b'{"text": "half \\ud83d"}', None, "lone_surrogate"),
        (b'{"text": "caf\xe9"}', None, "invalid_utf8"),
        (b'{"text": "\xed\xa0\xbd"}', None, "invalid_utf8"),
        (b'{"text": null}', None, "text_missing"),
        (b'{"body": "x"}', None, "text_missing"),
        (b'{"text": ["x"]}', None, "text_not_string"),
        (b'["text"]', None, "not_an_object"),
        (b"null", None, "not_an_object"),
        (b'{"text": "cut', None, "bad_json"),
        (b'{"text": "x"} {"text": "y"}', None, "bad_json"),
        (b'{"text": ' + b"[" * 100_000, None, "bad_json"),
        (b'{"text": "x", "n": ' + b"9" * 5000 + b"e}", None, "bad_json"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_a_line_says(line: bytes, text: str | None, quarantine: str | None) -> None:
    record = read_line(line, SPEC)
    assert record is not None
    assert (record.text, record.quarantine) == (text, quarantine)


def test_labels_of_the_wrong_type_are_null() -> None:
    good: dict[str, Any] = {"text": "x", "url": "u", "language": "en", "language_score": 1, "dump": "CC-1"}
    record = read_line(json.dumps(good).encode(), SPEC)
    assert record is not None
    assert record[2:] == ("u", "en", 1.0, "CC-1")
    bad = {"text": "x", "url": "\ud800", "language": ["en"], "language_score": True, "dump": 3}
    record = read_line(json.dumps(bad).encode(), SPEC)
    assert record is not None
    assert (record.text, *record[2:]) == ("x", None, None, None, None)


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "x"}\n\xef\xbb\xbf{"text": "y"}\n')
    (chunk,) = read_all(JsonlSource("s", (str(tmp_path),)), 1000)
    assert chunk.batch.column("quarantine").to_pylist() == [None, "bad_json"]


def test_a_line_too_long_to_hold_is_quarantined_and_reading_goes_on(tmp_path: Path) -> None:
    lines = [b'{"text": "a"}', b'{"text": "' + b"x" * 100 + b'"}', b'{"text": "b"}', b"y" * 31, b'{"text": "c"}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with mock.patch.object(jsonl, "LINE_BYTES_MAX", 32):
        chunks = read_all(JsonlSource("s", (str(tmp_path),)), 50)
    rows = [row for chunk in chunks for row in chunk.batch.to_pylist()]
    assert [row["text"] for row in rows] == ["a", None, "b", None, "c"]
    assert [row["quarantine"] for row in rows] == [None, "record_too_long", None, "bad_json", None]
    for chunk in chunks:
        schema.check_batch(chunk.batch, schema.RAW, "test")


def read_rows(path: Path, cursor: Cursor | None = None) -> tuple[list[dict[str, Any]], list[Damage]]:
    spec = JsonlSource("s", (str(path),))
    (split,) = list_splits(spec).splits
    chunks = list(read_split(split, spec, cursor))
    return [row for c in chunks for row in c.batch.to_pylist()], [damage for c in chunks for damage in c.damage]


NUMBERED = [json.dumps({"text": f"document {i} {i * 7919 % 1000003}"}).encode() + b"\n" for i in range(5000)]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("n_bytes", [0.3, 0.99])
def test_a_truncated_file_gives_what_is_whole_and_one_row_for_the_rest(
    tmp_path: Path, suffix: str, n_bytes: float
) -> None:
    packed = PACK[suffix](b"".join(NUMBERED))
    path = tmp_path / f"a.jsonl{suffix}"
    cut = packed[: int(len(packed) * n_bytes)]
    path.write_bytes(cut)
    rows, damage = read_rows(path)
    lost = rows.pop()
    assert all(row["quarantine"] is None for row in rows)
    assert [row["text"] for row in rows] == [json.loads(line)["text"] for line in NUMBERED[: len(rows)]]
    position, reason = sum(map(len, NUMBERED[: len(rows)])), f"{suffix[1:]}_truncated"
    assert (lost["origin"], lost["quarantine"]) == (f"{path.name}#{position}", reason)
    assert damage == [Damage(path.name, position, reason, len(cut), len(cut), 1)]
    # The oracle: what the format's own tool can unpack of the cut file, up to the last whole line.
    zstd = zstandard.ZstdDecompressor()
    whole = zlib.decompressobj(31).decompress(cut) if suffix == ".gz" else zstd.decompressobj().decompress(cut)
    assert len(rows) == whole.count(b"\n")


def pack_checked(suffix: str, data: bytes) -> bytes:
    return gzip.compress(data) if suffix == ".gz" else zstandard.ZstdCompressor(write_checksum=True).compress(data)


@settings(max_examples=60, deadline=None)
@given(
    suffix=st.sampled_from([".gz", ".zst"]),
    frames=st.integers(2, 6),
    damaged=st.data(),
    skip=st.integers(0, 10),
)
def test_only_the_damaged_frame_is_lost_and_any_cursor_goes_on(
    suffix: str, frames: int, damaged: st.DataObject, skip: int
) -> None:
    """Each frame holds whole lines; a byte of one of them is changed, and a checksum tells."""
    packed = [pack_checked(suffix, b"".join(NUMBERED[i * 200 : (i + 1) * 200])) for i in range(frames)]
    number = damaged.draw(st.integers(0, frames - 1))
    at = damaged.draw(st.integers(10, len(packed[number]) - 5))  # 10: gzip's header has bytes that mean nothing
    bad = bytearray(packed[number])
    bad[at] ^= damaged.draw(st.integers(1, 255))
    start = sum(map(len, packed[:number]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.jsonl{suffix}"
        path.write_bytes(b"".join([*packed[:number], bytes(bad), *packed[number + 1 :]]))
        rows, damage = read_rows(path)
        readable = {row["text"] for row in rows}
        for i, line in enumerate(NUMBERED[: frames * 200]):
            assert i // 200 == number or json.loads(line)["text"] in readable
        assert damage
        assert all(start <= d.start <= d.stop <= start + len(bad) for d in damage)
        assert [row["quarantine"] for row in rows if row["quarantine"]].count(f"{suffix[1:]}_corrupt") == len(damage)
        origins = [row["origin"] for row in rows]
        assert len(set(origins)) == len(origins)
        cut = min(len(rows) - 1, skip * len(rows) // 10)
        again, _ = read_rows(path, Cursor(int(origins[cut].partition("#")[2]), cut))
        assert again == rows[cut:]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_several_members_are_one_stream(tmp_path: Path, suffix: str) -> None:
    pack = PACK[suffix]
    padding = b"\0" * 512 if suffix == ".gz" else b""
    (tmp_path / f"a.json{suffix}").write_bytes(pack(b'{"text": "a"}\n{"te') + pack(b'xt": "b"}') + pack(b"") + padding)
    (chunk,) = read_all(JsonlSource("s", (str(tmp_path),)), 1000)
    assert chunk.batch.column("text").to_pylist() == ["a", "b"]
    assert chunk.batch.column("origin").to_pylist() == [f"a.json{suffix}#0", f"a.json{suffix}#14"]


def test_a_file_that_shrank_since_the_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\n' * 10)
    spec = JsonlSource("s", (str(tmp_path),))
    splits = list_splits(spec, 50).splits
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a"}\n' * 5)
    with pytest.raises(SourceError, match=r"a\.jsonl: has 70 bytes, the plan says 100 or more"):
        list(read_split(splits[1], spec))


def test_what_is_not_packed_as_its_name_says_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b'{"text": "a"}\n')
    rows, damage = read_rows(tmp_path / "a.jsonl.gz")
    assert [row["quarantine"] for row in rows] == ["gz_corrupt"]
    assert damage == [Damage("a.jsonl.gz", 0, "gz_corrupt", 0, 14, 1)]


def test_a_disk_that_fails_is_an_error_and_not_damage(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n'))
    with (
        mock.patch.object(packing.FrameFile, "_refill", side_effect=OSError(errno.EIO, "Input/output error")),
        pytest.raises(SourceError, match=r"a\.jsonl\.gz, byte 0 \(unpacked\): Input/output error"),
    ):
        read_rows(tmp_path / "a.jsonl.gz")
