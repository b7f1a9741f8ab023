"""The seam between what a run does and where it is done.

A stage is a set of independent units and one function that works a unit and publishes what it made. An engine runs
them in any order, on any number of workers, and gives each result as it comes. Which engine, and how many workers,
never changes a byte of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

U = TypeVar("U")
R = TypeVar("R")

Report = Callable[[int, int, int], None]
"""Told by a worker while it works a unit: documents, bytes and tokens done since it was last told."""

Work = Callable[[U, Report], R]
"""A module-level function: works one unit, publishes its outputs, returns a small picklable result."""


LIBRARY_BYTES = 512 << 20
"""What a worker needs before it holds a document: libraries, kernels, language model and tokenizer (0.37 GB seen)."""

MEMORY_BYTES = 1 << 30
"""What a unit needs unless its stage says otherwise: with its batches, and the parts of an upload."""

ONE_THREAD = {"FASTOKENS_BPE_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Environment of a worker: it is one core, so native libraries keep to one thread."""


class Engine(Protocol):
    """Runs units. Raises RunError, naming the unit, when one fails or keeps killing its worker."""

    @property
    def n_workers(self) -> int:
        """Units at once, as far as is known now."""
        ...

    def run(
        self, work: Work[U, R], units: Iterable[U], report: Report, memory_bytes: int = MEMORY_BYTES
    ) -> Iterator[tuple[U, R]]:
        """Work all units; yields (unit, result) as they end. `report` is told the workers' sums, in the driver.

        A unit takes one core and up to `memory_bytes`: a scheduler puts no more units on a machine than fit.
        """
        ...

    def close(self) -> None:
        """Stop all workers at once; what they have not published is not counted."""
        ...
