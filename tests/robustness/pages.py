"""The hostile pages and WARC files; see cases."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import brotli

from tests.robustness.cases import MB, PROCESSED, PROSE, Good, pack_zst

ARTICLE = b"<p>" + PROSE.encode() * 9 + b"</p>"
LAYOUT = b"<!doctype html><html><head><title>t</title></head><body><article>%s</article></body></html>"


class Page(NamedTuple):
    """A hostile response: its HTTP fields, its body, and what becomes of it by engine."""

    name: str
    fields: bytes
    make: Callable[[], bytes]
    trafilatura: str
    resiliparse: str
    is_slow: bool = False


def make_response(number: int, body: bytes, fields: bytes = b"", length: int | None = None) -> bytes:
    """A WARC record (ISO 28500) of a response with status 200; `length` is what it states, None the truth."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=UTF-8\r\n" + fields + b"\r\n" + body
    head = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:%d>\r\nWARC-Target-URI: http://example.org/%d\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
    )
    return head % (number, number, len(block) if length is None else length) + block + b"\r\n\r\n"


def make_good(good: Good, number: int) -> bytes:
    """A record with a good document as its article."""
    paragraphs = b"".join(b"<p>%s</p>" % line.encode() for line in good.texts[number].splitlines())
    return make_response(1000 + number, LAYOUT % paragraphs)


def _page(name: str, content: bytes, outcome: str = PROCESSED, resiliparse: str | None = None) -> Page:
    return Page(name, b"", lambda: LAYOUT % content, outcome, resiliparse or outcome)


def _body(name: str, make: Callable[[], bytes], outcome: str, fields: bytes = b"") -> Page:
    return Page(name, fields, make, outcome, outcome)


def _zip_zeros(n_bytes: int, wbits: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return b"".join([*(packer.compress(bytes(MB)) for _ in range(n_bytes // MB)), packer.flush()])


GZIP, DEFLATE = b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate\r\n"
BROTLI, CHUNKED = b"Content-Encoding: br\r\n", b"Transfer-Encoding: chunked\r\n"
ROW = b"<table><tr>%s</tr></table>"

PAGES = [
    _page("colspan=9007199254740991", ROW % b'<td colspan="9007199254740991">x</td>' + ARTICLE),
    _page("rowspan=9007199254740991 in every cell", ROW % (b'<td rowspan="9007199254740991">x' * 500) + ARTICLE),
    Page(
        "a table row of a million cells", b"", lambda: LAYOUT % (ROW % (b"<td>x" * 1_000_000)), "extract_timeout",
        PROCESSED, True,
    ),
    _page("100,000 elements inside each other", b"<div>" * 100_000 + ARTICLE, "extract_too_deep"),
    _page("300 elements inside each other", b"<div>" * 300 + ARTICLE, "extract_too_deep", PROCESSED),
    _page("a page of 9 MB", b"<p>" + PROSE.encode() * (9 * MB // len(PROSE)), "extract_too_large"),
    _page("an attribute of 7 MB", b'<img alt="' + b"x" * (7 * MB) + b'">' + ARTICLE),
    _page("a million open angle brackets", b"<" * 1_000_000 + ARTICLE, PROCESSED),
    _page("NULs, control characters and references to them", (b"\0\x01&#0;&#x1;&#27;" * 99) + ARTICLE),
    _page("end-of-text tokens as text", ARTICLE.replace(b"evening", b"&lt;/s&gt; <|endoftext|>")),
    _page("U+2028, CRLF and lone CR", ARTICLE.replace(b". ", ".\u2028\r\n\r".encode())),
    _page("bytes that are not UTF-8, declared as it", ARTICLE.replace(b"evening", b"caf\xe9 \xff\xfe")),
    _page("no article", b"<script>var a = 1</script>", "extract_empty"),
    _body("a PDF named HTML", lambda: b"%PDF-1.7 <b>" + bytes(1000), "extract_not_html"),
    _body("JSON named HTML", lambda: b'{"text": "a"}' * 99, "extract_not_html"),
    _body("a body without a byte", lambda: b"", "http_empty"),
    _body("a gzip bomb as a body: 1 GB in 1 MB", lambda: _zip_zeros(1000 * MB, 31), "record_too_long", GZIP),
    _body("a deflate bomb as a body: 1 GB in 1 MB", lambda: _zip_zeros(1000 * MB, 15), "record_too_long", DEFLATE),
    _body("a brotli bomb as a body: 1 GB in 1 kB", lambda: brotli.compress(bytes(1000 * MB), quality=1),
          "record_too_long", BROTLI),
    _body("a gzip body cut in the middle", lambda: gzip.compress(LAYOUT % ARTICLE)[:100], "http_truncated", GZIP),
    _body("a chunk longer than what is left", lambda: b"ffff\r\n" + LAYOUT % ARTICLE, "http_truncated", CHUNKED),
    _body("an unknown coding", lambda: LAYOUT % ARTICLE, "http_bad_encoding", b"Content-Encoding: rot13\r\n"),
    Page("a page of 300 MB", b"", lambda: LAYOUT % (b"x " * (150 * MB)), "record_too_long", "record_too_long", True),
]  # fmt: skip


class Archive(NamedTuple):
    """A hostile WARC file: suffix, bytes (from the records of good pages), reason, the share that survives."""

    name: str
    suffix: str
    make: Callable[[Sequence[bytes]], bytes]
    reason: str
    survives: float
    is_slow: bool = False


def _join(pack: Callable[[bytes], bytes], records: Sequence[bytes]) -> bytes:
    return b"".join(map(pack, records))


def _cut_last(pack: Callable[[bytes], bytes]) -> Callable[[Sequence[bytes]], bytes]:
    return lambda records: _join(pack, records)[: -len(pack(records[-1])) // 2]


def _spoil(pack: Callable[[bytes], bytes]) -> Callable[[Sequence[bytes]], bytes]:
    """Eight bytes in the middle of the second member changed."""

    def make(records: Sequence[bytes]) -> bytes:
        data, second = bytearray(_join(pack, records)), pack(records[1])
        at = len(pack(records[0])) + len(second) // 2
        data[at : at + 8] = b"\xff" * 8
        return bytes(data)

    return make


def _insert(record: Callable[[], bytes]) -> Callable[[Sequence[bytes]], bytes]:
    return lambda records: _join(gzip.compress, records[:2]) + record() + _join(gzip.compress, records[2:])


def _bomb(pack: Callable[[bytes], bytes]) -> Callable[[], bytes]:
    return lambda: pack(make_response(7, b"<p>" + bytes(500 * MB)))


ARCHIVES = [
    Archive("a .warc.gz cut in its last record", ".warc.gz", _cut_last(gzip.compress), "warc_truncated", 0.8),
    Archive("a .warc.zst cut in its last record", ".warc.zst", _cut_last(pack_zst), "warc_truncated", 0.8),
    Archive("a .warc cut in its last record", ".warc", _cut_last(bytes), "warc_truncated", 0.8),
    Archive("bytes changed in a record of a .warc.gz", ".warc.gz", _spoil(gzip.compress), "warc_bad_packing", 0.8),
    Archive("bytes changed in a record of a .warc.zst", ".warc.zst", _spoil(pack_zst), "warc_bad_packing", 0.8),
    Archive("rubbish between two records", ".warc.gz", _insert(lambda: b"garbage" * 99), "warc_bad_packing", 1.0),
    Archive(
        "a record that states a wrong length", ".warc.gz",
        _insert(lambda: gzip.compress(make_response(7, LAYOUT % ARTICLE, length=50))), "warc_bad_length", 1.0,
    ),
    Archive(
        "a member that is no record", ".warc.gz", _insert(lambda: gzip.compress(b"<html>404</html>")),
        "warc_bad_header", 1.0,
    ),
    Archive("HTML named .warc.gz", ".warc.gz", lambda _: LAYOUT % ARTICLE, "warc_bad_packing", 0.0),
    Archive(
        "a record that is a .gz bomb: 500 MB in 500 kB", ".warc.gz", _insert(_bomb(gzip.compress)), "record_too_long",
        1.0, True,
    ),
]  # fmt: skip
