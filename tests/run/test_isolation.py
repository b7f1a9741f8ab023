from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from tamiz.errors import ConfigError, DamageError, WorkerDiedError
from tamiz.run.isolation import Isolation
from tamiz.sources.access import HubAccess


@pytest.fixture
def call() -> Iterator[Isolation]:
    with closing(Isolation(HubAccess())) as call:
        yield call


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def leave() -> None:
    os._exit(1)


def refuse() -> None:
    raise ConfigError("no such column")


def tell() -> int:
    return os.getpid()


def test_one_other_process_answers_all_calls(call: Isolation) -> None:
    first = call("a.parquet", tell)
    assert first == call("b.parquet", tell) != os.getpid()


def test_errors_come_as_they_are(call: Isolation) -> None:
    with pytest.raises(ConfigError, match="no such column"):
        call("a.parquet", refuse)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_what_ends_every_process_by_a_fault_is_damaged(call: Isolation, number: int) -> None:
    with pytest.raises(DamageError, match=r"a\.parquet: ends every process that reads it"):
        call("a.parquet", die, number)
    assert call("b.parquet", tell)


def test_a_process_killed_from_outside_says_nothing_of_the_file(call: Isolation) -> None:
    """As the kernel does when memory is short: the file may be in order, so it must not be quarantined."""
    with pytest.raises(WorkerDiedError, match=r"a\.parquet: its worker died 3 times"):
        call("a.parquet", die, signal.SIGKILL)
    with pytest.raises(WorkerDiedError):
        call("a.parquet", leave)
