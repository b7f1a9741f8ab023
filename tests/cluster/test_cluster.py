"""The same corpus, byte for byte, on three nodes over S3, whatever dies meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tamiz.store import Folder
from tests.cluster.conftest import BUCKET, ROOT, SECRET, Nodes, Store, make_environment, put_proxy_before
from tests.cluster.drivers import TAMIZ, check_books, finish, hash_corpus, use_ray
from tests.crawls import write_crawl

FINEWEB_LIKE = ROOT.parent / "shared" / "data" / "fineweb-like"
N_FILES = 6


@pytest.fixture(scope="session")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parquet files: the sample's texts, each file with its words shuffled within sentences in its own way."""
    folder = tmp_path_factory.mktemp("crawl")
    write_crawl(folder, (number % 4 for number in range(N_FILES)))  # the last two files are copies of the first two
    return folder


@pytest.fixture(scope="session")
def crawl_url(crawl: Path, store: Store) -> str:
    folder = Folder(f"s3://{BUCKET}/crawl")
    for path in sorted(crawl.iterdir()):
        folder.publish_bytes(path.name, path.read_bytes())
    return folder.url


def make_command(source: str, run_dir: str, *options: str) -> list[str]:
    paths = json.dumps([f"{source}/*.parquet"])
    return [
        str(TAMIZ), "build", "configs/fineweb-raw.yaml", "--run-dir", run_dir, "--set", f"sources.mine.paths={paths}",
        "--set", "pack.shard_tokens=60000", "--set", "pack.sequence_length=1024", "--set", "pack.holdout=0.05",
        "--set", "rules={gopher_quality: {}}", *options,
    ]  # fmt: skip


@pytest.fixture(scope="session")
def local(crawl_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The corpus that the local engine makes in a local folder."""
    run_dir = str(tmp_path_factory.mktemp("runs") / "local")
    finish(make_command(crawl_url, run_dir, "--workers", "1"), dict(os.environ))
    hashes = hash_corpus(run_dir)
    assert {"corpus/train-00001.parquet", "corpus/validation-00000.parquet", "corpus/manifest.json"} <= hashes.keys()
    return hashes


@contextlib.contextmanager
def start(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_three_nodes_over_s3_make_the_bytes_of_one_machine(crawl_url: str, local: dict[str, str], nodes: Nodes) -> None:
    run_dir = f"s3://{BUCKET}/runs/whole"
    built = finish(make_command(crawl_url, run_dir, *use_ray(nodes)), dict(os.environ))
    assert hash_corpus(run_dir) == local
    check_books(run_dir)
    assert f"report  {run_dir}/report/index.html" in built.stdout
    status = finish([str(TAMIZ), "status", run_dir], dict(os.environ))
    assert "the corpus is finished" in status.stdout
    assert "would run again" not in status.stdout
    report = finish([str(TAMIZ), "report", run_dir], dict(os.environ))
    assert "documents" in report.stdout
    again = finish(make_command(crawl_url, run_dir, *use_ray(nodes)), dict(os.environ))
    assert f"sift: {N_FILES} of {N_FILES} splits were done before" in again.stderr


@pytest.mark.data
@pytest.mark.skipif(not FINEWEB_LIKE.is_dir(), reason="the shared reference data is absent")
def test_fineweb_like_has_the_bytes_of_one_machine(nodes: Nodes, tmp_path: Path) -> None:
    paths = json.dumps([f"{FINEWEB_LIKE}/data/**/*.parquet"])
    common = ["configs/fineweb-raw.yaml", "--set", f"sources.mine.paths={paths}", "--set", "pack.shard_tokens=500000"]
    run_dir = f"s3://{BUCKET}/runs/fineweb-like"
    finish([str(TAMIZ), "build", *common, "--run-dir", str(tmp_path / "run"), "--workers", "1"], dict(os.environ))
    finish([str(TAMIZ), "build", *common, "--run-dir", run_dir, *use_ray(nodes)], dict(os.environ))
    assert hash_corpus(run_dir) == hash_corpus(str(tmp_path / "run"))
    assert len(hash_corpus(run_dir)) > 3
    check_books(run_dir)


def test_files_have_the_same_names_behind_a_url_as_in_a_folder(crawl: Path, crawl_url: str) -> None:
    from tamiz.sources import ParquetSource, list_splits, read_split

    batches = []
    for place in (str(crawl), crawl_url, f"{crawl_url}/*.parquet", f"{crawl}/*.parquet"):
        spec = ParquetSource("mine", (place,))
        chunks = [chunk for split in list_splits(spec).splits for chunk in read_split(split, spec)]
        batches.append(pa.Table.from_batches([chunk.batch for chunk in chunks]))
    assert all(batch.equals(batches[0]) for batch in batches)
    assert batches[0].column("origin")[0].as_py() == "0.parquet#0"


def count_done(run_dir: str, stage: str) -> int:
    return sum(path.endswith(".done.json") for path in Folder(run_dir).list(f"{stage}/"))


def wait_for(driver: subprocess.Popen[str], run_dir: str, stage: str, n_done: int) -> None:
    """Until `n_done` units of the stage have their record."""
    while count_done(run_dir, stage) < n_done:
        assert driver.poll() is None, driver.stderr.read() if driver.stderr else ""
        time.sleep(0.05)


def find_workers() -> list[int]:
    """Processes that work a Ray task now, at least one; waits for it."""
    for _ in range(6000):
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if (entry / "cmdline").read_bytes().startswith(b"ray::_work_unit"):
                    found.append(int(entry.name))
        if found:
            return found
        time.sleep(0.01)
    pytest.fail("no worker works a task")


def pause_workers() -> list[int]:
    """Stop the processes that work a Ray task, at least one."""
    workers = find_workers()
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    return workers


def go_on(workers: list[int]) -> None:
    """Of those that are still there."""
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)


def drain(driver: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = driver.communicate(timeout=900)
    return driver.returncode, errors


def test_a_worker_is_killed(crawl_url: str, local: dict[str, str], nodes: Nodes) -> None:
    run_dir = f"s3://{BUCKET}/runs/worker"
    nodes.refill()
    with start(make_command(crawl_url, run_dir, *use_ray(nodes)), dict(os.environ)) as driver:
        wait_for(driver, run_dir, "sift", 1)
        os.kill(find_workers()[0], signal.SIGKILL)
        code, errors = drain(driver)
    assert code == 0, errors
    assert hash_corpus(run_dir) == local
    check_books(run_dir)


@pytest.mark.parametrize("stage", ["sift", "dedup", "pack"])
def test_a_node_is_lost(crawl_url: str, local: dict[str, str], nodes: Nodes, stage: str) -> None:
    nodes.refill()
    run_dir = f"s3://{BUCKET}/runs/node-{stage}"
    with start(make_command(crawl_url, run_dir, *use_ray(nodes)), dict(os.environ)) as driver:
        wait_for(driver, run_dir, stage, 1)
        nodes.kill_one()
        code, errors = drain(driver)
    nodes.refill()
    assert code == 0, errors
    assert hash_corpus(run_dir) == local
    check_books(run_dir)


def test_the_driver_is_killed_and_started_again(crawl_url: str, local: dict[str, str], nodes: Nodes) -> None:
    run_dir = f"s3://{BUCKET}/runs/driver"
    command = make_command(crawl_url, run_dir, *use_ray(nodes))
    for stage, n_done in (("sift", 2), ("tokens", 2)):
        with start(command, dict(os.environ)) as driver:
            wait_for(driver, run_dir, stage, n_done)
            driver.kill()
            driver.wait()
    again = finish(command, dict(os.environ))
    assert "looking whether it is alive" in again.stderr
    assert "were done before" in again.stderr
    assert hash_corpus(run_dir) == local
    check_books(run_dir)


def test_an_interrupted_driver_says_so_and_goes_on(crawl_url: str, local: dict[str, str], nodes: Nodes) -> None:
    run_dir = f"s3://{BUCKET}/runs/interrupted"
    command = make_command(crawl_url, run_dir, *use_ray(nodes))
    with start(command, dict(os.environ)) as driver:
        wait_for(driver, run_dir, "sift", 1)
        workers = pause_workers()  # so that the driver waits for them when the signal comes
        time.sleep(1)
        driver.terminate()
        code, errors = drain(driver)
        go_on(workers)
    assert code == 130, errors
    assert "the same command goes on" in errors
    finish(command, dict(os.environ))
    assert hash_corpus(run_dir) == local


def test_a_second_driver_is_refused_while_the_first_lives(crawl_url: str, local: dict[str, str], nodes: Nodes) -> None:
    run_dir = f"s3://{BUCKET}/runs/two"
    command = make_command(crawl_url, run_dir, *use_ray(nodes))
    with start(command, dict(os.environ)) as first:
        wait_for(first, run_dir, "sift", 1)
        workers = pause_workers()  # so that the first is not done before the second has looked
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        go_on(workers)
        code, errors = drain(first)
    assert second.returncode == 1
    assert f"in use by process {first.pid} on {os.uname().nodename}" in second.stderr
    assert code == 0, errors
    assert hash_corpus(run_dir) == local
    check_books(run_dir)


def test_a_driver_that_was_paused_gives_way_to_the_one_that_took_over(
    crawl_url: str, local: dict[str, str], nodes: Nodes
) -> None:
    run_dir = f"s3://{BUCKET}/runs/paused"
    command = make_command(crawl_url, run_dir, *use_ray(nodes))
    with start(command, dict(os.environ)) as first:
        wait_for(first, run_dir, "sift", 1)
        first.send_signal(signal.SIGSTOP)
        # When the lease has run out; on this machine, for the paused driver still has the cluster's cores.
        finish(make_command(crawl_url, run_dir, "--workers", "1"), dict(os.environ))
        first.send_signal(signal.SIGCONT)
        code, errors = drain(first)
    assert code == 1, errors
    assert "did not renew its lease" in errors or "was taken over" in errors
    assert hash_corpus(run_dir) == local
    check_books(run_dir)


def test_a_store_that_fails_every_twentieth_request(
    crawl_url: str, local: dict[str, str], store: Store, tmp_path: Path
) -> None:
    """The whole run, sources too, with one Ray node of its own behind the failing proxy."""
    run_dir = f"s3://{BUCKET}/runs/faults"
    log = tmp_path / "faults"
    with put_proxy_before(store, 0.05, 5, log) as faulty:
        command = make_command(crawl_url, run_dir, "--engine", "ray", "--address", "local", "--workers", "2")
        finish(command, make_environment(faulty))
    kinds = set(log.read_text().split())
    assert {"500", "503", "reset", "lost", "slow", "cut", "torn"} <= kinds
    assert hash_corpus(run_dir) == local
    check_books(run_dir)
    folder = Folder(run_dir)
    uploads = folder.fs.list_multipart_uploads(BUCKET)
    assert not uploads


def test_no_secret_is_written_or_said(crawl_url: str, tmp_path: Path, nodes: Nodes) -> None:
    """The key is in the environment of every process; it must be in no file, message or record."""
    said = ""
    for run_dir in (f"s3://{BUCKET}/runs/secret", str(tmp_path / "run")):
        for command in (["build"], ["status"], ["report"], ["verify"], ["plan"]):
            whole = make_command(crawl_url, run_dir, "--engine", "ray", "--address", nodes.address)
            if command == ["plan"]:
                whole = [str(TAMIZ), "plan", *whole[2:-4]]
            elif command != ["build"]:
                whole = [str(TAMIZ), *command, run_dir]
            done = finish(whole, dict(os.environ))
            said += done.stdout + done.stderr
        folder = Folder(run_dir)
        said += "".join(data.decode("latin-1") for data in folder.read_many(folder.list()))
    bad = f"s3://KEY:{SECRET}@{BUCKET}/crawl"
    for arguments in (make_command(bad, str(tmp_path / "x")), make_command(crawl_url, f"{bad}/run")):
        refused = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "credentials in it" in refused.stderr
        said += refused.stdout + refused.stderr
    wrong = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    failed = subprocess.run(
        make_command(crawl_url, f"s3://{BUCKET}/runs/nowhere"), cwd=ROOT, env=wrong, capture_output=True, text=True
    )
    assert failed.returncode == 1
    said += failed.stdout + failed.stderr
    assert SECRET not in said
    assert "AKIAFAKEFAKEFAKE" not in said
