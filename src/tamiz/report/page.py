"""A run's facts as one self-contained HTML page: styles, script and data inside, no network, every text escaped."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from tamiz.report.charts import Chart, draw_histogram, make_stops, place_values, show
from tamiz.report.facts import Facts
from tamiz.report.findings import Example, Findings, RuleFact, Sample

SHORT, LONG = 300, 1000  # characters of an example's text shown at once, and when opened
_TEXT_BYTES = 1800  # of HTML that one text may take: with 30 rules, 20 texts each, 1.1 MB
_NAME_CHARS = 200  # of a URL, host, position
_TOP = 15  # hosts, languages, folders shown


def render_page(facts: Facts) -> str:
    """index.html."""
    folder = resources.files("tamiz.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: folder.joinpath(name).read_text(encoding="utf-8")),
    )  # fmt: skip
    environment.filters |= {"clip": clip_text, "name": lambda text: text[:_NAME_CHARS]}
    environment.filters |= {"count": lambda n: f"{n:,}", "mb": lambda n: f"{n / 1e6:,.2f}", "show": show}
    cards = make_cards(facts.findings) if facts.findings else []
    page = environment.get_template("page.html.j2").render(
        facts=facts,
        summary=facts.summary,
        cards=cards,
        funnel=list_funnel(facts),
        overlap=list_overlap(facts.findings) if facts.findings else None,
        metrics=draw_other_metrics(facts.findings) if facts.findings else [],
        tops=list_tops(facts.findings) if facts.findings else {},
        charts=draw_rest(facts),
        style=Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),
        script=Markup(folder.joinpath("page.js").read_text(encoding="utf-8")),
        data=Markup(dump_json(make_whatif(facts, cards))),
        short=SHORT,
    )
    return page.encode("utf-8", "replace").decode()


def clip_text(text: str) -> str:
    """The beginning of a text: at most LONG characters and _TEXT_BYTES bytes of HTML, whatever it is made of."""
    room = _TEXT_BYTES
    for i, char in enumerate(text[:LONG]):
        room -= 5 if char in "<>&'\"" else len(char.encode("utf-8", "replace"))
        if room < 0:
            return text[:i] + "…"
    return text[:LONG] + ("…" if len(text) > LONG else "")


def dump_json(value: Any) -> str:
    """JSON that can stand inside a <script> element: nothing in it looks like a tag or a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def list_funnel(facts: Facts) -> list[dict[str, Any]]:
    """One row per outcome: label, documents, bytes, tokens (None where it has no such thing), what is left after it."""
    documents, n_bytes, tokens = (facts.summary[what] for what in ("documents", "bytes", "tokens"))
    rows = [("read", "Read", 1), ("quarantined", "Quarantined: unreadable or empty", -1)]
    rows += [("rejected", "Rejected by rules", -1), ("cleaned", "Cleaned away: line rules, redaction", -1)]
    rows += [(name, name.capitalize(), -1) for name in documents if name not in {*_KNOWN}]
    rows += [("duplicate", "Duplicates", -1), ("packed", "Packed", 1)]
    listed = []
    for name, label, sign in rows:
        counts = {"documents": documents.get(name), "bytes": n_bytes.get(name)}
        counts["tokens"] = tokens["packed"] if name == "packed" else None
        shares = {"documents": (counts["documents"] or 0) / max(documents["read"], 1)}
        shares["bytes"] = max(counts["bytes"] or 0, 0) / max(n_bytes["read"], 1)
        listed.append({"name": name, "label": label, "is_loss": sign < 0, **counts, "shares": shares})
    return listed


_KNOWN = ("read", "quarantined", "rejected", "duplicate", "packed")


class Card:
    """A rule as the page shows it: counts, chart, slider, examples."""

    def __init__(self, findings: Findings, rule: RuleFact) -> None:
        tally = findings.tally
        self.rule = rule
        self.counts = {what: tally.get(f"rules/{rule.name}/{what}", 0) for what in ("failed", "alone", "first")}
        read = max(tally["bytes/read"], 1)
        self.share_failed = tally.get(f"bytes/{rule.name}/failed", 0) / read
        self.share_alone = tally.get(f"bytes/{rule.name}/alone", 0) / read
        self.failing: Sequence[Example] = findings.failing[rule.name]
        self.passing: Sequence[Example] = findings.passing[rule.name]
        self.chart: Chart | None = None
        self.stops: list[float] = []
        self.stop_places: list[float] = []
        if rule.metric in findings.kept:
            sample = findings.sample.metrics[rule.metric]
            self.stops = make_stops(rule, sample)
            marks = [rule.bound] if rule.published is None else [rule.bound, rule.published]
            self.chart = draw_histogram(findings.kept[rule.metric], findings.rejected[rule.metric], marks)
            self.stop_places = [self.chart.place(stop) for stop in self.stops]

    @property
    def at(self) -> int:
        """Which stop is the run's bound."""
        return self.stops.index(self.rule.bound)

    @property
    def sense(self) -> str:
        """The rule in words, before its bound."""
        return {"below": "at least", "above": "at most", "not_above": "above", "not_in": "one of"}[self.rule.fails]

    @property
    def bound(self) -> str:
        """The bound in words."""
        return ", ".join(self.rule.labels) if self.rule.labels else f"{self.rule.bound:g}"


def make_cards(findings: Findings) -> list[Card]:
    """The rules in recipe order, those that are off behind the others of their recipe."""
    order: dict[str, int] = {}
    for rule in findings.rules:
        order.setdefault(rule.name.partition(".")[0], len(order))
    ordered = sorted(findings.rules, key=lambda rule: order[rule.name.partition(".")[0]])
    return [Card(findings, rule) for rule in ordered]


def make_whatif(facts: Facts, cards: Sequence[Card]) -> dict[str, Any] | None:
    """The data of the page's "what if": per rule one byte per sampled document; see charts.place_values."""
    findings = facts.findings
    if findings is None:
        return None
    sample, tally = findings.sample, findings.tally
    kept_bytes = tally["bytes/kept"]
    is_packed = facts.summary["tokens"]["packed"] > 0 and facts.state != "running"
    return {
        "run": facts.name,
        "population": tally["documents/kept"] + tally["documents/rejected"],
        "sampled": len(sample.keys),
        "documents": tally["documents/kept"],
        "bytes": kept_bytes,
        "tokensPerByte": facts.summary["tokens"]["packed"] / kept_bytes if is_packed and kept_bytes else None,
        "sizes": _encode(sample.n_bytes.astype("<u4")),
        "rules": [_make_slider(card, findings, sample) for card in cards],
    }


def _make_slider(card: Card, findings: Findings, sample: Sample) -> dict[str, Any]:
    rule = card.rule
    if card.chart is None:  # labels: it passes or not
        column = [r.name for r in findings.rules if r.is_on].index(rule.name)
        places, is_minimum = (~sample.failed[:, column]).astype(np.uint8), True
    else:
        places, is_minimum = place_values(rule, card.stops, sample.metrics[rule.metric])
    return {
        "name": rule.name,
        "isOn": rule.is_on,
        "isMinimum": is_minimum,
        "at": card.at if card.stops else 0,
        "stops": card.stops,
        "x": card.stop_places,
        "places": _encode(places),
    }


def _encode(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def list_overlap(findings: Findings) -> dict[str, Any]:
    """The rules that reject anything, most first, and how many documents each two of them fail together."""
    names = [rule.name for rule in findings.rules if rule.is_on]
    failed = np.diag(findings.overlap)
    chosen = [int(i) for i in np.argsort(-failed, kind="stable")[:24] if failed[i]]
    rows = [
        {
            "name": names[i],
            "cells": [
                {
                    "n": int(findings.overlap[i, j]),
                    "share": float(findings.overlap[i, j] / failed[i]),
                    "is_self": i == j,
                }
                for j in chosen
            ],
        }
        for i in chosen
    ]
    return {"rows": rows, "names": [names[i] for i in chosen]}


def draw_other_metrics(findings: Findings) -> list[tuple[str, Chart]]:
    """Charts of the metrics that no rule shown looks at."""
    shown = {rule.metric for rule in findings.rules}
    return [
        (name, draw_histogram(kept, findings.rejected[name]))
        for name, kept in findings.kept.items()
        if name not in shown
    ]


def list_tops(findings: Findings) -> dict[str, list[dict[str, Any]]]:
    """Tables of names: documents and bytes, kept and rejected; the heaviest by bytes or documents first."""
    tables: dict[str, list[dict[str, Any]]] = {}
    orders = {
        "languages": ["languages/kept/documents", "languages/rejected/documents"],
        "sources": ["sources/kept/documents", "sources/rejected/documents"],
        "folders": ["folders/kept/documents", "folders/rejected/documents"],
        "hosts kept": ["hosts/kept/bytes"],
        "hosts rejected": ["hosts/rejected/bytes"],
    }
    for title, keys in orders.items():
        weights: dict[str, int] = {}
        for key in keys:
            for name, count in findings.top[key].counts.items() if key in findings.top else []:
                weights[name] = weights.get(name, 0) + count
        names = sorted(weights, key=lambda name: (-weights[name], name))[:_TOP]
        what = title.partition(" ")[0]
        rows = [_make_row(findings, what, name) for name in names]
        most = max([row["kept"]["bytes"] + row["rejected"]["bytes"] for row in rows], default=1)
        tables[title] = [{**row, "most": max(most, 1)} for row in rows]
    return tables


def _make_row(findings: Findings, what: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name}
    for side in ("kept", "rejected"):
        row[side] = {unit: findings.top[f"{what}/{side}/{unit}"].counts.get(name, 0) for unit in ("documents", "bytes")}
    return row


def draw_rest(facts: Facts) -> Mapping[str, Chart | None]:
    """Charts of what comes behind the rules."""
    tokens = facts.tokens
    return {
        "lengths": draw_histogram(tokens.lengths) if tokens else None,
        "bytes_per_token": draw_histogram(tokens.bytes_per_token) if tokens else None,
    }
