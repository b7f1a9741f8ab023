"""Everything the page shows of a run, as values that `run` gathers; what a run does not have yet is None or empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tamiz.report.findings import Findings
from tamiz.report.summary import Summary
from tamiz.tally import Histogram


class Copy(NamedTuple):
    """A document of a cluster: how it is a copy of the first one (exact or near, bands in common; "" for the first)."""

    kind: str
    n_bands: int
    similarity: float | None
    origin: str
    text: str


class Cluster(NamedTuple):
    """Documents that lost to one document: how many, and some of them, the one that stayed first."""

    n_lost: int
    copies: Sequence[Copy]


@dataclass(frozen=True)
class DuplicateFacts:
    """`sizes`: (copies removed in favour of one document, such documents), ascending; `clusters`: the largest."""

    sizes: Sequence[tuple[int, int]]
    clusters: Sequence[Cluster]


@dataclass(frozen=True)
class TokenFacts:
    """Of the documents that were tokenized: histograms of tokens, and of UTF-8 bytes per token, by document."""

    lengths: Histogram
    bytes_per_token: Histogram


@dataclass(frozen=True)
class PackFacts:
    """`shards`: name, rows, documents, tokens, padding of each; `pieces`: documents cut into 1, 2, 3... pieces."""

    shards: Sequence[Mapping[str, Any]]
    pieces: Sequence[int]
    sequence_length: int


class StageFacts(NamedTuple):
    """A stage's clock, as the journal has it: seconds of wall time, what was worked, the largest worker's memory."""

    name: str
    place: str
    n_done: int
    seconds: float | None
    documents: int
    n_bytes: int
    tokens: int
    peak_worker_bytes: int


@dataclass(frozen=True)
class Facts:
    """A run. `texts` by (source, origin), as read; `state` is finished, running, interrupted, failed or stopped."""

    name: str
    state: str
    message: str
    summary: Summary
    findings: Findings | None
    texts: Mapping[tuple[str, str], str]
    duplicates: DuplicateFacts | None
    tokens: TokenFacts | None
    packing: PackFacts | None
    stages: Sequence[StageFacts]
    n_workers: int | None
    config: str
    versions: Mapping[str, str]
    fingerprints: Mapping[str, str]
