from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tamiz.kernels import name_kernel_folder
from tests.hub_server import HubServer

os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(Path.home() / ".cache" / "tamiz")))

# No deadline: the first example of a kernel compiles it.
settings.register_profile("tamiz", deadline=None)
settings.load_profile("tamiz")


@pytest.fixture(scope="session")
def running_hub() -> Iterator[HubServer]:
    with HubServer() as hub:
        yield hub


@pytest.fixture
def hub(running_hub: HubServer) -> HubServer:
    """The Hub on loopback, with nothing on it."""
    running_hub.forget()
    return running_hub


@pytest.fixture(scope="session")
def cyber(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of configs/cyber.yaml over the sample, with one worker."""
    from tests.run.test_build import build

    run_dir = tmp_path_factory.mktemp("runs") / "cyber"
    built = build(run_dir, "--workers", "1")
    assert built.returncode == 0, built.stderr
    assert "SOURCE=fineweb-edu" in built.stdout.splitlines()[-1]
    return run_dir
