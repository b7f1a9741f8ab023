"""An S3 server (moto's) on 127.0.0.1, and a way to put a failing proxy before it."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "bucket"
SECRET = "s3cr3t-4242-never-shown"
NEEDED = ("ray", "s3fs", "moto")
OBJECT_STORE_BYTES = 80 << 20
NODE = {"num_cpus": 1, "memory": 3 << 30, "object_store_memory": OBJECT_STORE_BYTES}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def serve(*command: str, port: int) -> Iterator[None]:
    """A server process that listens on `port`."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, f"{command} ended at once"
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Store:
    """An S3 server: its port, and what a process needs in its environment to reach it."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "AKIAFAKEFAKEFAKE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """The server; its environment is this process's too."""
    port = find_port()
    with (
        serve("-m", "moto.server", "-H", "127.0.0.1", "-p", str(port), port=port),
        pytest.MonkeyPatch.context() as patch,
    ):
        store = Store(port)
        for name, value in store.environment.items():
            patch.setenv(name, value)
        patch.delenv("AWS_PROFILE", raising=False)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        yield store


@contextlib.contextmanager
def put_proxy_before(store: Store, share: float, seed: int, log: Path) -> Iterator[Store]:
    """The same store through a proxy that fails `share` of the requests and logs each fault."""
    port = find_port()
    log.touch()
    command = ["-m", "tests.cluster.fault_proxy", str(port), str(store.port), str(share), str(seed), str(log)]
    with serve(*command, port=port):
        yield Store(port)


def make_environment(store: Store) -> dict[str, str]:
    """For a command: this process's environment with the store's over it."""
    return {**os.environ, **store.environment}


class Nodes:
    """A Ray cluster of three nodes on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        self.others = [self.cluster.add_node(**NODE) for _ in range(2)]

    @property
    def address(self) -> str:
        address: str = self.cluster.address
        return address

    def kill_one(self) -> None:
        """Take a node away, workers and all, as a spot machine goes."""
        self.cluster.remove_node(self.others.pop(), allow_graceful=False)

    def refill(self) -> None:
        while len(self.others) < 2:
            self.others.append(self.cluster.add_node(**NODE))

    def close(self) -> None:
        self.cluster.shutdown()


@pytest.fixture(scope="session")
def nodes(store: Store) -> Iterator[Nodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # Ray leaves its log files to the garbage collector
            nodes = Nodes()
        yield nodes
        nodes.close()
