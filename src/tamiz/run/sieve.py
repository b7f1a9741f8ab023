"""Dedup against older runs, before anything else: which of their keys this run has at all.

A document of an older run matters only where it shares a key with one of this run. Of a large corpus few do, so that
adding a month to it costs little more than the month: reading the older keys, not sorting them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tamiz.dedup.sieve import add_keys, make_sieve
from tamiz.run.engine import Report
from tamiz.run.layout import Group
from tamiz.run.ledger import Done, record_done
from tamiz.run.partition import read_keys
from tamiz.store import Folder


@dataclass(frozen=True)
class SieveUnit:
    """Publish the bitmap of the keys that `column` has in `groups`, this run's, of at most `bytes_max` bytes."""

    folder: str
    place: str
    column: str
    groups: tuple[Group, ...]
    bytes_max: int

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"sieve-{self.column}"

    def __str__(self) -> str:
        return f"dedup {self.column}, keys to look for in older runs"


def publish_sieve(unit: SieveUnit, report: Report) -> Done:
    """Work one unit."""
    folder = Folder(unit.folder)
    sieve = make_sieve(sum(group.n_documents for group in unit.groups), unit.bytes_max)
    for group in unit.groups:
        for part in group.parts:
            add_keys(sieve, read_keys(folder, [part], unit.column)[0])
    output = folder.publish_bytes(f"{unit.place}/{unit.name}.bits", sieve.tobytes())
    done = Done(unit.name, {"sieve": output}, {})
    record_done(folder, unit.place, done)
    report(0, 0, 0)
    return done
