"""How the documents of a dedup are laid out: parts into groups, keys into ranges, both as large as the memory allows.

The layout changes no result, only what lies in memory at once and how many files lie in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tamiz.run.fingerprint import make_fingerprint
from tamiz.schema import I64
from tamiz.store import Folder

INTERPRETER_BYTES = 400 << 20  # of a worker before its first document: Python, numpy, pyarrow, the loaded kernels
DOCUMENT_BYTES = 112  # per key while a range is sorted, if every document is a member of a bucket (measured: up to 96)
SHINGLE_BYTES = 6  # of memory per byte of text while shingle sets are compared: 8 per word, and copies of them
GROUP_DOCUMENTS = 4_000_000  # more make fewer files, fewer make more units to share among workers
_FILE_BYTES = 16  # per document and key: in the part's bands 8, while it runs as many again with its row


@dataclass(frozen=True)
class KeptPart:
    """One part as dedup sees it: its name, its source, where its files are, and how many documents it kept,
    with how many bytes of text.

    `run`: the directory of the older run it belongs to, None for this run.
    """

    name: str
    source: str
    kept: str
    bands: str
    verdicts: str
    n_kept: int
    n_bytes: int
    run: str | None = None

    def open_folder(self, folder: Folder) -> Folder:
        """The folder its files are in, `folder` being this run's."""
        return folder if self.run is None else Folder(self.run)


@dataclass(frozen=True)
class Group:
    """Consecutive parts; `first` is the order's index of their first document. A group is of one run."""

    index: int
    first: int
    n_documents: int
    parts: tuple[KeptPart, ...]

    @property
    def past(self) -> int:
        """The index behind its last document."""
        return self.first + self.n_documents

    @property
    def is_own(self) -> bool:
        """Whether its documents can lose: those of older runs cannot."""
        return self.parts[0].run is None


@dataclass(frozen=True)
class Layout:
    """`n_ranges` equal key ranges, a power of two, of at most `n_sorted` documents at once."""

    groups: tuple[Group, ...]
    n_ranges: int
    n_sorted: int

    @property
    def n_documents(self) -> int:
        """Of older runs and this one."""
        return self.groups[-1].past if self.groups else 0

    @property
    def n_older(self) -> int:
        """Documents of older runs; they are the first."""
        return sum(group.n_documents for group in self.groups if not group.is_own)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """(first, past) document of every group."""
        return tuple((group.first, group.past) for group in self.groups)

    @property
    def tag(self) -> str:
        """Names the intermediate files that this layout makes: another memory may cut as many groups elsewhere."""
        cuts = make_fingerprint({"ranges": self.n_ranges, "bounds": self.bounds})
        return f"{self.n_ranges}x{len(self.groups)}-{cuts[:8]}"

    def locate(self, index: I64) -> I64:
        """int64[n]: the group of each document index."""
        firsts = np.array([group.first for group in self.groups], dtype=np.int64)
        return np.searchsorted(firsts, index, side="right") - 1


def count_sorted(memory: int) -> int:
    """Documents whose keys can be sorted at once in a worker of this many bytes."""
    return max(1, (memory - INTERPRETER_BYTES) // DOCUMENT_BYTES)


def count_ranges(n_documents: int, n_sorted: int) -> int:
    """The power of two of key ranges that leaves each an eighth below `n_sorted`: keys are hashes, ranges vary by
    their square root; what one frequent key puts on top is worked in pieces."""
    needed = -(-n_documents * 8 // (n_sorted * 7))
    return int(1 << max(0, needed - 1).bit_length())


def make_layout(parts: Sequence[KeptPart], memory: int, *, are_texts_read: bool = False) -> Layout:
    """The layout of these parts (older runs' first) for workers of `memory` bytes.

    `are_texts_read`: a group's shingles have to lie in memory too.
    """
    n_sorted = count_sorted(memory)
    n_bytes = (memory - INTERPRETER_BYTES) // SHINGLE_BYTES if are_texts_read else None
    return cut_layout(parts, n_sorted, min(GROUP_DOCUMENTS, n_sorted), n_bytes)


def bound_memory(layout: Layout, memory: int, *, are_texts_read: bool = False) -> int:
    """Bytes that a worker can come to need: `memory`, or less when everything together takes less."""
    texts = sum(part.n_bytes for group in layout.groups for part in group.parts) if are_texts_read else 0
    return min(memory, INTERPRETER_BYTES + layout.n_documents * DOCUMENT_BYTES + texts * SHINGLE_BYTES)


def cut_layout(parts: Sequence[KeptPart], n_sorted: int, n_grouped: int, n_bytes: int | None = None) -> Layout:
    """Groups of at most `n_grouped` documents and `n_bytes` of text (or one part), ranges of at most `n_sorted`."""
    groups: list[Group] = []
    size = 0
    gathered: list[KeptPart] = []
    first = count = 0
    for part in parts:
        is_full = count + part.n_kept > n_grouped or (n_bytes is not None and size + part.n_bytes > n_bytes)
        if gathered and (is_full or part.run != gathered[0].run):
            groups.append(Group(len(groups), first, count, tuple(gathered)))
            first, count, size, gathered = first + count, 0, 0, []
        gathered.append(part)
        count += part.n_kept
        size += part.n_bytes
    if gathered:
        groups.append(Group(len(groups), first, count, tuple(gathered)))
    n_documents = groups[-1].past if groups else 0
    return Layout(tuple(groups), count_ranges(n_documents, n_sorted), n_sorted)


class Forecast(NamedTuple):
    """What dedup will take: documents, key ranges, bytes of one worker, bytes of disk kept and while it runs."""

    n_documents: int
    n_ranges: int
    worker_bytes: int
    bands_bytes: int
    running_bytes: int


def forecast_dedup(n_documents: int, n_columns: int, memory: int) -> Forecast:
    """Of so many kept documents (an upper bound before they are sifted) with `n_columns` keys each."""
    n_sorted = count_sorted(memory)
    n_ranges = count_ranges(n_documents, n_sorted)
    n_at_once = min(n_sorted, -(-n_documents // n_ranges))
    worker = INTERPRETER_BYTES + n_at_once * DOCUMENT_BYTES
    bands = n_documents * (8 * n_columns + _FILE_BYTES)
    return Forecast(n_documents, n_ranges, worker, bands, n_documents * n_columns * _FILE_BYTES * 5 // 8)
