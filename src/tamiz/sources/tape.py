"""The unpacked bytes of an archive file from front to back, with the place in the file where each record begins.

A WARC file is packed record by record: each is a gzip member (or zstd frame) of its own, so that reading can begin at
any of them, and behind damage it can go on with the next.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from tamiz.sources import packing

_PIECE_BYTES = 256 << 10
_SEARCH_BYTES = 1 << 20
_PROBE_BYTES = 4 << 10  # of a frame, to see whether a record begins with it
_RECORD = re.compile(rb"(?<![^\n])WARC/[01]\.[0-9]{1,2}\r?\n[A-Za-z]")
_RECORD_BYTES = 16  # no shorter than what the pattern matches


@dataclass(frozen=True)
class Frames:
    """How a file is packed: the first bytes of each frame, and what opens one."""

    magic: bytes
    open_frame: Callable[[], packing.Frame]


GZIP = Frames(b"\x1f\x8b\x08", packing.open_gzip_member)
ZSTD = Frames(b"\x28\xb5\x2f\xfd", packing.open_zstd_frame)


class Tape:
    """Reads `stream` from the offset `start` on; `frames` is None for a plain file.

    `damage` is set when the bytes behind those at hand cannot be unpacked (warc_truncated: the file ends in a frame;
    warc_bad_packing), and `recover` goes on behind it. Raises OSError when the stream does.
    """

    def __init__(self, stream: BinaryIO, frames: Frames | None, start: int) -> None:
        self._stream = stream
        self._frames = frames
        self._go_to(start)

    def _go_to(self, offset: int) -> None:
        self._stream.seek(offset)
        self._data = bytearray()
        self._i = 0
        self._base = offset if self._frames is None else 0  # of _data[0], in unpacked bytes
        self._packed, self._packed_at = b"", offset
        self._frame: packing.Frame | None = None
        self._starts: list[tuple[int, int]] = []  # of frames: in unpacked bytes, and in the file
        self._last, self._n_in_last = -1, 0  # the frame in which a record began last, and how many did
        self.damage: str | None = None

    def mark(self) -> int:
        """The position of a record that begins here: its offset in the file.

        In a packed file, the offset of its frame plus the number of records that began in that frame before; at the
        edge of a damaged frame, the offset of that one.
        """
        if self._frames is None:
            return self.place
        offset = self._find_frame()
        self._last, self._n_in_last = offset, self._n_in_last + 1 if offset == self._last else 0
        return offset + self._n_in_last

    def _find_frame(self) -> int:
        here = self.place
        behind = [offset for start, offset in self._starts if start <= here]
        self._starts = self._starts[max(len(behind) - 1, 0) :]
        if not self._left() and self.damage:
            return self._starts[-1][1]
        return behind[-1]

    @property
    def is_at_frame(self) -> bool:
        """True when the next byte is the first of a frame."""
        return bool(self.peek(1)) and any(start == self.place for start, _ in self._starts)

    def peek(self, n: int) -> bytes:
        """The next `n` bytes, fewer when there are no more at hand."""
        self._fill(n)
        with memoryview(self._data) as view:  # a slice of a bytearray would be one more copy
            return bytes(view[self._i : self._i + n])

    def read(self, n: int) -> bytes:
        """As `peek`, and go behind them."""
        data = self.peek(n)
        self._i += len(data)
        return data

    def unread(self, n: int) -> None:
        """Go back by `n` bytes, no more than were read since the last `skip`."""
        self._i -= n

    def drop(self) -> None:
        """Forget what was read."""
        del self._data[: self._i]
        self._base += self._i
        self._i = 0

    def skip(self, n: int) -> int:
        """Go forward by `n` bytes without holding them; how many there were."""
        left = n
        while left and self._fill(1):
            step = min(left, self._left())
            self._i += step
            left -= step
            self.drop()
        return n - left

    def skip_breaks(self) -> int:
        """Go to the next byte that is no CR, LF or NUL; how many there were."""
        n = 0
        while self._fill(1):
            rest = bytes(self._data[self._i : self._i + 64])
            step = len(rest) - len(rest.lstrip(b"\r\n\0"))
            self._i += step
            n += step
            if step < len(rest):
                break
        return n

    def rewind(self, place: int) -> None:
        """Go back to a `place` told before, if the file is plain; what was unpacked and skipped is gone."""
        if self._frames is None:
            self._go_to(place)

    @property
    def place(self) -> int:
        """Where the tape is, in unpacked bytes."""
        return self._base + self._i

    def find_record(self) -> bool:
        """Go to the next place that looks like the beginning of a record; False at the end of what is at hand."""
        while self._fill(1):
            self._fill(_SEARCH_BYTES)
            places = [match.start()] if (match := _RECORD.search(self._data, self._i)) else []
            for start, _ in self._starts:  # a frame need not end with a line feed
                if start >= self.place and _RECORD.match(self._data[start - self._base :][:_RECORD_BYTES]):
                    places.append(start - self._base)
            if places:
                self._i = min(places)
                return True
            ahead = self._left()
            is_end = not self._fill(ahead + 1)
            self._i += ahead if is_end else max(ahead - _RECORD_BYTES, 0)
            del self._data[: self._i - 1]  # keep one: is it a line feed?
            self._base, self._i = self._base + self._i - 1, 1
        return False

    def recover(self) -> bool:
        """Behind damage, go to the next frame with which a record begins; False when there is none."""
        assert self._frames is not None
        offset = self._starts[-1][1] + 1
        while (found := self._find_magic(offset)) >= 0:
            if is_record_at(self._stream, self._frames, found):
                self._go_to(found)
                return True
            offset = found + 1
        return False

    def _find_magic(self, offset: int) -> int:
        assert self._frames is not None
        self._stream.seek(offset)
        window = b""
        while piece := self._stream.read(_SEARCH_BYTES):
            window += piece
            found = window.find(self._frames.magic)
            if found >= 0:
                return offset + found
            keep = len(self._frames.magic) - 1
            offset += len(window) - keep
            window = window[-keep:]
        return -1

    def _left(self) -> int:
        return len(self._data) - self._i

    def _fill(self, n: int) -> bool:
        """Have `n` bytes ahead, if there are so many."""
        while self._left() < n and self.damage is None:
            if self._frames is None:
                piece = self._stream.read(max(_PIECE_BYTES, n - self._left()))
                if not piece:
                    break
                self._data += piece
            elif not self._advance(self._frames):
                break
        return self._left() >= n

    def _advance(self, frames: Frames) -> bool:
        """Unpack some more; False at the end of the file."""
        if not self._packed:
            self._packed = self._stream.read(packing.PIECE_BYTES)
            if not self._packed:
                self.damage = None if self._frame is None else "warc_truncated"
                return False
        if self._frame is None:
            padding = len(self._packed) - len(self._packed.lstrip(b"\0"))
            self._packed, self._packed_at = self._packed[padding:], self._packed_at + padding
            if not self._packed:
                return True
            self._starts.append((self._base + len(self._data), self._packed_at))
            self._frame = frames.open_frame()
        try:
            self._data += self._frame.decompress(self._packed)
        except (zlib.error, zstandard.ZstdError):
            self.damage = "warc_bad_packing"
            return False
        rest = self._frame.unused_data if self._frame.eof else b""
        self._packed_at += len(self._packed) - len(rest)
        self._packed = rest
        if self._frame.eof:
            self._frame = None
        return True


def find_frames(stream: BinaryIO, name: str) -> Frames | None:
    """How a file is packed: by its first bytes, which a suffix may belie, else by the suffix of `name`."""
    stream.seek(0)
    head = stream.read(4)
    for frames in (GZIP, ZSTD):
        if head.startswith(frames.magic):
            return frames
    if head == b"WARC":
        return None
    return GZIP if name.endswith(".gz") else ZSTD if name.endswith(".zst") else None


def is_record_at(stream: BinaryIO, frames: Frames, offset: int) -> bool:
    """True when a frame begins at this offset of the file, and a record with it."""
    stream.seek(offset)
    packed = stream.read(_PROBE_BYTES)
    if not packed.startswith(frames.magic):
        return False
    try:
        return frames.open_frame().decompress(packed).lstrip(b"\r\n").startswith(b"WARC/")
    except (zlib.error, zstandard.ZstdError):
        return False
