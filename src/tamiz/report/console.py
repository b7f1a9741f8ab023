"""The summary as tables of at most 80 columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tamiz.report.summary import Summary

_N_DAMAGE = 10
_SKIPPED = {"where": "not selected by `where` (not read)"}
_PAINT = (
    (re.compile(r"\bFAILS\b"), "31"),
    (re.compile(r"^(?:FAILED|failed|stopped|interrupted)\b.*", re.M), "31"),
    (re.compile(r"^  -(?!--).*", re.M), "31"),
    (re.compile(r"^  \+(?!\+\+).*", re.M), "32"),
    (re.compile(r"[█▏▎▍▌▋▊▉]+"), "34"),
)


def paint(text: str) -> str:
    """Colours for a terminal: what fails red, what is new green, bars blue."""
    for pattern, colour in _PAINT:
        text = pattern.sub(lambda found, colour=colour: f"\x1b[{colour}m{found[0]}\x1b[0m", text)  # type: ignore[misc]
    return text


_OUTCOMES = {
    "read": "read",
    "quarantined": "  quarantined (unreadable or empty)",
    "rejected": "  rejected by rules",
    "cleaned": "  cleaned away (line rules, redaction)",
    "duplicate": "  duplicates",
    "packed": "  packed",
}


def format_summary(summary: Summary) -> str:
    """Documents, bytes and tokens per outcome, then documents per rule; rules nobody failed are left out."""
    documents, n_bytes, tokens = summary["documents"], summary["bytes"], summary["tokens"]
    lines = [f"{summary['name']}: source {', '.join(summary['source'])}", ""]
    lines.append(f"{'':40}{'documents':>12}{'MB of text':>12}{'tokens':>16}")
    for outcome, label in _OUTCOMES.items():
        in_tokens = f"{tokens['packed']:,}" if outcome == "packed" else ""
        in_documents = f"{documents[outcome]:,}" if outcome in documents else ""
        lines.append(f"{label:40}{in_documents:>12}{n_bytes[outcome] / 1e6:>12,.3f}{in_tokens:>16}")
    lines += [f"{_SKIPPED.get(why, why + ' (no documents)'):40}{n:>12,}" for why, n in summary["skipped"].items()]
    lines.append("")
    share = tokens["padding"] / tokens["total"] if tokens["total"] else 0.0
    lines.append(
        f"{summary['sequences']:,} sequences in {summary['shards']} shards, padding {tokens['padding']:,} tokens "
        f"({share:.2%})"
    )
    repeated = summary["repeated"]
    if repeated["documents"]:
        lines.append(f"of these repeated: {repeated['documents']:,} documents, {repeated['tokens']:,} tokens")
    held = summary["validation"]
    lines.append(f"of these held out for validation: {held['documents']:,} documents, {held['tokens']:,} tokens")
    lines += format_dedup(summary["dedup"]) if summary["dedup"] else []
    failed = {rule: counts for rule, counts in summary["rules"].items() if counts["failed"]}
    if failed:
        lines += ["", f"{'documents that fail a rule':47}{'failed':>11}{'alone':>11}{'first':>11}"]
        for rule, counts in failed.items():
            lines.append(f"{rule:47}{counts['failed']:>11,}{counts['alone']:>11,}{counts['first']:>11,}")
    if summary["quarantine"]:
        lines += ["", f"{'quarantined, by reason':44}{'documents':>12}"]
        lines += [f"{reason:44}{count:>12,}" for reason, count in summary["quarantine"].items()]
    if summary["damage"]:
        lines += ["", f"{'unreadable stretches of files':44}{'bytes':>12}{'to':>12}{'documents':>12}"]
        lines += [_format_damage(damage) for damage in summary["damage"][:_N_DAMAGE]]
        if len(summary["damage"]) > _N_DAMAGE:
            lines.append(f"and {len(summary['damage']) - _N_DAMAGE:,} more: report/summary.json lists them")
    return "\n".join(line.rstrip() for line in lines)


def _format_damage(damage: dict[str, Any]) -> str:
    path, n_rows = str(damage["path"])[-43:], damage["n_rows"]
    known = f"{n_rows:,}" if n_rows > 1 else "?"
    return f"{path:44}{damage['start']:>12,}{damage['stop']:>12,}{known:>12}"


def format_dedup(dedup: Mapping[str, Any]) -> list[str]:
    """What dedup removed in each scope, how sure that is, and alarms; nothing when there were no duplicates."""
    lines = []
    scopes = dedup["scopes"]
    if scopes.get("run"):
        counts = ", ".join(f"{scope} {count:,}" for scope, count in scopes.items())
        lines += ["", f"duplicates by scope (this run's is {dedup['scope']}): {counts}"]
    if dedup["shape"]:
        shape = dedup["shape"]
        curve = {round(s, 2): p for s, p in dedup["curve"]}
        points = ", ".join(f"{s:g}: {curve[s]:.0%}" for s in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9))
        lines += ["", f"{shape['bands']} bands of {shape['rows']}: chance of removal by Jaccard similarity"]
        lines.append(f"  {points}")
    if dedup["bloom"]:
        bloom = dedup["bloom"]
        lines.append(
            f"Bloom filters: {bloom['filter_bytes'] / 1e6:,.1f} MB instead of {bloom['saved_bytes'] / 1e6:,.1f} MB of "
            f"sorted keys;\nat most {bloom['false_positives']:.2%} of the documents are removed by mistake"
        )
    if dedup["lines"]:
        removed = dedup["lines"]
        lines += [
            "",
            f"repeated lines: {removed['removed']:,} removed, {removed['bytes'] / 1e6:,.3f} MB, the most frequent:",
        ]
        lines += [f"{line['documents']:>12,}  {line['text'][:60]}" for line in removed["top"][:5]]
    precision, sample = dedup["precision"], dedup["sample"]
    if precision:
        lines.append(
            f"of {sample['n']:,} sampled near copies {precision['share']:.1%} reach {dedup['threshold']:.2f}\n"
            f"  (95 % interval {precision['low']:.1%} to {precision['high']:.1%}), mean {sample['mean']:.2f}"
        )
    return lines + [f"ALARM: {alarm}" for alarm in dedup["alarms"]]
