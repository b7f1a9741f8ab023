"""What `store` promises, over S3: whole files or none, proven uploads, one driver, no secret anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from tamiz import lease, objects
from tamiz.errors import ConfigError, StoreError
from tamiz.store import Folder
from tests.cluster.conftest import BUCKET, ROOT, Store, make_environment, put_proxy_before


@pytest.fixture
def folder(store: Store, request: pytest.FixtureRequest) -> Folder:
    return Folder(f"s3://{BUCKET}/{request.node.name.replace('[', '-').replace(']', '')}")


def test_published_files_read_back_list_and_pass_their_check(folder: Folder) -> None:
    data = os.urandom(3_000_000)
    outputs = [folder.publish_bytes(f"sift/a/part-{i}", data[i:]) for i in range(3)]
    assert folder.list("sift/") == ["sift/a/part-0", "sift/a/part-1", "sift/a/part-2"]
    assert folder.list_sizes("sift/a/part-1") == {"sift/a/part-1": 2_999_999}
    assert list(folder.read_many(folder.list())) == [data, data[1:], data[2:]]
    with folder.open("sift/a/part-0") as file:
        file.seek(1_000_000)
        assert file.read(10) == data[1_000_000:1_000_010]
    for output in outputs:
        folder.check(output)
    folder.publish_bytes("sift/a/part-0", b"new")
    assert folder.read_bytes("sift/a/part-0") == b"new"
    folder.remove("sift/a/part-0")
    assert not folder.exists("sift/a/part-0")
    with pytest.raises(StoreError, match=r"part-0: no such file"):
        folder.read_bytes("sift/a/part-0")


def test_a_large_file_goes_in_parts_and_is_proven_by_their_md5(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "hash_object", lambda *_: pytest.fail("read back, though the MD5 was right"))
    with folder.publish("large") as file:
        for _ in range(105):
            file.write(os.urandom(1 << 20))
    assert folder.list_sizes() == {"large": 105 << 20}


def test_without_an_md5_it_is_read_back(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_make_etag", lambda *_: "of an encrypted object")
    folder.publish_bytes("x", b"abc")
    monkeypatch.setattr(objects, "hash_object", lambda *_: "another")
    monkeypatch.setattr(objects, "pause", lambda _: None)
    with pytest.raises(StoreError, match="another size or checksum"):
        folder.publish_bytes("x", b"abc")


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


FAULTY = """
import hashlib, os, sys
from tamiz.store import Folder
folder = Folder(sys.argv[1])
for i in range(60):
    data = hashlib.sha512(str(i).encode()).digest() * 4000
    output = folder.publish_bytes(f"x/{i}", data)
    folder.check(output)
    assert folder.read_bytes(f"x/{i}") == data
with folder.publish("large") as file:
    for _ in range(105):
        file.write(bytes(1 << 20))
assert sorted(folder.list("x/")) == sorted(f"x/{i}" for i in range(60))
"""


def test_a_store_that_fails_a_fifth_of_the_requests_is_insisted_on(
    folder: Folder, store: Store, tmp_path: Path
) -> None:
    with put_proxy_before(store, 0.2, 1, tmp_path / "faults") as faulty:
        command = [sys.executable, "-c", FAULTY, folder.url]
        subprocess.run(command, env=make_environment(faulty), cwd=ROOT, check=True, timeout=300)
    assert {"500", "503", "reset", "lost", "slow", "cut", "torn"} == set((tmp_path / "faults").read_text().split())
    assert len(folder.list("x/")) == 60


HOLDER = """
import sys, time
from tamiz import lease
lease.LEASE_SECONDS = 3.0
from tamiz.store import Folder
with Folder(sys.argv[1]).lock("build") as hold:
    print("held", flush=True)
    sys.stdin.readline()
    hold.check()
"""


def start_holder(folder: Folder) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, folder.url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_a_live_lease_is_refused_and_a_dead_one_runs_out(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.0)
    with start_holder(folder) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=rf"in use by process {holder.pid} on {os.uname().nodename}"):
            folder.lock("build").__enter__()
        holder.kill()
        holder.wait()
    started = time.monotonic()
    with folder.lock("build") as hold:
        assert time.monotonic() - started < 10
        hold.check()
        assert folder.list() == []  # leases are not files of the run
    assert not [path for path in folder.fs.find(folder.root) if ".lease" in path]


def test_only_one_of_many_gets_the_lease(folder: Folder) -> None:
    holders = [start_holder(folder) for _ in range(4)]
    try:
        while sum(holder.poll() is None for holder in holders) > 1:
            time.sleep(0.1)
        [holder] = [holder for holder in holders if holder.poll() is None]
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        time.sleep(2)
        assert holder.poll() is None
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_a_holder_that_was_stopped_learns_that_it_lost(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.0)
    with start_holder(folder) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        with folder.lock("build"):
            holder.send_signal(signal.SIGCONT)
            time.sleep(2.5)
            holder.communicate("\n")
            assert holder.returncode == 1


@pytest.mark.parametrize(
    "url",
    ["s3://KEY:pw-hidden@bucket/x", "s3://bucket/x?X-Amz-Signature=pw-hidden", "https://h/x?token=pw-hidden"],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="credentials in it") as refused:
        Folder(url)
    assert "pw-hidden" not in str(refused.value)


def test_an_unknown_bucket_or_wrong_rights_are_told(store: Store) -> None:
    with pytest.raises(StoreError, match="cannot publish"):
        Folder("s3://no-such-bucket/x").publish_bytes("y", b"")
