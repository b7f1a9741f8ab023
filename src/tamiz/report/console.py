"""The summary as tables of at most 80 columns."""

from __future__ import annotations

import re

from tamiz.report.summary import Summary

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
    if summary["not_selected"]:
        lines.append(f"{'not selected by `where` (not read)':40}{summary['not_selected']:>12,}")
    lines.append("")
    share = tokens["padding"] / tokens["total"] if tokens["total"] else 0.0
    lines.append(
        f"{summary['sequences']:,} sequences in {summary['shards']} shards, padding {tokens['padding']:,} tokens "
        f"({share:.2%})"
    )
    held = summary["validation"]
    lines.append(f"of these held out for validation: {held['documents']:,} documents, {held['tokens']:,} tokens")
    failed = {rule: counts for rule, counts in summary["rules"].items() if counts["failed"]}
    if failed:
        lines += ["", f"{'documents that fail a rule':47}{'failed':>11}{'alone':>11}{'first':>11}"]
        for rule, counts in failed.items():
            lines.append(f"{rule:47}{counts['failed']:>11,}{counts['alone']:>11,}{counts['first']:>11,}")
    if summary["quarantine"]:
        lines += ["", f"{'quarantined, by reason':44}{'documents':>12}"]
        lines += [f"{reason:44}{count:>12,}" for reason, count in summary["quarantine"].items()]
    return "\n".join(lines)
