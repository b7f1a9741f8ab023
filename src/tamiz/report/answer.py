"""The answer to "what if the rules were others": counts before and after, and documents that change sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tamiz.tally import Tally


@dataclass(frozen=True)
class Changed:
    """A document that changes sides. `values`: the changed rules' metrics; `text`: as read, or why it is not shown."""

    doc_id: str
    source: str
    origin: str
    url: str | None
    side: str  # gained or lost
    values: Mapping[str, Any]
    rules: Sequence[str]  # the rules that fail it on the side where it is rejected
    text: str = ""


@dataclass(frozen=True)
class Answer:
    """What the rules would keep.

    `tally`: counters `documents/read`, `bytes/read`, and for `before` and `after` `documents/<side>`, `bytes/<side>`
    (kept, text as read) and `rules/<side>/<rule>/failed|alone|first`; `documents/gained`, `bytes/gained`,
    `documents/lost`, `bytes/lost`. All exact. `tokens_per_byte`: tokens packed per byte kept (text as read) of the run
    as built, after duplicates, line rules and redaction; None before it is packed. `share_unique`: documents packed per
    document kept. `changes`: the rules that differ, (name, bound before, bound after), "off" for none.
    """

    tally: Tally
    changes: Sequence[tuple[str, str, str]]
    n_parts: int
    is_complete: bool
    tokens_per_byte: float | None
    share_unique: float | None
    examples: Sequence[Changed] = ()

    def estimate_tokens(self, side: str) -> int | None:
        """Tokens that would be packed, at the run's own tokens per byte; exact for `before` up to rounding."""
        if self.tokens_per_byte is None:
            return None
        return round(self.tally.get(f"bytes/{side}", 0) * self.tokens_per_byte)


@dataclass(frozen=True)
class Sweep:
    """The curve of one rule: for each of `bounds` what would be kept, exactly: documents, bytes of text as read."""

    rule: str
    bounds: Sequence[float]
    documents: Sequence[int]
    n_bytes: Sequence[int]
    now: float | None
    tokens_per_byte: float | None
