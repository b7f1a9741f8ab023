"""A seekable file over a server that answers byte ranges: few, large requests for exactly the bytes that are needed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable

# Two ranges nearer than this are fetched as one: the time a request takes (about 0.1 s) moves more than this.
_HOLE_BYTES = 256 << 10


class RangeFile(io.RawIOBase):
    """Reads through `fetch(start, stop) -> bytes`; what `keep` fetched before is served from memory."""

    def __init__(self, fetch: Callable[[int, int], bytes], n_bytes: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._n_bytes = n_bytes
        self._position = 0
        self._kept: list[tuple[int, bytes]] = []

    def keep(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch these ranges [start, stop), near ones together, and forget those kept before."""
        self._kept = []
        self._kept = [(start, self._fetch(start, stop)) for start, stop in merge_ranges(ranges)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._n_bytes}[whence]
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        start = self._position
        stop = self._n_bytes if size is None or size < 0 else min(start + size, self._n_bytes)
        if start >= stop:
            return b""
        data = self._find_kept(start, stop)
        if data is None:
            data = self._fetch(start, stop)
        self._position = stop
        return data

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _find_kept(self, start: int, stop: int) -> bytes | None:
        for first, data in self._kept:
            if first <= start and stop <= first + len(data):
                return data[start - first : stop - first]
        return None


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges [start, stop) sorted, those less than `_HOLE_BYTES` apart made one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start - merged[-1][1] < _HOLE_BYTES:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
