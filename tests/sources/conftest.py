"""The Hub of these tests and a client of it, one each for all of them: starting a client takes a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub_server import HubClient, HubServer


@pytest.fixture(scope="session")
def running_hub() -> Iterator[HubServer]:
    with HubServer() as hub:
        yield hub


@pytest.fixture
def hub(running_hub: HubServer) -> HubServer:
    running_hub.forget()
    return running_hub


@pytest.fixture(scope="session")
def client(running_hub: HubServer) -> Iterator[HubClient]:
    with HubClient(running_hub.endpoint) as client:
        yield client
