"""Byte streams of packed files: plain, .gz and .zst, each giving what came before the damage before it reports it."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol, cast

import zstandard

# Small on purpose: a piece is unpacked at once, and zstd may expand it some hundred times.
PIECE_BYTES = 16 << 10
_BUFFER_BYTES = 1 << 20

DAMAGE = (EOFError, OSError, zlib.error, zstandard.ZstdError)
"""What reading an unpacked stream raises."""


class Frame(Protocol):
    """The decompressor of one gzip member or zstd frame, as zlib and zstandard both have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def open_gzip_member() -> Frame:
    return zlib.decompressobj(wbits=31)  # 31: with gzip's header and checksum


def open_zstd_frame() -> Frame:
    # Windows up to 2 GB, so that files made with `zstd --long=31` are read too.
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


def is_packed(name: str) -> bool:
    """True when the file can only be read from its start."""
    return name.endswith((".gz", ".zst"))


def unpack(stream: BinaryIO, name: str) -> BinaryIO:
    """The unpacked stream, by the suffix of `name`; reading it raises one of DAMAGE."""
    if not is_packed(name):
        return stream
    open_frame = open_gzip_member if name.endswith(".gz") else open_zstd_frame
    return cast(BinaryIO, io.BufferedReader(FrameFile(stream, open_frame), _BUFFER_BYTES))


class FrameFile(io.RawIOBase):
    """The content of consecutive frames; EOFError when the last one is cut short.

    `zstandard.stream_reader` ends a cut frame silently, as if the file were whole, and gzip's own reader loses what it
    has unpacked of a buffer when it meets the end.
    """

    def __init__(self, stream: BinaryIO, open_frame: Callable[[], Frame]) -> None:
        super().__init__()
        self._stream = stream
        self._open_frame = open_frame
        self._packed = b""
        self._ready = memoryview(b"")
        self._frame: Frame | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        while not self._ready:
            if not self._packed and not self._refill():
                return 0
            self._advance()
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _refill(self) -> bool:
        self._packed = self._stream.read(PIECE_BYTES)
        if not self._packed and self._frame is not None:
            raise EOFError("the file is cut short")
        return bool(self._packed)

    def _advance(self) -> None:
        if self._frame is None:
            self._packed = self._packed.lstrip(b"\0")  # padding between and behind gzip members
            if not self._packed:
                return
            self._frame = self._open_frame()
        self._ready = memoryview(self._frame.decompress(self._packed))
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame = None
