"""Files read in ranges: the same bytes as from the file, what is fetched ahead, and how much is held."""

from __future__ import annotations

import io
import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.sources.ranges import RangeFile, merge_ranges

DATA = bytes(range(251)) * 40
N = len(DATA)
SPAN = st.tuples(st.integers(0, N), st.integers(0, N)).map(lambda pair: (min(pair), max(pair)))
SPANS = st.lists(SPAN, max_size=4)


class Server:
    """Fetches from DATA, and remembers what was asked for and by which thread."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.threads: list[str] = []

    def fetch(self, start: int, stop: int) -> bytes:
        self.asked.append((start, stop))
        self.threads.append(threading.current_thread().name)
        return DATA[start:stop]


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("keep"), SPANS, SPANS),
            st.tuples(st.just("follow"), SPANS),
            st.tuples(st.just("read"), st.integers(0, N + 9), st.integers(-1, N)),
            st.tuples(st.just("forward"), st.integers(1, 999)),
        ),
        max_size=30,
    )
)
def test_reads_are_those_of_the_file(steps: list[Any]) -> None:
    plain = io.BytesIO(DATA)
    with RangeFile(Server().fetch, N) as file:
        for kind, *values in steps:
            if kind == "keep":
                file.keep(*values)
            elif kind == "follow":
                file.follow(*values)
            elif kind == "read":
                assert file.seek(values[0]) == plain.seek(values[0])
                assert file.read(values[1]) == plain.read(values[1])
            else:
                assert file.read(*values) == plain.read(*values)
            assert file.tell() == plain.tell()


def test_the_next_ranges_are_fetched_by_a_thread_meanwhile() -> None:
    arrived, release = threading.Event(), threading.Event()

    def fetch(start: int, stop: int) -> bytes:
        if start == 500:
            arrived.set()
            assert release.wait(10)
        return DATA[start:stop]

    with RangeFile(fetch, N) as file:
        file.keep([(0, 100)], [(500, 600)])
        assert arrived.wait(10)  # while this reader goes on with what it has:
        assert file.read(100) == DATA[:100]
        release.set()
        file.keep([(500, 600)])
        file.seek(500)
        assert file.read(100) == DATA[500:600]


def test_each_kept_range_is_fetched_once_and_two_windows_are_held_at_most() -> None:
    server = Server()
    windows = [[(at, at + 100), (at + 110, at + 150)] for at in range(0, 3000, 200)]
    with RangeFile(server.fetch, N) as file:
        for window, following in zip(windows, [*windows[1:], []], strict=True):
            file.keep(window, following)
            for start, stop in window:
                file.seek(start)
                assert file.read(stop - start) == DATA[start:stop]
            n_held = len(file._kept) + (len(file._coming[0]) if file._coming else 0)
            assert n_held <= 2
    assert server.asked == [(at, at + 150) for at in range(0, 3000, 200)]
    assert server.threads.count(threading.current_thread().name) == 1


def test_forward_reads_fetch_one_piece_ahead_and_never_past_the_span() -> None:
    server = Server()
    with RangeFile(server.fetch, N) as file:
        file.follow([(0, 1000), (5000, 5300)])
        for start, stop in ((0, 1000), (5000, 5300)):
            for at in range(start, stop, 300):
                file.seek(at)
                assert file.read(min(300, stop - at)) == DATA[at : min(at + 300, stop)]
                assert len(file._ahead) <= 1
    assert sorted(server.asked) == [(0, 300), (300, 600), (600, 900), (900, 1000), (5000, 5300)]


def test_what_fails_in_the_background_is_raised_where_it_is_needed() -> None:
    def fetch(start: int, stop: int) -> bytes:
        if start >= 500:
            raise ValueError("lost")
        return DATA[start:stop]

    with RangeFile(fetch, N) as file:
        file.keep([(0, 100)], [(500, 600)])
        assert file.read(100) == DATA[:100]
        with pytest.raises(ValueError, match="lost"):
            file.keep([(500, 600)])


@given(spans=SPANS)
def test_merged_ranges_cover_the_ranges_in_order(spans: list[tuple[int, int]]) -> None:
    spread = [(start << 10, stop << 10) for start, stop in spans]
    merged = merge_ranges(spread)
    assert all(any(a <= start and stop <= b for a, b in merged) for start, stop in spread)
    assert all(before[1] + (256 << 10) <= after[0] for before, after in itertools.pairwise(merged))
