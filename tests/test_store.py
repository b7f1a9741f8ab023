"""What `store` promises: nothing half-written is ever visible, and what is visible is what was written."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.errors import StoreError
from tamiz.store import Folder, Output


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(tmp_path / "run") if request.param == "local" else Folder(f"memory:/{tmp_path}/run")


def list_everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_published_bytes_read_back_and_pass_their_check(folder: Folder) -> None:
    output = folder.publish_bytes("sift/a/part-00000.json", b"one\n")
    assert output == Output("sift/a/part-00000.json", 4, hashlib.sha256(b"one\n").hexdigest())
    assert folder.read_bytes(output.path) == b"one\n"
    with folder.open(output.path) as file:
        assert file.read(2) == b"on"
    assert folder.exists(output.path)
    assert not folder.exists("sift/b")
    folder.check(output)


def test_list_takes_a_string_prefix_and_is_sorted(folder: Folder) -> None:
    assert folder.list() == []
    for path in ["sift/b", "sift/a", "sift/sub/c", "sifted", "top"]:
        folder.publish_bytes(path, b"")
    assert folder.list("sift/") == ["sift/a", "sift/b", "sift/sub/c"]
    assert folder.list("sift") == ["sift/a", "sift/b", "sift/sub/c", "sifted"]
    assert folder.list("sift/s") == ["sift/sub/c"]
    folder.remove("sift/a")
    folder.remove("sift/a")
    assert folder.list() == ["sift/b", "sift/sub/c", "sifted", "top"]


def test_a_file_that_vanishes_hides_none_of_its_neighbours(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.publish_bytes("sift/x", b"")
    (tmp_path / "sift" / "gone").symlink_to(tmp_path / "nowhere")  # listed, but there is nothing to look at
    assert "sift/x" in folder.list("sift/")


def test_a_failed_publish_leaves_what_was_there(folder: Folder) -> None:
    folder.publish_bytes("x", b"old")

    def fail() -> NoReturn:
        with folder.publish("x") as file:
            file.write(b"new, but only ha")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert folder.read_bytes("x") == b"old"
    assert folder.list() == ["x"]
    assert folder.sweep() == 0


def test_a_later_publish_replaces(folder: Folder) -> None:
    folder.publish_bytes("x", b"old")
    folder.publish_bytes("x", b"new")
    assert folder.read_bytes("x") == b"new"


@pytest.mark.parametrize("content", [b"three", b"fou", b""])
def test_check_sees_other_content_and_other_sizes(folder: Folder, content: bytes) -> None:
    output = folder.publish_bytes("x", b"threx")
    folder.publish_bytes("x", content)
    with pytest.raises(StoreError, match="its record says"):
        folder.check(output)


def test_parquet_can_be_written_to_it_and_may_close_it(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(1000))})
    folder = Folder(tmp_path)
    with folder.publish("t.parquet") as file:
        pq.write_table(table, file)
        file.close()
    assert pq.read_table(tmp_path / "t.parquet").equals(table)
    folder.check(file.output)
    assert file.output.n_bytes == (tmp_path / "t.parquet").stat().st_size


@pytest.mark.parametrize("path", ["", "/etc/x", "../x", "a/../x", ".hidden", "a/.aside-x"])
def test_paths_stay_inside_and_leave_dot_names_alone(folder: Folder, path: str) -> None:
    with pytest.raises(StoreError, match="not a relative path"):
        folder.publish_bytes(path, b"")


def test_a_missing_file_is_named(folder: Folder) -> None:
    with pytest.raises(StoreError, match=r"gone\.json: no such file"):
        folder.read_bytes("gone.json")
    with pytest.raises(StoreError, match=r"gone\.json: no such file"):
        folder.open("gone.json")
    with pytest.raises(StoreError, match=r"gone\.json: no such file"):
        folder.check(Output("gone.json", 0, ""))


def test_it_can_be_pickled(folder: Folder) -> None:
    folder.publish_bytes("x", b"1")
    assert pickle.loads(pickle.dumps(folder)).read_bytes("x") == b"1"


# Errors of the disk are made by the operating system where it can make them (a full device, a file where a folder
# should be) and by a failing os.fsync or os.replace where only a real crash would.


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.open", lambda *_, **__: os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb"))
    with pytest.raises(StoreError, match=r"part-00000: disk full \(\d+ MB free\); free space, then run the same"):
        Folder(tmp_path).publish_bytes("part-00000", b"x" * 100)
    assert list_everything(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "disk full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission denied"), (errno.EIO, "")],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_on_the_way_in_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, words: str
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError, match=rf"cannot publish .*/x: .*{words}"):
        Folder(tmp_path).publish_bytes("x", b"data")
    assert list_everything(tmp_path) == []


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "sift").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot create .*sift/x"):
        Folder(tmp_path).publish_bytes("sift/x", b"")


KILLED_WRITER = """
import os, signal, sys
from tamiz.store import Folder
with Folder(sys.argv[1]).publish("x") as file:
    file.write(b"half" * 1_000_000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_only_what_sweep_removes(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.publish_bytes("x", b"old")
    done = subprocess.run([sys.executable, "-c", KILLED_WRITER, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert folder.list() == ["x"]
    assert folder.read_bytes("x") == b"old"
    assert len(list_everything(tmp_path)) == 2
    assert folder.sweep() == 1
    assert list_everything(tmp_path) == ["x"]


LOCK_HOLDER = """
import sys
from tamiz.store import Folder
with Folder(sys.argv[1]).lock("run"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_names_its_holder_and_dies_with_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run")
    command = [sys.executable, "-c", LOCK_HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=rf"process {holder.pid} on {os.uname().nodename}"), folder.lock("run"):
            pass
        holder.kill()
        holder.wait()
    with folder.lock("run"):
        assert folder.list() == []
    with folder.lock("run"):
        pass


READER = """
import sys
import pyarrow.parquet as pq
from tamiz.store import Folder
with Folder(sys.argv[1]).open("a.parquet") as file:
    table = pq.read_table(file)
"""


@pytest.mark.slow
def test_a_process_that_ends_right_after_reading_a_file_ends_well(tmp_path: Path) -> None:
    """With a file of Python's, pyarrow's threads made one in six of these processes abort at its end."""
    pq.write_table(pa.table({f"c{i}": range(1000) for i in range(12)}), tmp_path / "a.parquet", row_group_size=50)
    ends = [subprocess.run([sys.executable, "-c", READER, tmp_path], check=False).returncode for _ in range(30)]
    assert ends == [0] * 30
