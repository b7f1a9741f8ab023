"""How this process reaches the Hub: what it shares with the other processes that read it.

A value that travels with the units, so that every engine's workers get it; put to use once per process.
"""

from __future__ import annotations

from dataclasses import dataclass

from tamiz.sources.pace import Pace
from tamiz.sources.range_cache import RangeCache


@dataclass(frozen=True)
class HubAccess:
    """Where a machine's processes pace themselves, and where fetched ranges are kept; None: not at all."""

    pace_folder: str | None = None
    cache_folder: str | None = None
    cache_bytes: int = 0


_access = HubAccess()
_pace = Pace(None)
_cache: RangeCache | None = None


def use_access(access: HubAccess) -> None:
    """From now on this process reaches the Hub in this way."""
    global _access, _pace, _cache
    if access == _access:
        return
    _access = access
    _pace = Pace(access.pace_folder)
    _cache = RangeCache(access.cache_folder, access.cache_bytes) if access.cache_folder else None


def get_pace() -> Pace:
    """The pace of this process, shared or its own."""
    return _pace


def get_cache() -> RangeCache | None:
    """Where this process keeps what it fetches, if anywhere."""
    return _cache
