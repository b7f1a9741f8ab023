"""HTTP responses as crawlers store them (RFC 9112): status, fields, and the body without its codings.

Damage: http_bad_header, http_bad_chunks, http_bad_encoding (unknown, or the body breaks it), http_truncated (the coded
body ends too early), record_too_long.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import NamedTuple

import brotli
import zstandard

from tamiz.sources.warc_records import parse_fields

BODY_BYTES_MAX = 64 << 20  # decoded; what expands to more is not held in memory
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})(?:[ \t][^\n]*)?(?:\r?\n|$)")
_CHUNK = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_BETWEEN_CHUNKS = re.compile(rb"\r?\n")
_TAG = re.compile(rb"<[a-zA-Z!/?]")
_TAG_WITHIN = 1 << 10  # bytes in which a page has its first tag


class BodyError(Exception):
    """The body cannot be decoded; `reason` is its quarantine reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Response(NamedTuple):
    """Status code, fields (name in lower case -> value) and the body as it was sent."""

    status: int
    fields: dict[str, str]
    body: bytes


def parse_response(block: bytes) -> Response | None:
    """The parts of a response; None when it does not begin like one."""
    status = _STATUS.match(block)
    if status is None:
        return None
    end = _HEADER_END.search(block, max(status.end() - 2, 0))
    if end is None:
        return Response(int(status[1]), parse_fields(block[status.end() :]), b"")
    return Response(int(status[1]), parse_fields(block[status.end() : end.start()]), block[end.end() :])


def decode_body(response: Response) -> bytes:
    """The body without its codings. Raises BodyError.

    Many crawlers store the body decoded and the fields as they came: a body that is no such code, but has a tag near
    its beginning, is taken as it is.
    """
    body = response.body
    codings = ",".join(response.fields.get(name, "") for name in ("content-encoding", "transfer-encoding"))
    for coding in reversed(codings.lower().split(",")):
        decode = _CODINGS.get(coding.strip())
        if decode is None:
            raise BodyError("http_bad_encoding")
        body = decode(body)
    return body


def _join_chunks(body: bytes) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while (size := _CHUNK.match(body, at)) is not None:
        length = int(size[1], 16)
        if length == 0:
            return b"".join(pieces)
        piece = body[size.end() : size.end() + length]
        if len(piece) < length:
            raise BodyError("http_truncated")
        pieces.append(piece)
        between = _BETWEEN_CHUNKS.match(body, size.end() + length)
        at = between.end() if between else size.end() + length
        if at == len(body):  # without the last chunk, which is empty
            return b"".join(pieces)
    if not pieces and _is_plain(body):
        return body
    raise BodyError("http_bad_chunks" if at < len(body) else "http_truncated")


def _is_plain(body: bytes) -> bool:
    return not body or _TAG.search(body, 0, _TAG_WITHIN) is not None


def _ungzip(body: bytes) -> bytes:
    return _inflate(body, 31) if body.startswith(b"\x1f\x8b") else _keep(body)


def _keep(body: bytes) -> bytes:
    if _is_plain(body):
        return body
    raise BodyError("http_bad_encoding")


def _undeflate(body: bytes) -> bytes:
    """With zlib's wrapper, as the standard has it, or without, as many servers send it."""
    for wbits in (15, -15):
        try:
            return _inflate(body, wbits)
        except BodyError as error:
            if error.reason != "http_bad_encoding":
                raise
    return _keep(body)


def _inflate(body: bytes, wbits: int) -> bytes:
    unpacked = bytearray()
    rest = body
    while rest:  # gzip allows for several members
        inflater = zlib.decompressobj(wbits)
        try:
            unpacked += inflater.decompress(rest, BODY_BYTES_MAX + 1 - len(unpacked))
        except zlib.error:
            if unpacked:  # something else behind the last member
                break
            raise BodyError("http_bad_encoding") from None
        if len(unpacked) > BODY_BYTES_MAX:
            raise BodyError("record_too_long")
        if not inflater.eof:
            raise BodyError("http_truncated")
        rest = inflater.unused_data if wbits == 31 else b""
    return bytes(unpacked)


def _unbrotli(body: bytes) -> bytes:
    decompressor = brotli.Decompressor()
    try:
        unpacked: bytes = decompressor.process(body, output_buffer_limit=BODY_BYTES_MAX + 1)
    except brotli.error:
        return _keep(body)
    if len(unpacked) > BODY_BYTES_MAX:
        raise BodyError("record_too_long")
    if not decompressor.is_finished():
        return body if _is_plain(body) else _raise_truncated()
    return unpacked


def _unzstd(body: bytes) -> bytes:
    if not body.startswith(b"\x28\xb5\x2f\xfd"):
        return _keep(body)
    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            unpacked: bytes = reader.read(BODY_BYTES_MAX + 1)
        if len(unpacked) > BODY_BYTES_MAX:
            raise BodyError("record_too_long")
        inflater = zstandard.ZstdDecompressor().decompressobj()  # the reader does not tell a cut frame from a whole one
        inflater.decompress(body)
    except zstandard.ZstdError:
        raise BodyError("http_bad_encoding") from None
    return unpacked if inflater.eof else _raise_truncated()


def _raise_truncated() -> bytes:
    raise BodyError("http_truncated")


_CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "chunked": _join_chunks,
    "gzip": _ungzip,
    "x-gzip": _ungzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
