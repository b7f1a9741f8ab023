"""Done records: the only proof that a unit is complete.

A unit publishes its outputs, then `<unit>.done.json` with their sizes and checksums, its tally and what it produced.
Nothing is skipped because a file exists: without its record, or with an output of another size, a unit runs again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tamiz.errors import StoreError
from tamiz.run.fingerprint import dump_canonical
from tamiz.store import Folder, Output
from tamiz.tally import Tally

_SUFFIX = ".done.json"


@dataclass(frozen=True)
class Done:
    """What a unit published: outputs by role (`kept`, `verdicts`, ...), counters, and small facts for later stages.

    `cpu_seconds`: of all threads of its worker; `is_first`: the worker's first unit of this stage, so that they include
    loading kernels or tokenizer. Both differ from run to run, and nothing but a prediction reads them.
    """

    unit: str
    outputs: Mapping[str, Output]
    tally: Tally
    facts: Mapping[str, Any] = field(default_factory=dict)
    cpu_seconds: float = field(default=0.0, compare=False)
    is_first: bool = field(default=False, compare=False)


class _Meter:
    """CPU seconds of this process since the last record, and the places it has recorded in."""

    started = 0.0
    places: ClassVar[set[str]] = set()


def start_meter() -> None:
    """A unit begins: what this process did before is not its cost."""
    _Meter.started = time.process_time()


def record_done(folder: Folder, place: str, done: Done) -> None:
    """Publish the record of `done`, with its cost, under `place`; the last thing a unit does."""
    now = time.process_time()
    done = replace(done, cpu_seconds=round(now - _Meter.started, 4), is_first=place not in _Meter.places)
    _Meter.started = now
    _Meter.places.add(place)
    folder.publish_bytes(f"{place}/{done.unit}{_SUFFIX}", (dump_canonical(done) + "\n").encode())


def read_done(folder: Folder, place: str, roles: Collection[str] | None = None) -> dict[str, Done]:
    """The valid records under `place` by unit; one whose outputs are missing or of another size is left out.

    With `roles`, only outputs of these roles have to be there.
    """
    records = {}
    sizes = folder.list_sizes()
    paths = [path for path in sizes if path.startswith(f"{place}/") and path.endswith(_SUFFIX)]
    for path, data in zip(paths, folder.read_many(paths), strict=True):
        done = _parse(path, data)
        if all(
            sizes.get(output.path) == output.n_bytes
            for role, output in done.outputs.items()
            if roles is None or role in roles
        ):
            records[done.unit] = done
    return records


def find_done(folder: Folder, place: str, unit: str) -> Done | None:
    """The record of one unit under `place`, if there is a valid one."""
    path = f"{place}/{unit}{_SUFFIX}"
    if not folder.exists(path):
        return None
    done = _parse(path, folder.read_bytes(path))
    sizes = folder.list_sizes(f"{place}/{unit}.")
    return done if all(sizes.get(output.path) == output.n_bytes for output in done.outputs.values()) else None


def forget_done(folder: Folder, place: str) -> None:
    """Remove every record under `place`: what they vouch for is about to be overwritten."""
    for path in folder.list(f"{place}/"):
        if path.endswith(_SUFFIX):
            folder.remove(path)


def _parse(path: str, data: bytes) -> Done:
    try:
        raw = json.loads(data)
        outputs = {role: Output(**output) for role, output in raw["outputs"].items()}
        return Done(raw["unit"], outputs, raw["tally"], raw["facts"], raw["cpu_seconds"], raw["is_first"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: not a done record ({error}); remove it, then run the same command again") from None
