"""A client of the tests' Hub, one for all of them: starting it takes a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub_server import HubClient, HubServer


@pytest.fixture(scope="session")
def client(running_hub: HubServer) -> Iterator[HubClient]:
    with HubClient(running_hub.endpoint) as client:
        yield client
