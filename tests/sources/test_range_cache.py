"""The cache on disk: what was saved or nothing, whatever happens to the files, and never more than the quota."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.sources.range_cache import RangeCache


def measure(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != "total")


def make_older(folder: Path) -> None:
    """Everything was used a minute before it was: file systems may not tell two uses in a row apart."""
    for path in folder.iterdir():
        facts = path.stat()
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns - 60 * 10**9))


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path / "new" / "folder"), 10_000)
    assert cache.load("a#0-3") is None
    cache.save("a#0-3", b"abc")
    cache.save("empty", b"")
    again = RangeCache(str(tmp_path / "new" / "folder"), 10_000)
    assert (again.load("a#0-3"), again.load("empty"), again.load("a#0-4")) == (b"abc", b"", None)


@given(at=st.integers(0, 131), change=st.integers(1, 255), cut=st.booleans())
def test_damage_is_never_given_out(tmp_path_factory: pytest.TempPathFactory, at: int, change: int, cut: bool) -> None:
    folder = tmp_path_factory.mktemp("cache")
    cache = RangeCache(str(folder), 10_000)
    cache.save("key", bytes(100))
    (path,) = folder.glob("*.range")
    data = bytearray(path.read_bytes())
    data[at] ^= change
    path.write_bytes(data[:at] if cut else data)
    assert cache.load("key") is None
    assert not path.exists()
    cache.save("key", bytes(100))
    assert cache.load("key") == bytes(100)


def test_another_range_s_file_is_never_given_out(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 10_000)
    cache.save("a", b"x")
    (mine,) = tmp_path.glob("*.range")
    cache.save("b", b"y")
    (other,) = set(tmp_path.glob("*.range")) - {mine}
    other.replace(mine)
    assert cache.load("a") is None


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 1400)
    for name in "abcdefghij":
        cache.save(name, bytes(100))  # 132 on the disk
        make_older(tmp_path)
    assert cache.load("a") == bytes(100)  # used again
    make_older(tmp_path)
    cache.save("k", bytes(100))
    present = [name for name in "abcdefghijk" if cache.load(name) is not None]
    assert present == ["a", *"cdefghijk"]  # without b there are 1188 bytes, less than nine tenths of the quota
    assert measure(tmp_path) <= 1400


def test_what_is_larger_than_the_quota_is_not_kept(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 1000)
    cache.save("small", bytes(10))
    cache.save("large", bytes(1000))
    assert cache.load("large") is None
    assert cache.load("small") == bytes(10)


def test_a_folder_that_cannot_be_written_ends_saving_not_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = RangeCache(str(tmp_path / "file"), 1000)
    cache.save("a", b"x")
    cache.save("b", b"x")
    assert cache.load("a") is None
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"nothing more is kept in {tmp_path / 'file'}"
    ]


def test_a_killed_process_s_leftovers_count_and_go(tmp_path: Path) -> None:
    cache = RangeCache(str(tmp_path), 1000)
    (tmp_path / "1-dead.aside").write_bytes(bytes(500))
    os.utime(tmp_path / "1-dead.aside", (time.time() - 7200,) * 2)
    (tmp_path / "2-living.aside").write_bytes(bytes(500))
    (tmp_path / "total").write_text("1000")
    cache.save("a", bytes(300))
    assert sorted(path.name for path in tmp_path.glob("*.aside")) == ["2-living.aside"]
    assert cache.load("a") == bytes(300)
    assert measure(tmp_path) <= 1000


WORKER = """
import random, sys
from tamiz.sources.range_cache import RangeCache
cache, rng = RangeCache(sys.argv[1], 40_000), random.Random(int(sys.argv[2]))
for _ in range(400):
    n = rng.randrange(40)
    key, data = f"k{n}", bytes([n]) * (50 * n)
    found = cache.load(key)
    assert found in (None, data), (key, len(found))
    if found is None:
        cache.save(key, data)
assert not cache._is_broken
"""


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    rng = random.Random(7)
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(rng.random())[2:]]) for _ in range(3)
    ]
    largest = 0
    while any(process.poll() is None for process in processes):
        try:
            largest = max(largest, measure(tmp_path))
        except FileNotFoundError:
            continue
        time.sleep(0.01)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert 10_000 < largest <= 40_000 + 3 * 2_000  # a file counted under both its names
    assert measure(tmp_path) <= 40_000
    assert not list(tmp_path.glob("*.aside"))
