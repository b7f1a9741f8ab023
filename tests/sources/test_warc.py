"""WARC files, whole and damaged; fastwarc and warcio say what whole records hold and where they begin."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from tamiz import schema
from tamiz.errors import SourceError
from tamiz.sources import Chunk, WarcSource, list_splits, read_split, warc, warc_records

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "warc"
HTML = b"<html><body><p>page %d, %s</p></body></html>"


def make_response(i: int, body: bytes, status: bytes = b"200 OK", kind: bytes = b"text/html; charset=UTF-8") -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\n\r\n" % (status, kind)
    return make_record(i, head + body, b"response", b"application/http; msgtype=response")


def make_record(i: int, block: bytes, kind: bytes, content_type: bytes, length: int | None = None) -> bytes:
    return (
        b"WARC/1.0\r\nWARC-Type: %s\r\nWARC-Record-ID: <urn:uuid:%d>\r\nWARC-Target-URI: http://example.org/%d\r\n"
        b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
    ) % (kind, i, i, content_type, len(block) if length is None else length, block)


def make_page(i: int) -> bytes:
    noise = b"".join(b"%d " % (7919 * (i + 1) * k % 104729) for k in range(600))  # some KB that do not pack well
    return HTML % (i, noise)


PAGES = [make_page(i) for i in range(6)]
RECORDS = [make_response(i, page) for i, page in enumerate(PAGES)]
MEMBERS = [gzip.compress(record) for record in RECORDS]


def list_starts(pieces: Sequence[bytes]) -> list[int]:
    return [sum(map(len, pieces[:i])) for i in range(len(pieces))]


def read_file(path: Path, limit: int | None = None) -> list[Chunk]:
    spec = WarcSource("web", (str(path),), limit)
    (split,) = list_splits(spec).splits
    chunks = list(read_split(split, spec))
    for chunk in chunks:
        schema.check_batch(chunk.batch, schema.RAW, "test")
    for i, chunk in enumerate(chunks):
        rest = list(read_split(split, spec, chunk.cursor))
        assert [c.batch for c in rest] == [c.batch for c in chunks[i + 1 :]]
        assert [c[1:] for c in rest] == [c[1:] for c in chunks[i + 1 :]]
    return chunks


def read_rows(tmp_path: Path, data: bytes, name: str = "a.warc.gz") -> dict[int, Any]:
    """Position -> payload, text or reason, of a file with these bytes, read in chunks of two records."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warc, "BATCH_ROWS", 2)
        chunks = read_file(path)
    rows = [row for chunk in chunks for row in chunk.batch.to_pylist()]
    found = {int(row["origin"].rpartition("#")[2]): row["payload"] or row["text"] or row["quarantine"] for row in rows}
    assert len(found) == len(rows)
    assert list(found) == sorted(found)
    return found


def join_plain(records: Sequence[bytes]) -> bytes:
    return b"".join(records)


def join_gzip(records: Sequence[bytes]) -> bytes:
    return b"".join(map(gzip.compress, records))


def join_zstd(records: Sequence[bytes]) -> bytes:
    return b"".join(map(zstandard.ZstdCompressor(write_checksum=True).compress, records))


packings = pytest.mark.parametrize(
    ("join", "name"), [(join_plain, "a.warc"), (join_gzip, "a.warc.gz"), (join_zstd, "a.warc.zst")]
)


@packings
def test_whole_files(tmp_path: Path, join: Any, name: str) -> None:
    starts = [len(join(RECORDS[:i])) for i in range(6)]
    assert read_rows(tmp_path, join(RECORDS), name) == dict(zip(starts, PAGES, strict=True))


def test_positions_are_fastwarcs(tmp_path: Path) -> None:
    data = join_gzip(RECORDS)
    assert list(read_rows(tmp_path, data)) == [record.stream_pos for record in ArchiveIterator(io.BytesIO(data))]


@packings
def test_a_file_packed_as_a_whole(tmp_path: Path, join: Any, name: str) -> None:
    """Positions are no places to seek to, but still tell the records apart and let reading go on."""
    found = read_rows(tmp_path, join([b"".join(RECORDS)]), name)
    assert list(found.values()) == PAGES


def test_a_suffix_that_lies(tmp_path: Path) -> None:
    assert list(read_rows(tmp_path, join_plain(RECORDS), "a.warc.gz").values()) == PAGES
    assert list(read_rows(tmp_path, join_gzip(RECORDS), "a.warc").values()) == PAGES


def test_record_over_several_members(tmp_path: Path) -> None:
    whole = RECORDS[0]
    pieces = [MEMBERS[1], gzip.compress(whole[:300]), gzip.compress(whole[300:5000]), gzip.compress(whole[5000:])]
    found = read_rows(tmp_path, b"".join([*pieces, MEMBERS[2]]))
    starts = list_starts([*pieces, MEMBERS[2]])
    assert found == {starts[0]: PAGES[1], starts[1]: PAGES[0], starts[4]: PAGES[2]}


def test_padding_between_and_behind_records(tmp_path: Path) -> None:
    data = MEMBERS[0] + b"\0" * 512 + MEMBERS[1] + b"\0" * 512
    assert read_rows(tmp_path, data) == {0: PAGES[0], len(MEMBERS[0]) + 512: PAGES[1]}


def expect_damage(starts: Sequence[int], bad: int, reason: str) -> dict[int, Any]:
    return {start: reason if i == bad else PAGES[i] for i, start in enumerate(starts)}


@pytest.mark.parametrize("n", [100, 1000, 1500])
def test_a_file_cut_in_its_last_record(tmp_path: Path, n: int) -> None:
    starts = list_starts(MEMBERS)
    assert read_rows(tmp_path, join_gzip(RECORDS)[:-n]) == expect_damage(starts, 5, "warc_truncated")


@pytest.mark.parametrize("n", [1, 8])
def test_a_file_cut_in_its_last_checksum(tmp_path: Path, n: int) -> None:
    """The record is whole, but whether others came behind it in its member nobody can tell."""
    starts = list_starts(MEMBERS)
    expected = expect_damage(starts, -1, "") | {starts[5] + 1: "warc_truncated"}
    assert read_rows(tmp_path, join_gzip(RECORDS)[:-n]) == expected


@pytest.mark.parametrize("n", [5, 10, 60, 200, 3000])
def test_a_plain_file_cut_in_its_last_record(tmp_path: Path, n: int) -> None:
    starts = list_starts(RECORDS)
    data = join_plain(RECORDS)[: starts[5] + n]
    assert read_rows(tmp_path, data, "a.warc") == expect_damage(
        starts, 5, "warc_truncated" if n > 5 else "warc_bad_header"
    )


@pytest.mark.parametrize("bad", [0, 2, 5])
@pytest.mark.parametrize("place", [0, 1, 12, 700, 1500])
def test_rotten_bytes_lose_one_record(tmp_path: Path, bad: int, place: int) -> None:
    starts = list_starts(MEMBERS)
    data = bytearray(join_gzip(RECORDS))
    data[starts[bad] + place : starts[bad] + place + 8] = b"\xff" * 8
    found = read_rows(tmp_path, bytes(data))
    assert {start: found.get(start) for start in starts if start != starts[bad]} == {
        start: page for start, page in zip(starts, PAGES, strict=True) if start != starts[bad]
    }
    assert len(found) == 6
    assert found[starts[bad]] in ("warc_bad_packing", "warc_bad_header")


def test_garbage_between_members(tmp_path: Path) -> None:
    data = MEMBERS[0] + b"garbage" * 10 + MEMBERS[1] + MEMBERS[2] + b"more of it"
    starts = list_starts([MEMBERS[0], b"garbage" * 10, MEMBERS[1], MEMBERS[2], b"more of it"])
    bad = "warc_bad_packing"
    assert read_rows(tmp_path, data) == dict(zip(starts, [PAGES[0], bad, PAGES[1], PAGES[2], bad], strict=True))


@packings
@pytest.mark.parametrize("length", [0, 50, 3000, 4500, 6000, 10**6, 10**9, 10**15])
def test_a_wrong_length_loses_one_record(tmp_path: Path, join: Any, name: str, length: int) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGES[2]
    assert len(block) not in (3000, 4500)
    bad = make_record(2, block, b"response", b"application/http", length)
    records = [*RECORDS[:2], bad, *RECORDS[3:]]
    starts = [len(join(records[:i])) for i in range(6)]
    found = read_rows(tmp_path, join(records), name)
    reason = "warc_bad_length" if length < 10**6 else "warc_truncated"
    if name != "a.warc" and length > 10**6:  # passed over without being held, and nothing left behind it
        assert found == {starts[0]: PAGES[0], starts[1]: PAGES[1], starts[2]: reason}
    else:
        assert found == expect_damage(starts, 2, reason)


@packings
@pytest.mark.parametrize("length", [b"", b"-5", b"abc", b"1e3", b"9" * 30])
def test_a_length_that_is_none(tmp_path: Path, join: Any, name: str, length: bytes) -> None:
    bad = RECORDS[2].replace(b"Content-Length: ", b"Content-Length: " + length + b"x-")
    records = [*RECORDS[:2], bad, *RECORDS[3:]]
    starts = [len(join(records[:i])) for i in range(6)]
    assert read_rows(tmp_path, join(records), name) == expect_damage(starts, 2, "warc_bad_header")


@packings
def test_a_record_too_long_to_hold(tmp_path: Path, join: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc_records, "RECORD_BYTES_MAX", 10_000)
    records = [RECORDS[0], make_response(1, b"x" * 3_000_000), RECORDS[2]]
    starts = [len(join(records[:i])) for i in range(3)]
    expected = dict(zip(starts, [PAGES[0], "record_too_long", PAGES[2]], strict=True))
    assert read_rows(tmp_path, join(records), name) == expected


@given(st.integers(0, 5), st.integers(0, 10_000), st.binary(min_size=1, max_size=40), st.sampled_from([0, 1]))
def test_damage_anywhere_never_costs_records_before_it(
    tmp_path_factory: Any, i: int, at: int, noise: bytes, k: int
) -> None:
    """Nor does it stop reading: whatever is read is a page of the file or a reason."""
    data = (join_plain, join_gzip)[k](RECORDS)
    starts = list_starts((RECORDS, MEMBERS)[k])
    at = min(starts[i] + at, len(data))
    broken = data[:at] + noise + data[at + len(noise) :]
    found = read_rows(tmp_path_factory.mktemp("warc"), broken, ("a.warc", "a.warc.gz")[k])
    for j, start in enumerate(starts):
        if j + 1 < len(starts) and starts[j + 1] <= at:
            assert found[start] == PAGES[j]
    others = [value for start, value in found.items() if start not in starts]
    assert all(isinstance(value, (str, bytes)) for value in others)


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    records = [
        make_record(0, b"software: x\r\n", b"warcinfo", b"application/warc-fields"),
        make_record(1, b"GET / HTTP/1.1\r\n\r\n", b"request", b"application/http; msgtype=request"),
        RECORDS[2],
        make_response(3, PAGES[3], status=b"404 Not Found"),
        make_response(4, b"%PDF-", kind=b"application/pdf"),
        make_response(5, PAGES[5], kind=b"application/xhtml+xml"),
        make_record(6, b"x", b"metadata", b"text/plain"),
        make_record(7, b"x", b"revisit", b"application/http"),
        make_record(8, b"x", b"response", b"text/dns"),
        make_record(9, b"x", b"resource", b"text/html"),
        make_record(10, b"x", b"invented", b"text/html"),
        make_record(11, "plain text, así".encode(), b"conversion", b"text/plain"),
        make_record(12, b"\xff\xfe\xfd", b"conversion", b"text/plain"),
        make_record(13, b"x", b"conversion", b"image/png"),
        make_record(14, b"no response", b"response", b"application/http"),
        make_response(15, b""),
        make_response(16, PAGES[0], kind=b""),
        make_response(17, b"no type", kind=b""),
    ]
    path = tmp_path / "a.warc.gz"
    path.write_bytes(join_gzip(records))
    (chunk,) = read_file(path)
    rows = chunk.batch.to_pylist()
    assert [row["url"].rpartition("/")[2] for row in rows] == ["2", "5", "11", "12", "14", "15", "16"]
    assert [row["text"] for row in rows][2] == "plain text, así"
    assert [row["charset"] for row in rows][:2] == ["UTF-8", None]
    assert [row["quarantine"] for row in rows][3:6] == ["invalid_utf8", "http_bad_header", "http_empty"]
    assert chunk.skipped == {
        "warc_warcinfo": 1,
        "warc_request": 1,
        "warc_status": 1,
        "warc_content_type": 4,
        "warc_metadata": 1,
        "warc_revisit": 1,
        "warc_resource": 1,
        "warc_unknown_type": 1,
    }


@pytest.mark.parametrize("limit", [1, 3, 6])
def test_limit(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(join_gzip(RECORDS))
    rows = [row["payload"] for chunk in read_file(path, limit) for row in chunk.batch.to_pylist()]
    assert rows == PAGES[:limit]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(RECORDS[0])
    spec = WarcSource("web", (str(path),))
    (split,) = list_splits(spec).splits
    path.unlink()
    with pytest.raises(SourceError, match="No such file"):
        list(read_split(split, spec))


CRAWLS = ["cc.warc.gz", "example-iana.org-chunked.warc", "example.warc.gz", "sample-0000.warc.gz", "warcfile.warc.gz"]


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="no reference data beside the checkout")
@pytest.mark.parametrize("name", [*CRAWLS, "whirlwind.warc.gz", "whirlwind.warc.wet.gz"])
def test_real_files_as_two_libraries_read_them(name: str) -> None:
    kinds, expected = Counter(), {}
    with (DATA / name).open("rb") as file:
        archive = WarcioIterator(file)
        for record in archive:
            kinds[record.rec_type] += 1
            content = record.content_stream().read()
            expected[archive.get_record_offset()] = content
    with (DATA / name).open("rb") as file:
        for record in ArchiveIterator(file, parse_http=True, auto_decode="all"):
            assert record.reader.read() == expected[record.stream_pos]
    chunks = read_file(DATA / name)
    n_rows = 0
    for row in (row for chunk in chunks for row in chunk.batch.to_pylist()):
        content = row["payload"] if row["payload"] is not None else row["text"].encode()
        assert content == expected[int(row["origin"].rpartition("#")[2])]
        n_rows += 1
    assert n_rows > 0
    skipped = sum((Counter(chunk.skipped) for chunk in chunks), Counter())
    assert n_rows + skipped.total() == kinds.total()
    assert skipped["warc_request"] == kinds["request"]


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="no reference data beside the checkout")
def test_real_damaged_files() -> None:
    (clipped,) = read_file(DATA / "clipped.warc.gz")
    assert clipped.batch.column("quarantine").to_pylist() == ["warc_truncated"]
    (scattered,) = read_file(DATA / "example-wrong-chunks.warc.gz")  # the record goes on in the next member
    (payload,) = scattered.batch.column("payload").to_pylist()
    assert payload.startswith(b"<!doctype html>")
    assert payload.endswith(b"</html>\n")
    assert scattered.skipped == {"warc_request": 1}
