"""Answers to "what if" as text of at most 80 columns."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence

from tamiz.report.answer import Answer, Changed, Sweep

WIDTH = 80
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def format_answer(answer: Answer) -> str:
    """Changes, the before/after table, gains and losses, rules whose counts change, examples."""
    tally = answer.tally
    lines = [f"{'rule':48}{'before':>15}{'after':>15}"]
    lines += [f"{name:48}{_cut(before, 14):>15}{_cut(after, 14):>15}" for name, before, after in answer.changes]
    lines += [] if answer.changes else ["(nothing differs from the run's own rules)"]
    lines += ["", f"{'':26}{'before':>18}{'after':>18}{'change':>18}"]
    lines.append(_row("documents read", tally["documents/read"], tally["documents/read"], ""))
    before, after = tally["documents/before"], tally["documents/after"]
    lines.append(_row("documents kept", before, after, _signed(after - before)))
    low, high = tally["bytes/before"] / 1e6, tally["bytes/after"] / 1e6
    lines.append(f"{'MB of text kept, as read':26}{low:>18,.3f}{high:>18,.3f}{high - low:>+18,.3f}")
    tokens = [answer.estimate_tokens(side) for side in ("before", "after")]
    if tokens[0] is not None and tokens[1] is not None:
        lines.append(_row("tokens packed, estimated", tokens[0], tokens[1], _signed(tokens[1] - tokens[0])))
    if answer.share_unique is not None:
        unique = [round(count * answer.share_unique) for count in (before, after)]
        lines.append(_row("documents packed, estim.", unique[0], unique[1], _signed(unique[1] - unique[0])))
    lines.append("")
    for side, label in (("gained", "rejected before, kept now"), ("lost", "kept before, rejected now")):
        n, n_bytes = tally[f"documents/{side}"], tally[f"bytes/{side}"]
        estimate = f", about {n_bytes * answer.tokens_per_byte:,.0f} tokens" if answer.tokens_per_byte else ""
        lines.append(f"{side:6} {n:,} documents ({label}), {n_bytes / 1e6:,.3f} MB{estimate}")
    lines += _format_rules(answer)
    lines += ["", *_format_trust(answer)]
    for side in ("gained", "lost"):
        lines += _format_examples([e for e in answer.examples if e.side == side], side)
    return "\n".join(lines)


def _row(label: str, before: int, after: int, change: str) -> str:
    return f"{label:26}{before:>18,}{after:>18,}{change:>18}"


def _signed(number: int) -> str:
    return f"{number:+,}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _format_rules(answer: Answer) -> list[str]:
    """Documents each rule rejects, where that changes."""
    names = [key.split("/")[2] for key in answer.tally if key.startswith("rules/") and key.endswith("/failed")]
    lines = []
    for name in dict.fromkeys(names):
        counts = [
            [answer.tally.get(f"rules/{s}/{name}/{c}", 0) for s in ("before", "after")] for c in ("failed", "alone")
        ]
        if any(before != after for before, after in counts):
            (failed_before, failed_after), (alone_before, alone_after) = counts
            lines.append(
                f"{_cut(name, 39):40}{failed_before:>10,}{failed_after:>10,}{alone_before:>10,}{alone_after:>10,}"
            )
    if not lines:
        return []
    return ["", f"{'':40}{'failed':>20}{'alone':>20}", f"{'':40}" + f"{'before':>10}{'after':>10}" * 2, *lines]


def _format_trust(answer: Answer) -> list[str]:
    notes = [
        "Documents and MB kept by the rules are exact, from the verdicts of all documents read. Estimated, at this "
        "run's own rates: tokens and documents packed, because duplicates depend on what is kept and a rejected "
        "document has no tokens yet."
    ]
    if answer.tokens_per_byte is None:
        notes = ["Documents and MB kept by the rules are exact. The run has no tokens yet, so none are estimated."]
    if not answer.is_complete:
        notes.append(f"The run is not finished: this speaks of its first {answer.n_parts} parts.")
    return [line for note in notes for line in textwrap.wrap(note, WIDTH)]


def _format_examples(examples: Sequence[Changed], side: str) -> list[str]:
    lines = ["", f"{side}: {len(examples)} of them, the first by doc_id, which is a random choice"] if examples else []
    for example in examples:
        values = ", ".join(f"{name} {_show(value)}" for name, value in example.values.items())
        lines += ["", f"{example.doc_id}  {make_plain(example.origin)}"]
        lines += [f"  {_cut(make_plain(example.url), WIDTH - 2)}"] if example.url else []
        lines += textwrap.wrap(
            f"{values}; fails {', '.join(example.rules)}", WIDTH - 2, initial_indent="  ", subsequent_indent="  "
        )
        lines += [f"  | {line}" for line in textwrap.wrap(make_plain(example.text[:300]), WIDTH - 4)]
    return lines


def _show(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def make_plain(text: str) -> str:
    """Web text for a terminal: control and format characters (escape sequences, direction marks) become spaces."""
    return "".join(" " if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in text)


def format_sweep(sweep: Sweep) -> str:
    """The curve as a table with bars; the run's own bound is marked."""
    lines = [sweep.rule, "documents and MB of text kept are exact, tokens packed estimated", ""]
    lines.append(f"{'bound':>10} {'documents':>12}{'MB':>12}{'tokens':>16}")
    most = max([*sweep.documents, 1])
    for bound, documents, n_bytes in zip(sweep.bounds, sweep.documents, sweep.n_bytes, strict=True):
        tokens = f"{n_bytes * sweep.tokens_per_byte:,.0f}" if sweep.tokens_per_byte else "-"
        mark = "*" if sweep.now is not None and bound == sweep.now else " "
        bar = draw_bar(documents / most, 26)
        lines.append(f"{bound:>10g}{mark}{documents:>12,}{n_bytes / 1e6:>12,.3f}{tokens:>16}  {bar}".rstrip())
    if sweep.now is None:
        lines += ["", "The rule is off in the run."]
    elif sweep.now in sweep.bounds:
        lines += ["", "* the run's own bound"]
    else:
        lines += ["", f"The run's own bound is {sweep.now:g}."]
    return "\n".join(lines)


def draw_bar(share: float, width: int) -> str:
    """A bar of `share` (0..1) of `width` characters, in eighths of one."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
