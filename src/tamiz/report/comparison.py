"""Two runs side by side: what entered, what left and why; as values, as text and as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from tamiz.report.answer_console import WIDTH, make_plain
from tamiz.report.summary import Summary
from tamiz.tally import Tally

OUTCOMES = ("packed", "duplicate", "rejected", "quarantined", "not read")


class Moved(NamedTuple):
    """A document that one run packs and the other does not: `why` the other does not, `text` as kept where it is."""

    doc_id: str
    origin: str
    url: str | None
    why: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """`tally`: documents and bytes (text as read) by what became of them in A and in B,
    `documents, source, outcome in A, outcome in B` and `bytes, ...`; `entered, reason` and `left, reason`: documents
    by what keeps them out of the other run (the first failing rule, or the outcome); names joined by NUL, for a source
    may be called anything. `config`: keys that differ. `examples`: some of both sides."""

    names: tuple[str, str]
    summaries: tuple[Summary, Summary]
    tally: Tally
    config: Sequence[str]
    entered: Sequence[Moved]
    left: Sequence[Moved]

    def count(self, unit: str, a: str | None = None, b: str | None = None, source: str | None = None) -> int:
        """Documents or bytes with this outcome in A and in B (None: any), of this source (None: all)."""
        total = 0
        for name, n in self.tally.items():
            kind, *rest = name.split("\0")
            if kind == unit and (a in {None, rest[1]}) and (b in {None, rest[2]}) and (source in {None, rest[0]}):
                total += n
        return total

    def list_reasons(self, side: str) -> list[tuple[str, int]]:
        """Why documents entered or left, the commonest first."""
        reasons = [(name.split("\0")[1], n) for name, n in self.tally.items() if name.startswith(f"{side}\0")]
        return sorted(reasons, key=lambda item: (-item[1], item[0]))

    def list_sources(self) -> list[str]:
        """The sources of both."""
        return sorted({name.split("\0")[1] for name in self.tally if name.startswith("documents\0")})

    def list_totals(self) -> list[tuple[str, int, int]]:
        """The rows of the table of totals: label, A, B."""
        a, b = self.summaries
        rows = [(f"documents {name}", a["documents"][name], b["documents"][name]) for name in a["documents"]]
        rows += [("bytes of text packed", a["bytes"]["packed"], b["bytes"]["packed"])]
        rows += [("tokens packed", a["tokens"]["packed"], b["tokens"]["packed"])]
        rows += [("tokens of padding", a["tokens"]["padding"], b["tokens"]["padding"])]
        return rows


def format_comparison(comparison: Comparison, n_examples: int = 3) -> str:
    """At most 80 columns."""
    a, b = comparison.names
    lines = [f"A  {a}"[:WIDTH], f"B  {b}"[:WIDTH], ""]
    lines.append("what differs in the configs")
    for key in comparison.config or ["nothing"]:
        lines += textwrap.wrap(make_plain(key), WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines.append("")
    lines.append(f"{'':28}{'A':>17}{'B':>17}{'change':>18}")
    lines += [f"{label:28}{x:>17,}{y:>17,}{y - x:>+18,}" for label, x, y in comparison.list_totals()]
    lines += ["", f"{'documents packed, by source':28}{'in A':>13}{'in B':>13}{'entered':>13}{'left':>13}"]
    for source in comparison.list_sources():
        counts = count_moves(comparison, source)
        row = [counts[key] for key in ("a", "b", "entered", "left")]
        lines.append(f"{make_plain(source)[:27]:28}" + "".join(f"{n:>13,}" for n in row))
    for side, label in (("entered", "entered: packed in B, not in A"), ("left", "left: packed in A, not in B")):
        reasons = comparison.list_reasons(side)
        lines += ["", f"{label}, {sum(n for _, n in reasons):,} documents; in the other run they are"]
        lines += [f"  {make_plain(reason)[:60]:62}{n:>14,}" for reason, n in reasons[:20]]
        for moved in (comparison.entered if side == "entered" else comparison.left)[:n_examples]:
            lines.append(f"  {moved.doc_id}  {make_plain(moved.url or moved.origin)}"[:WIDTH])
            lines.append(f"    {make_plain(moved.text)}"[:WIDTH])
    return "\n".join(lines)


def count_moves(comparison: Comparison, source: str | None = None) -> Mapping[str, int]:
    """Documents packed in A, in B, in both, entered and left."""
    in_a, in_b = (
        comparison.count("documents", a="packed", source=source),
        comparison.count("documents", b="packed", source=source),
    )
    both = comparison.count("documents", a="packed", b="packed", source=source)
    return {"a": in_a, "b": in_b, "both": both, "entered": in_b - both, "left": in_a - both}


def render_comparison(comparison: Comparison) -> str:
    """A self-contained page; every text is escaped."""
    folder = resources.files("tamiz.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.filters |= {
        "count": lambda n: f"{n:,}",
        "signed": lambda n: f"{n:+,}",
        "mb": lambda n: f"{n / 1e6:,.2f}",
    }
    sources: list[dict[str, Any]] = [
        {"name": source, **count_moves(comparison, source)} for source in comparison.list_sources()
    ]
    page = environment.get_template("comparison.html.j2").render(
        it=comparison, sources=sources, moves=count_moves(comparison), outcomes=OUTCOMES,
        style=Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),
    )  # fmt: skip
    return page.encode("utf-8", "replace").decode()
