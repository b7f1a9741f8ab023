"""Byte streams of packed files: plain, .gz and .zst. Only what cannot be unpacked is missing from them."""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Callable
from typing import BinaryIO, NamedTuple, Protocol, cast

import zstandard

# Small on purpose: a piece is unpacked at once, gzip may expand it 1,000 times and zstd 32,000 times (128 MB).
PIECE_BYTES = 4 << 10
_BUFFER_BYTES = 1 << 20
_PROBE_BYTES = 4 << 10  # of what looks like a frame behind damage, to see whether it is one

_CORRUPT = (zlib.error, zstandard.ZstdError)


class Frame(Protocol):
    """The decompressor of one gzip member or zstd frame, as zlib and zstandard both have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Hole(NamedTuple):
    """A stretch of a packed file that cannot be unpacked; in the unpacked stream one line break stands for it.

    position     of that line break in the unpacked stream
    start, stop  of the stretch in the file, bytes [start, stop); equal where the file ends inside a frame
    reason       gz_corrupt, gz_truncated, zst_corrupt or zst_truncated
    """

    position: int
    start: int
    stop: int
    reason: str


class Packing(NamedTuple):
    """A format: its suffix, the first bytes of each of its frames, and what opens one."""

    suffix: str
    magic: bytes
    open_frame: Callable[[], Frame]


def open_gzip_member() -> Frame:
    return zlib.decompressobj(wbits=31)  # 31: with gzip's header and checksum


def open_zstd_frame() -> Frame:
    # Windows up to 2 GB, so that files made with `zstd --long=31` are read too.
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


_PACKINGS = (
    Packing("gz", b"\x1f\x8b\x08", open_gzip_member),
    Packing("zst", b"\x28\xb5\x2f\xfd", open_zstd_frame),
)


def is_packed(name: str) -> bool:
    """True when the file can only be read from its start."""
    return name.endswith((".gz", ".zst"))


def unpack(stream: BinaryIO, name: str) -> tuple[BinaryIO, deque[Hole]]:
    """The unpacked stream, by the suffix of `name`, and the holes met so far, which reading it adds to."""
    for packing in _PACKINGS:
        if name.endswith(f".{packing.suffix}"):
            file = FrameFile(stream, packing)
            return cast(BinaryIO, io.BufferedReader(file, _BUFFER_BYTES)), file.holes
    return stream, deque()


class FrameFile(io.RawIOBase):
    """The content of consecutive frames, going on behind damage with the next frame that can be opened.

    `zstandard.stream_reader` ends a cut frame silently, as if the file were whole, and gzip's own reader loses what it
    has unpacked of a buffer when it meets the end. Raises OSError when `stream` does.
    """

    def __init__(self, stream: BinaryIO, packing: Packing) -> None:
        super().__init__()
        self.holes: deque[Hole] = deque()
        self._stream = stream
        self._packing = packing
        self._n_read = 0  # bytes of the file
        self._n_given = 0  # bytes unpacked, a line break for each hole among them
        self._packed = b""
        self._ready = memoryview(b"")
        self._frame: Frame | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        while not self._ready:
            if self._packed or self._refill():
                self._advance()
            elif self._frame is not None:
                self._leave_hole(self._n_read, self._n_read, "truncated")
            else:
                return 0
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        self._n_given += n
        return n

    def _refill(self, n_bytes: int = PIECE_BYTES) -> bool:
        piece = self._stream.read(n_bytes)
        self._n_read += len(piece)
        self._packed += piece
        return bool(piece)

    def _advance(self) -> None:
        if self._frame is None:
            self._packed = self._packed.lstrip(b"\0")  # padding between and behind gzip members
            if not self._packed:
                return
            self._frame = self._packing.open_frame()
        try:
            self._ready = memoryview(self._frame.decompress(self._packed))
        except _CORRUPT:
            start = self._n_read - len(self._packed)
            self._find_frame()
            self._leave_hole(start, self._n_read - len(self._packed), "corrupt")
            return
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame = None

    def _leave_hole(self, start: int, stop: int, how: str) -> None:
        self.holes.append(Hole(self._n_given, start, stop, f"{self._packing.suffix}_{how}"))
        self._frame = None
        self._ready = memoryview(b"\n")

    def _find_frame(self) -> None:
        """Go to the next frame behind the first byte at hand, or to the end of the file."""
        magic = self._packing.magic
        self._packed = self._packed[1:]
        while True:
            found = self._packed.find(magic)
            self._packed = self._packed[found if found >= 0 else -len(magic) + 1 :]
            if found < 0:
                if not self._refill():
                    self._packed = b""
                    return
                continue
            while len(self._packed) < _PROBE_BYTES and self._refill():
                pass
            if self._is_frame(self._packed[:_PROBE_BYTES]):
                return
            self._packed = self._packed[1:]

    def _is_frame(self, packed: bytes) -> bool:
        try:
            self._packing.open_frame().decompress(packed)
        except _CORRUPT:
            return False
        return True
