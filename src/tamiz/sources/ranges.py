"""A seekable file over a server that answers byte ranges: few, large requests for exactly the bytes that are needed.

What will be needed next is fetched by a thread while the reader works on what it has.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

# Two ranges nearer than this are fetched as one: the time a request takes (about 0.1 s) moves more than this.
_HOLE_BYTES = 256 << 10

Ranges = list[tuple[int, int]]
_Kept = list[tuple[int, bytes]]


class RangeFile(io.RawIOBase):
    """Reads through `fetch(start, stop) -> bytes`, which threads may call.

    Either the reader says which ranges it needs now and next (`keep`), or where it will read forward (`follow`). At
    most the ranges of two calls of `keep` are in memory, or two pieces for each span of `follow`.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], n_bytes: int) -> None:
        super().__init__()
        self._fetch = fetch
        self._n_bytes = n_bytes
        self._position = 0
        self._kept: _Kept = []
        self._coming: tuple[Ranges, Future[_Kept]] | None = None
        self._spans: Ranges = []
        self._ahead: dict[int, tuple[int, Future[bytes]]] = {}  # start of a piece -> its stop and bytes
        self._pool: ThreadPoolExecutor | None = None

    def keep(self, ranges: Iterable[tuple[int, int]], following: Iterable[tuple[int, int]] = ()) -> None:
        """Have these ranges [start, stop) in memory, near ones fetched together, and forget those kept before.

        `following`: the ranges of the next call, fetched meanwhile.
        """
        self._spans = []
        self._ahead.clear()
        self._kept = []
        wanted, coming = merge_ranges(ranges), self._coming
        self._coming = None
        self._kept = coming[1].result() if coming and coming[0] == wanted else self._fetch_all(wanted)
        if behind := merge_ranges(following):
            self._coming = (behind, self._start().submit(self._fetch_all, behind))

    def follow(self, spans: Iterable[tuple[int, int]]) -> None:
        """Reads will go forward in each of these spans: after a read the next piece of its size is fetched."""
        self._kept = []
        self._spans = sorted(spans)
        self._ahead.clear()

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
            data = self._read_forward(start, stop)
        self._position = stop
        return data

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._kept, self._coming = [], None
        self._ahead.clear()
        super().close()

    def _find_kept(self, start: int, stop: int) -> bytes | None:
        for first, data in self._kept:
            if first <= start and stop <= first + len(data):
                return data[start - first : stop - first]
        return None

    def _read_forward(self, start: int, stop: int) -> bytes:
        end, coming = self._ahead.pop(start, (0, None))
        i = bisect.bisect_right(self._spans, (start, self._n_bytes)) - 1
        span_end = self._spans[i][1] if i >= 0 else 0
        if (following := min(2 * stop - start, span_end)) > stop:
            self._ahead[stop] = following, self._start().submit(self._fetch, stop, following)
        if coming is None:
            return self._fetch(start, stop)
        data = coming.result()
        return data[: stop - start] if end >= stop else data + self._fetch(end, stop)

    def _fetch_all(self, ranges: Ranges) -> _Kept:
        return [(start, self._fetch(start, stop)) for start, stop in ranges]

    def _start(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "fetch-ahead")
        return self._pool


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The ranges [start, stop) sorted, those less than `_HOLE_BYTES` apart made one."""
    merged: Ranges = []
    for start, stop in sorted(ranges):
        if merged and start - merged[-1][1] < _HOLE_BYTES:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
