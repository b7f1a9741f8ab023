"""A worker for what may end its process: the plan has the footers of Parquet files read there.

pyarrow 26 ends its process at one in a thousand flipped bits of a footer; the driver must outlive them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tamiz.errors import DamageError, WorkerDiedError
from tamiz.run.engine import Report
from tamiz.run.local import LocalEngine
from tamiz.sources.access import HubAccess, use_access

T = TypeVar("T")
_FAULTS = {-number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)}


@dataclass(frozen=True)
class _Call:
    """The unit: a function of module level with its arguments, and how its process reaches the Hub."""

    name: str
    access: HubAccess
    function: Callable[..., Any]
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        return self.name


class Isolation:
    """Calls functions in one worker process, started at the first call; see sources.listing.Call."""

    def __init__(self, access: HubAccess) -> None:
        self._access = access
        self._engine = LocalEngine(1)

    def __call__(self, name: str, function: Callable[..., T], *arguments: object) -> T:
        call = _Call(name, self._access, function, arguments)
        try:
            ended: list[tuple[_Call, T]] = list(self._engine.run(_answer, [call], lambda *_: None))
        except WorkerDiedError as error:
            if not _FAULTS.issuperset(error.exit_codes):  # killed from outside, or never begun: not the file's fault
                raise
            raise DamageError(f"{name}: ends every process that reads it; restore it or leave it out") from None
        return ended[0][1]

    def close(self) -> None:
        """End the worker."""
        self._engine.close()


def _answer(call: _Call, report: Report) -> Any:
    use_access(call.access)
    return call.function(*call.arguments)
