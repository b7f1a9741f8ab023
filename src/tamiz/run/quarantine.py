"""What of a source could not be read: whether that is too much, and where it lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tamiz.errors import RunError
from tamiz.run.ledger import Done
from tamiz.run.plan import PlannedSource
from tamiz.tally import Tally, merge_tallies, take_prefix

_N_REASONS = 3  # named in the message


class Allowance:
    """The share of one source's documents, and of its bytes, that may be quarantined."""

    def __init__(self, source: PlannedSource, max_share: float) -> None:
        n_rows = [split.n_rows for split in source.splits]
        self._n_planned = None if None in n_rows else sum(n or 0 for n in n_rows)
        self._n_bytes = sum(split.n_bytes for split in source.splits)
        self._name, self._max_share = source.spec.name, max_share
        self._tally: Tally = {}
        self._first: dict[str, Any] | None = None

    def use(self, parts: list[Done]) -> None:
        """Add parts of the source; RunError as soon as those to come cannot make it good."""
        self._tally = merge_tallies([self._tally, *(part.tally for part in parts)])
        if self._first is None:
            self._first = next(iter(list_damage(parts)), None)
        self._check(self._n_planned)

    def settle(self) -> None:
        """All parts are there: RunError when too much of the source is quarantined."""
        self._check(self._tally.get("documents/read", 0))

    def _check(self, n_documents: int | None) -> None:
        n, n_damaged = self._tally.get("documents/quarantined", 0), self._tally.get("bytes/damaged", 0)
        if n_documents is not None and n > self._max_share * n_documents:
            seen = f"{n:,} of {n_documents:,} documents ({n / n_documents:.2%}) are"
        elif n_damaged > self._max_share * self._n_bytes:
            seen = f"{n_damaged:,} of {self._n_bytes:,} bytes ({n_damaged / self._n_bytes:.2%}) are"
        else:
            return
        raise RunError(
            f"source {self._name}: {seen} quarantined, more than quarantine.max_share {self._max_share:g} allows: "
            f"{self._name_reasons()}. Each is a row of sift/*/*.verdicts.parquet, with file and position. Put the "
            "source right, or allow more with --set quarantine.max_share=..., then run the same command again"
        )

    def _name_reasons(self) -> str:
        counts = take_prefix(self._tally, "quarantine")
        often = sorted(counts, key=lambda reason: -counts[reason])[:_N_REASONS]
        found = [f"{reason} {counts[reason]:,}" for reason in often]
        if self._first:
            place = f"{self._first['path']}, bytes {self._first['start']:,} to {self._first['stop']:,}"
            found.append(f"the first damage is in {place}")
        return ", ".join(found)


def list_damage(parts: Iterable[Done]) -> list[dict[str, Any]]:
    """The unreadable stretches of files, in document order: source and the fields of sources.split.Damage."""
    ordered = sorted(parts, key=lambda done: done.unit)
    return [{"source": part.facts["source"], **damage} for part in ordered for damage in part.facts["damage"]]
