from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tamiz.sources import responses
from tamiz.sources.responses import BodyError, decode_body, parse_response

BODY = b"<html><body>" + b"".join(b"<p>%d</p>" % i for i in range(500)) + b"</body></html>"


def chunk(body: bytes, size: int = 100, end: bytes = b"0\r\n\r\n") -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%X;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


def deflate_raw(body: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(body) + deflater.flush()


CODINGS: list[tuple[bytes, Callable[[bytes], bytes]]] = [
    (b"Content-Type: text/html", bytes),
    (b"Content-Encoding: identity", bytes),
    (b"Content-Encoding: gzip", gzip.compress),
    (b"content-encoding: X-GZip", gzip.compress),
    (b"Content-Encoding: deflate", zlib.compress),
    (b"Content-Encoding: deflate", deflate_raw),
    (b"Content-Encoding: br", brotli.compress),
    (b"Content-Encoding: zstd", zstandard.compress),
    (b"Content-Encoding: gzip, br", lambda body: brotli.compress(gzip.compress(body))),
    (b"Content-Encoding: gzip", lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:])),
    (b"Content-Encoding: gzip", lambda body: gzip.compress(body) + b"trailing"),
    (b"Transfer-Encoding: chunked", chunk),
    (b"Transfer-Encoding: chunked", lambda body: chunk(body, end=b"")),
    (b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip", lambda body: chunk(gzip.compress(body))),
    (b"Transfer-Encoding: gzip, chunked", lambda body: chunk(gzip.compress(body))),
]


def decode(field: bytes, body: bytes) -> bytes:
    response = parse_response(b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\n" + body)
    assert response is not None
    return decode_body(response)


@pytest.mark.parametrize(("field", "encode"), CODINGS)
def test_codings(field: bytes, encode: Callable[[bytes], bytes]) -> None:
    assert decode(field, encode(BODY)) == BODY


@pytest.mark.parametrize(("field", "encode"), CODINGS)
def test_a_body_stored_decoded_is_taken_as_it_is(field: bytes, encode: Callable[[bytes], bytes]) -> None:
    assert decode(field, BODY) == BODY


@pytest.mark.parametrize(
    ("field", "body", "reason"),
    [
        (b"Content-Encoding: gzip", gzip.compress(BODY)[:-20], "http_truncated"),
        (b"Content-Encoding: deflate", zlib.compress(BODY)[:-20], "http_truncated"),
        (b"Content-Encoding: br", brotli.compress(BODY)[:-20], "http_truncated"),
        (b"Content-Encoding: zstd", zstandard.compress(BODY)[:-20], "http_truncated"),
        (b"Content-Encoding: gzip", b"\x1f\x8b" + b"\xff" * 100, "http_bad_encoding"),
        (b"Content-Encoding: zstd", b"\x28\xb5\x2f\xfd" + b"\xff" * 100, "http_bad_encoding"),
        (b"Content-Encoding: br", b"\xff" * 100, "http_bad_encoding"),
        (b"Content-Encoding: gzip", b"\xff" * 100, "http_bad_encoding"),
        (b"Content-Encoding: invented", BODY, "http_bad_encoding"),
        (b"Transfer-Encoding: chunked", chunk(BODY)[:150], "http_truncated"),
        (b"Transfer-Encoding: chunked", chunk(BODY, end=b"zzz\r\n"), "http_bad_chunks"),
        (b"Transfer-Encoding: chunked", b"no chunk, no tag", "http_bad_chunks"),
    ],
)
def test_reasons(field: bytes, body: bytes, reason: str) -> None:
    with pytest.raises(BodyError) as info:
        decode(field, body)
    assert info.value.reason == reason


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress, brotli.compress, zstandard.compress])
def test_a_bomb_is_not_held(encode: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "BODY_BYTES_MAX", 100_000)
    names = {gzip.compress: "gzip", zlib.compress: "deflate", brotli.compress: "br", zstandard.compress: "zstd"}
    field = f"Content-Encoding: {names[encode]}".encode()
    assert len(decode(field, encode(b"<" * 100_000))) == 100_000
    with pytest.raises(BodyError) as info:
        decode(field, encode(b"<" * 100_001))
    assert info.value.reason == "record_too_long"


@pytest.mark.parametrize(
    ("block", "status", "fields", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\nC:d\r\n\r\nx", 200, {"a": "b", "c": "d"}, b"x"),
        (b"HTTP/2 404\r\na: b\r\n\r\n", 404, {"a": "b"}, b""),
        (b"HTTP/1.0 200 OK\nA: b\n\nx\n\ny", 200, {"a": "b"}, b"x\n\ny"),
        (b"HTTP/1.1 200\r\n\r\nx", 200, {}, b"x"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nA: d\r\nnone\r\n\r\n", 200, {"a": "b c"}, b""),
        (b"HTTP/1.1 200 OK\r\nA: \xe9", 200, {"a": "�"}, b""),
    ],
)
def test_parts(block: bytes, status: int, fields: dict[str, str], body: bytes) -> None:
    assert parse_response(block) == (status, fields, body)


@pytest.mark.parametrize("block", [b"", b"<html>", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n", b"ICY 200 OK\r\n\r\n"])
def test_what_is_no_response(block: bytes) -> None:
    assert parse_response(block) is None


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_any_body_is_decoded_or_has_a_reason(body: bytes, coding: str) -> None:
    with contextlib.suppress(BodyError):
        decode(f"Content-Encoding: {coding}".encode(), body)
    with contextlib.suppress(BodyError):
        decode(b"Transfer-Encoding: chunked", body)
