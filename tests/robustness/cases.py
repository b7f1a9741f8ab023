"""The hostile inputs: what each is, how it is written, and what must become of it.

A record is a text, the bytes of a text that is not UTF-8, None for null, or a whole JSON line. PROCESSED means that the
rules decide about it like about any document; every other outcome is the reason of its quarantine.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from tamiz.sources import Bound

PROCESSED = "processed"
MB = 1 << 20


class Line(NamedTuple):
    """A whole line of JSONL, for what only such a file can hold."""

    data: bytes


class Record(NamedTuple):
    """One hostile record. Outcomes by format; None where a format cannot hold it."""

    name: str
    make: Callable[[], str | bytes | Line | None]
    parquet: str | None
    jsonl: str | None
    is_slow: bool = False


def _repeat(text: str, n_bytes: int) -> Callable[[], str]:
    return lambda: text * (n_bytes // len(text.encode()))


def _text(name: str, text: str, outcome: str = PROCESSED) -> Record:
    return Record(name, lambda: text, outcome, outcome)


def _line(name: str, data: bytes, reason: str) -> Record:
    return Record(name, lambda: Line(data), None, reason)


HUGE = 300 * MB
PROSE = "The keeper of the lighthouse wrote in his log that evening, and the sea answered him. "

RECORDS = [
    Record("a document of 300 MB in one line", _repeat(PROSE, HUGE), "document_too_large", "record_too_long", True),
    Record("a document of 17 MB", _repeat(PROSE, 17 * MB), "document_too_large", "document_too_large"),
    Record("a document of 15 MB", _repeat(PROSE, 15 * MB), PROCESSED, PROCESSED, True),
    Record("15 MB of words of one letter", _repeat("a ", 15 * MB), PROCESSED, PROCESSED, True),
    Record("15 MB of full stops and spaces", _repeat(". ", 15 * MB), PROCESSED, PROCESSED, True),
    Record("a word of 15 MB", _repeat("a", 15 * MB), PROCESSED, PROCESSED, True),
    Record("1 MB of one letter", _repeat("a", MB), PROCESSED, PROCESSED),
    Record("1 MB of spaces", _repeat(" ", MB), "text_empty", "text_empty"),
    Record("1 MB of line breaks", _repeat("\n", MB), "text_empty", "text_empty"),
    Record("1 MB of spaces between two words", lambda: "a" + " " * MB + "b", PROCESSED, PROCESSED),
    Record("a million lines of one character", _repeat("x\n", 2 * MB), PROCESSED, PROCESSED),
    _text("an empty text", "", "text_empty"),
    _text("nothing but white space, Unicode's too", " \t\r\n\u00a0\u2003\u3000\u2028", "text_empty"),
    Record("a null text", lambda: None, "text_missing", "text_missing"),
    Record("a lone surrogate, as bytes", lambda: b"half \xed\xa0\x80 a pair", "invalid_utf8", "invalid_utf8"),
    _line("a lone surrogate, as an escape", b'{"text": "half \\ud800 a pair"}', "lone_surrogate"),
    Record("bytes that are not UTF-8", lambda: b"caf\xe9 \xff\xfe \xc0\x80", "invalid_utf8", "invalid_utf8"),
    _text("NULs and control characters", "a\0b\x01\x02\x1b[31mc\x7f\x85 " * 2000),
    _text("U+2028, U+2029, CRLF and lone CR", "one\u2028two\u2029three\r\nfour\rfive\r\r\n" * 2000),
    _text("towers of combining marks", ("o" + "\u0301\u0323\u0489" * 200 + " ") * 200),
    _text("100,000 combining marks on nothing", "\u0301" * 100_000),
    _text("Arabic and Hebrew with bidirectional controls", "\u202eشلوم עולם\u2066 مرحبا بالعالم\u2069\u200f " * 2000),
    _text("Chinese, Japanese and Thai without spaces", "我們在山上看見了一座古老的寺廟そして彼は言ったภาษาไทย" * 2000),
    _text("emoji with joiners, private use, unassigned", "👩‍👩‍👧‍👦🏴󠁧󠁢󠁳󠁣󠁴󠁿\ue000\U000e0fff\U0010ffff" * 2000),
    _text("special tokens as text", "</s><|endoftext|><s>[INST]<unk>[/INST]<|im_start|><0x0A> " * 2000),
    _text("byte order marks everywhere", "\ufeffa\ufeff \ufeff" * 2000),
    _text("a URL of 100 kB", "see https://example.org/" + "a/b?c=d&" * 12_500),
    _text("10,000 e-mail and IP addresses", "write a.b@example.com or 8.8.8.8, " * 10_000),
    _text("a line of 1 MB of curly brackets", "{}" * (MB // 2)),
    Record(
        "a JSON line of 200 MB",
        lambda: Line(b'{"text": "' + b"x" * (200 * MB) + b'"}'), None, "record_too_long", True,
    ),
    Record(
        "a JSON line of 30 MB of empty lists",
        lambda: Line(b'{"x": [' + b"[]," * (10 * MB) + b'[]], "text": "a"}'), None, PROCESSED, True,
    ),
    Record("100,000 brackets deep", lambda: Line(b'{"text": ' + b"[" * 100_000), None, "bad_json"),
    _line("invalid JSON", b'{"text": "a" "b"}', "bad_json"),
    _line("a line that stops short", b'{"text": "a', "bad_json"),
    _line("NULs for a line", b"\0" * 1000, "bad_json"),
    _line("JSON that is not an object", b'["text", "a"]', "not_an_object"),
    _line("a number for a text", b'{"text": 1e999}', "text_not_string"),
    _line("an object for a text", b'{"text": {"text": "a"}}', "text_not_string"),
    _line("no text", b'{"body": "a"}', "text_missing"),
    _line("a label of another type", b'{"text": "a", "language": 3, "language_score": "high", "url": []}', PROCESSED),
    _line("the same key twice", b'{"text": 1, "text": "a"}', PROCESSED),
    _line("a number of 100,000 digits", b'{"n": ' + b"9" * 100_000 + b', "text": "a"}', "bad_json"),
]  # fmt: skip


class Good(NamedTuple):
    """Good documents and the two halves of them as JSONL."""

    texts: list[str]

    def write_lines(self, start: float, stop: float) -> bytes:
        """The JSON lines of a stretch, given by shares of the documents."""
        n = len(self.texts)
        some = self.texts[int(start * n) : int(stop * n)]
        return b"".join(json.dumps({"id": "the same", "text": text}).encode() + b"\n" for text in some)


class Stream(NamedTuple):
    """A hostile packed JSONL file: its suffix, its bytes, the reason, the share of good documents that survives."""

    name: str
    suffix: str
    make: Callable[[Good], bytes]
    reason: str
    survives: float
    is_slow: bool = False


def pack_zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACK = {"gz": gzip.compress, "zst": pack_zst}


def _flip(packed: bytes, at: float) -> bytes:
    place = int(len(packed) * at)
    return packed[:place] + bytes([packed[place] ^ 0x40]) + packed[place + 1 :]


def _cut(pack: Callable[[bytes], bytes], share: float) -> Callable[[Good], bytes]:
    def make(good: Good) -> bytes:
        packed = pack(good.write_lines(0, 1))
        return packed[: int(len(packed) * share)]

    return make


def _break_middle(pack: Callable[[bytes], bytes]) -> Callable[[Good], bytes]:
    """Three frames of a third each, a byte of the second changed."""
    return lambda good: (
        pack(good.write_lines(0, 0.25)) + _flip(pack(good.write_lines(0.25, 0.5)), 0.5) + pack(good.write_lines(0.5, 1))
    )


def _zeros(good: Good, n_bytes: int, pack: Callable[[bytes], bytes]) -> bytes:
    return pack(good.write_lines(0, 0.5)) + pack(b"0" * n_bytes + b"\n") + pack(good.write_lines(0.5, 1))


STREAMS = [
    Stream("a .gz cut in the middle", ".gz", _cut(gzip.compress, 0.5), "gz_truncated", 0.4),
    Stream("a .zst cut in the middle", ".zst", _cut(pack_zst, 0.5), "zst_truncated", 0.0),
    Stream(
        "a .gz without its last byte", ".gz", lambda g: gzip.compress(g.write_lines(0, 1))[:-1], "gz_truncated", 1.0
    ),
    Stream("a .zst without its last byte", ".zst", lambda g: pack_zst(g.write_lines(0, 1))[:-1], "zst_truncated", 1.0),
    Stream("a byte changed in one of three .gz members", ".gz", _break_middle(gzip.compress), "gz_corrupt", 0.75),
    Stream("a byte changed in one of three .zst frames", ".zst", _break_middle(pack_zst), "zst_corrupt", 0.75),
    Stream(
        "rubbish behind a .gz", ".gz", lambda g: gzip.compress(g.write_lines(0, 1)) + b"junk" * 99, "gz_corrupt", 1.0
    ),
    Stream("rubbish behind a .zst", ".zst", lambda g: pack_zst(g.write_lines(0, 1)) + b"junk" * 99, "zst_corrupt", 1.0),
    Stream("plain text named .gz", ".gz", lambda g: g.write_lines(0, 1), "gz_corrupt", 0.0),
    Stream(
        "a .gz bomb: 500 MB in 500 kB",
        ".gz",
        lambda g: _zeros(g, 500 * MB, gzip.compress),
        "record_too_long",
        1.0,
        True,
    ),
    Stream(
        "a .zst bomb: 500 MB in 17 kB", ".zst", lambda g: _zeros(g, 500 * MB, pack_zst), "record_too_long", 1.0, True
    ),
]


class Table(NamedTuple):
    """A hostile Parquet file: what writes it, the reason, the share of good documents that survives, a `where`."""

    name: str
    make: Callable[[Good, Path], object]
    reason: str
    survives: float
    is_slow: bool = False
    where: Mapping[str, Bound] = {}


def write_good(good: Good, path: Path, **options: Any) -> None:
    """The good documents in row groups of 40, each page with a checksum unless `options` say otherwise."""
    options = {"write_page_checksum": True, "use_dictionary": False} | options
    table = pa.table({"id": ["the same"] * len(good.texts), "text": good.texts})
    pq.write_table(table, path, row_group_size=40, **options)


def _damage(change: Callable[[bytes, pq.FileMetaData], bytes]) -> Callable[[Good, Path], object]:
    def make(good: Good, path: Path) -> None:
        write_good(good, path)
        path.write_bytes(change(path.read_bytes(), pq.read_metadata(path)))

    return make


def _flip_page(data: bytes, facts: pq.FileMetaData) -> bytes:
    column = facts.row_group(1).column(1)
    place = column.data_page_offset + column.total_compressed_size // 2
    return data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]


def _flip_footer(data: bytes, facts: pq.FileMetaData) -> bytes:
    place = len(data) - 8 - facts.serialized_size
    return data[:place] + b"\xff" + data[place + 1 :]


def _flip_repetition(data: bytes, facts: pq.FileMetaData) -> bytes:
    """One bit of whether the text column is optional (in Thrift, the byte before its name): pyarrow 26 aborts."""
    place = data.index(b"\x18\x04text", len(data) - 8 - facts.serialized_size) - 1
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def _write_columns(columns: Callable[[int], dict[str, Any]]) -> Callable[[Good, Path], object]:
    return lambda good, path: pq.write_table(pa.table(columns(len(good.texts))), path)


TABLES = [
    Table("a Parquet file cut short", _damage(lambda d, _: d[: len(d) // 2]), "parquet_unreadable", 0),
    Table("a Parquet file without its last byte", _damage(lambda d, _: d[:-1]), "parquet_unreadable", 0),
    Table("a Parquet file without a byte", lambda _, path: path.write_bytes(b""), "parquet_unreadable", 0),
    Table("HTML named .parquet", lambda _, path: path.write_bytes(b"<html>404</html>"), "parquet_unreadable", 0),
    Table("a byte changed in a Parquet footer", _damage(_flip_footer), "parquet_unreadable", 0),
    Table("a Parquet footer that ends pyarrow's process", _damage(_flip_repetition), "parquet_unreadable", 0),
    Table("a byte changed in a Parquet page with a checksum", _damage(_flip_page), "parquet_unreadable", 0.6),
    Table("a Parquet file without the text column", _write_columns(lambda n: {"body": ["a"] * n}), "text_missing", 0),
    Table(
        "a Parquet file without a column of `where`",
        _write_columns(lambda n: {"text": ["a"] * n}),
        "where_missing",
        0,
        where={"id": Bound(one_of=("the same",))},
    ),
    Table("a Parquet text column of numbers", _write_columns(lambda n: {"text": range(n)}), "text_not_string", 0),
    Table("a Parquet text column of lists", _write_columns(lambda n: {"text": [["a"]] * n}), "text_not_string", 0),
]
