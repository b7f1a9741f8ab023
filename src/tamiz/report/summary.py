"""The summary: every document, byte and token of a run in exactly one place, or BalanceError.

documents.read = quarantined + rejected + duplicate + packed
bytes.read     = quarantined + rejected + cleaned + duplicate + packed
tokens.total   = packed + repeated + padding (+ nothing dropped: no strategy drops a token)

Bytes are UTF-8 bytes of text. `quarantined` is 0 (what has no text has no bytes of text), `rejected` counts the text
as it came, `duplicate` and `packed` the text as kept, and `cleaned` is what line rules and redaction took from kept
documents in between (negative if replacements were longer than what they replaced). `repeated` is a section of its
own: what `pack.repeat` put into the shards again, documents and bytes that are counted once as packed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tamiz.errors import BalanceError
from tamiz.tally import Tally, merge_tallies, take_prefix

Summary = dict[str, Any]

_BUCKET_SHARE, _BUCKET_DOCUMENTS = (
    0.001,
    100,
)  # of all documents, and at least so many: in a small corpus a pair is 0.1 %
_SOURCE_SHARE = 0.5
_PRECISION_MIN = 0.9


def build_summary(
    *,
    facts: Mapping[str, Any],
    sift: Mapping[str, Tally],
    dedup: Tally,
    dedup_facts: Mapping[str, Any] | None,
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
    reason, start, stop, n_rows. `dedup_facts`: see `describe_dedup`, None before dedup. `rules`: names of all rules, in
    recipe order.
    """
    read = merge_tallies(sift.values())
    packed = merge_tallies({name: shard[name] for name in _PACKED} for shard in shards)
    repeated = {what: tokens.get(f"{what}/repeated", 0) for what in ("documents", "bytes", "tokens")}
    summary: Summary = {
        **facts,
        "documents": {
            "read": read.get("documents/read", 0),
            "quarantined": read.get("documents/quarantined", 0),
            "rejected": read.get("documents/rejected", 0),
            "duplicate": dedup.get("documents/duplicate", 0),
            "packed": packed.get("documents", 0) - repeated["documents"],
        },
        "bytes": {
            "read": read.get("bytes/read", 0),
            "quarantined": 0,
            "rejected": read.get("bytes/rejected", 0),
            "cleaned": read.get("bytes/cleaned", 0),
            "duplicate": dedup.get("bytes/duplicate", 0),
            "packed": packed.get("text_bytes", 0) - repeated["bytes"],
        },
        "tokens": {
            "total": packed.get("rows", 0) * sequence_length,
            "packed": packed.get("tokens", 0) - repeated["tokens"],
            "padding": packed.get("padding", 0),
            "dropped": 0,
        },
        "repeated": repeated,
        "validation": {what: tokens.get(f"{what}/validation", 0) for what in ("documents", "bytes", "tokens")},
        "shards": len(shards),
        "sequences": packed.get("rows", 0),
        "pieces": packed.get("pieces", 0),
        "duplicates": {kind: dedup.get(f"duplicates/{kind}", 0) for kind in ("exact", "near")},
        "dedup": describe_dedup(dedup_facts, dedup, sift) if dedup_facts else None,
        "skipped": take_prefix(read, "skipped"),
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


def describe_dedup(facts: Mapping[str, Any], tally: Tally, sift: Mapping[str, Tally]) -> dict[str, Any]:
    """What tells how far dedup can be trusted: `facts` as they are, and

    `scopes`: documents that each scope would have removed; `sources`: by source, documents kept by the rules and lost
    as duplicates; `precision`: of the sampled near copies, the share that reaches the threshold, with its 95 % interval
    (None without a sample); `alarms`: sentences.
    """
    sources = {
        name: {
            "kept": counts.get("documents/kept", 0),
            "duplicate": tally.get(f"sources/{name}/duplicate", 0),
        }
        for name, counts in sift.items()
    }
    described = {**facts, "scopes": take_prefix(tally, "scopes"), "sources": sources, "precision": None}
    sample = facts.get("sample")
    if sample and sample["n"]:
        low, high = make_interval(sample["n"] - sample["n_under"], sample["n"])
        described["precision"] = {"share": 1 - sample["n_under"] / sample["n"], "low": low, "high": high}
    described["alarms"] = list_alarms(described)
    return described


def list_alarms(dedup: Mapping[str, Any]) -> list[str]:
    """What looks wrong about what was removed, one sentence each, with what to look at."""
    alarms = []
    large = [bucket for bucket in dedup["buckets"] if bucket["documents"] >= _BUCKET_DOCUMENTS]
    for bucket in large:
        share = bucket["documents"] / dedup["n_compared"]
        if share > _BUCKET_SHARE:
            alarms.append(
                f"a bucket of {bucket['column']} holds {bucket['documents']:,} documents, {share:.2%} of all: one text "
                "(a notice, a template) in many pages; look at the documents with the most copies"
            )
    for name, counts in dedup["sources"].items():
        if counts["duplicate"] > _SOURCE_SHARE * counts["kept"]:
            share = counts["duplicate"] / counts["kept"]
            alarms.append(f"source {name} loses {share:.0%} of its documents as duplicates")
    precision = dedup["precision"]
    if precision and precision["share"] < _PRECISION_MIN:
        alarms.append(
            f"only {precision['share']:.0%} of the near copies reach a Jaccard similarity of {dedup['threshold']:.2f} "
            "with the document they lost to; use more rows per band, or dedup.verify: true"
        )
    return alarms


def make_interval(n_hits: int, n: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share of which n_hits of n were seen (Wilson 1927); (0, 1) of nothing."""
    if n == 0:
        return 0.0, 1.0
    z = 1.959964
    share = n_hits / n
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


_PACKED = ("rows", "documents", "tokens", "padding", "text_bytes", "pieces")
_SIFTED = ("read", "quarantined", "rejected", "kept")


def check_balance(summary: Summary, sift: Tally, tokens: Tally) -> None:
    """Raise BalanceError unless documents, bytes and tokens add up, each counted by the stage that made it."""
    documents, n_bytes, n_tokens = summary["documents"], summary["bytes"], summary["tokens"]
    checks = {
        "documents: read": (documents["read"], sum(documents.values()) - documents["read"]),
        "bytes: read": (n_bytes["read"], sum(n_bytes.values()) - n_bytes["read"]),
        "tokens: in sequences": (
            n_tokens["total"],
            n_tokens["packed"] + summary["repeated"]["tokens"] + n_tokens["padding"] + n_tokens["dropped"],
        ),
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
