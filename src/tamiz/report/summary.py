"""The summary: every document, byte and token of a run in exactly one place, or BalanceError.

documents.read = quarantined + rejected + duplicate + packed
bytes.read     = quarantined + rejected + cleaned + duplicate + packed
tokens.total   = packed + padding (+ nothing dropped: no strategy drops a token)

Bytes are UTF-8 bytes of text. `quarantined` is 0 (what has no text has no bytes of text), `rejected` counts the text
as it came, `duplicate` and `packed` the text as kept, and `cleaned` is what line rules and redaction took from kept
documents in between (negative if replacements were longer than what they replaced).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tamiz.errors import BalanceError
from tamiz.tally import Tally, merge_tallies, take_prefix

Summary = dict[str, Any]


def build_summary(
    *,
    facts: Mapping[str, Any],
    sift: Mapping[str, Tally],
    dedup: Tally,
    tokens: Tally,
    shards: Sequence[Mapping[str, Any]],
    damage: Sequence[Mapping[str, Any]],
    sequence_length: int,
    rules: Sequence[str],
    is_finished: bool = True,
) -> Summary:
    """The summary of a finished run; raises BalanceError if anything is missing or counted twice.

    With `is_finished` False, of what there is of a run: nothing can balance yet.

    `facts`: name, source... as they shall appear. `sift`: tally by source. `shards`: each shard's rows, documents,
    tokens, padding, text_bytes, pieces. `damage`: stretches of files that could not be read: source, path, position,
    reason, start, stop, n_rows. `rules`: names of all rules, in recipe order.
    """
    read = merge_tallies(sift.values())
    packed = merge_tallies({name: shard[name] for name in _PACKED} for shard in shards)
    summary: Summary = {
        **facts,
        "documents": {
            "read": read.get("documents/read", 0),
            "quarantined": read.get("documents/quarantined", 0),
            "rejected": read.get("documents/rejected", 0),
            "duplicate": dedup.get("documents/duplicate", 0),
            "packed": packed.get("documents", 0),
        },
        "bytes": {
            "read": read.get("bytes/read", 0),
            "quarantined": 0,
            "rejected": read.get("bytes/rejected", 0),
            "cleaned": read.get("bytes/cleaned", 0),
            "duplicate": dedup.get("bytes/duplicate", 0),
            "packed": packed.get("text_bytes", 0),
        },
        "tokens": {
            "total": packed.get("rows", 0) * sequence_length,
            "packed": packed.get("tokens", 0),
            "padding": packed.get("padding", 0),
            "dropped": 0,
        },
        "validation": {what: tokens.get(f"{what}/validation", 0) for what in ("documents", "bytes", "tokens")},
        "shards": len(shards),
        "sequences": packed.get("rows", 0),
        "pieces": packed.get("pieces", 0),
        "duplicates": {kind: dedup.get(f"duplicates/{kind}", 0) for kind in ("exact", "near")},
        "not_selected": read.get("not_selected", 0),
        "quarantine": take_prefix(read, "quarantine"),
        "damage": [dict(stretch) for stretch in damage],
        "redacted": take_prefix(read, "redacted"),
        "rules": {
            rule: {count: read.get(f"rules/{rule}/{count}", 0) for count in ("failed", "alone", "first")}
            for rule in rules
        },
        "sources": {
            name: {outcome: tally.get(f"documents/{outcome}", 0) for outcome in _SIFTED} for name, tally in sift.items()
        },
    }
    if is_finished:
        check_balance(summary, read, tokens)
    return summary


_PACKED = ("rows", "documents", "tokens", "padding", "text_bytes", "pieces")
_SIFTED = ("read", "quarantined", "rejected", "kept")


def check_balance(summary: Summary, sift: Tally, tokens: Tally) -> None:
    """Raise BalanceError unless documents, bytes and tokens add up, each counted by the stage that made it."""
    documents, n_bytes, n_tokens = summary["documents"], summary["bytes"], summary["tokens"]
    checks = {
        "documents: read": (documents["read"], sum(documents.values()) - documents["read"]),
        "bytes: read": (n_bytes["read"], sum(n_bytes.values()) - n_bytes["read"]),
        "tokens: in sequences": (n_tokens["total"], n_tokens["packed"] + n_tokens["padding"] + n_tokens["dropped"]),
        "documents: kept": (sift.get("documents/kept", 0), documents["duplicate"] + documents["packed"]),
        "documents: tokenized": (_sum(tokens, "documents"), documents["packed"]),
        "bytes: tokenized": (_sum(tokens, "bytes"), n_bytes["packed"]),
        "tokens: tokenized": (_sum(tokens, "tokens"), n_tokens["packed"]),
        "documents: rejected": (documents["rejected"], sum(rule["first"] for rule in summary["rules"].values())),
        "documents: quarantined": (documents["quarantined"], sum(summary["quarantine"].values())),
    }
    wrong = [f"{what} {a:,} but accounted for {b:,}" for what, (a, b) in checks.items() if a != b]
    if wrong:
        raise BalanceError("the books do not balance (a defect of tamiz, please report it): " + "; ".join(wrong))


def _sum(tokens: Tally, what: str) -> int:
    return tokens.get(f"{what}/train", 0) + tokens.get(f"{what}/validation", 0)
