"""The summary as one self-contained HTML page: no script, no network."""

from __future__ import annotations

from importlib import resources

import jinja2

from tamiz.report.summary import Summary


def render_page(summary: Summary) -> str:
    """index.html; every value is escaped."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    source = resources.files("tamiz.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(summary=summary)
