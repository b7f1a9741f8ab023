"""The page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamiz.run.question import Question
from tamiz.run.whatif import ask
from tamiz.store import Folder
from tests.report.conftest import HOSTILE

pytestmark = pytest.mark.slow


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens a run's page from disk; when the test ends, nothing may have gone wrong or been fetched."""
    problems: list[str] = []
    contexts = []

    def open_one(run: Path, name: str = "index.html", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        page.on(
            "request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None
        )
        page.goto((run / "report" / name).as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not problems


def read_numbers(page: Any) -> dict[str, str]:
    return {cell.get_attribute("data-out"): cell.inner_text() for cell in page.locator("#whatif dd[data-out]").all()}


def parse_count(text: str) -> int:
    return int(text.split()[0].replace(",", ""))


def set_slider(page: Any, rule: str, stop: int) -> None:
    page.locator(f'[id="rule-{rule}"] input[type=range]').evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }", stop
    )


def test_it_opens_in_two_seconds_and_every_chart_has_marks(cyber: Path, open_page: Any) -> None:
    page = open_page(cyber)
    seconds = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    assert 0 < seconds < 2
    charts = page.locator(".chart svg[role=img]")
    assert charts.count() >= 30
    for chart in charts.all():
        paths = [path.get_attribute("d") for path in chart.locator("path").all()]
        assert any(paths), chart.get_attribute("aria-label")
        assert re.match(r"Histogram; .*\d documents", chart.get_attribute("aria-label"))
    for section in (
        "funnel",
        "rules",
        "overlap",
        "languages",
        "sources",
        "hosts",
        "lengths",
        "duplicates",
        "quarantine",
    ):
        assert page.locator(f"#{section}").count() == 1
        assert page.locator(f'nav a[href="#{section}"]').count() == 1
    assert (cyber / "report" / "index.html").stat().st_size < 3_000_000


def test_a_threshold_changes_the_counts_to_what_whatif_says(cyber: Path, open_page: Any) -> None:
    page = open_page(cyber)
    names = page.evaluate(
        "JSON.parse(document.getElementById('data').textContent).rules.map(r => [r.name, r.stops, r.at])"
    )
    moved = 0
    for name, stops, at in names:
        for stop in {max(at - 3, 0), min(at + 4, len(stops) - 1)} - {at} if stops else set():
            page.evaluate("document.querySelector('[data-out=reset]').click()")
            set_slider(page, name, stop)
            answer = ask(Folder(cyber), Question(sets=[f"{name}={stops[stop]}"]))
            numbers = read_numbers(page)
            assert parse_count(numbers["documents"]) == answer.tally["documents/after"], (name, stops[stop])
            assert numbers["bytes"].split()[0] == f"{answer.tally['bytes/after'] / 1e6:,.2f}"
            assert abs(parse_count(numbers["tokens"]) - (answer.estimate_tokens("after") or 0)) <= 1
            moved += numbers["documents"].split()[1:] != []
    assert moved > 10
    page.evaluate("document.querySelector('[data-out=reset]').click()")
    before = ask(Folder(cyber), Question()).tally["documents/before"]
    assert read_numbers(page)["documents"] == f"{before:,}"


def test_rules_go_off_and_the_command_says_the_same(cyber: Path, open_page: Any) -> None:
    page = open_page(cyber)
    for rule in ("domain.score_min", "domain.terms_min"):
        page.locator(f'[id="rule-{rule}"] input[type=checkbox]').check()
    set_slider(page, "gopher_quality.n_words_min", 0)
    answer = ask(Folder(cyber), Question(offs=["domain"], sets=["gopher_quality.n_words_min=0"]))
    assert parse_count(read_numbers(page)["documents"]) == answer.tally["documents/after"]
    command = page.locator("[data-out=command]").inner_text()
    assert "--off domain.score_min --off domain.terms_min" in command


def test_by_keyboard_alone(cyber: Path, open_page: Any) -> None:
    page = open_page(cyber)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the numbers"
    slider = page.locator('[id="rule-domain.score_min"] input[type=range]')
    slider.focus()
    before = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != before
    assert slider.get_attribute("aria-label") == "threshold of domain.score_min"
    assert "--set domain.score_min=" in page.locator("[data-out=command]").inner_text()
    assert page.locator("#whatif dl").get_attribute("aria-live") == "polite"


def test_examples_expand(cyber: Path, open_page: Any) -> None:
    page = open_page(cyber)
    card = page.locator('[id="rule-domain.score_min"]')
    document = card.locator(".document").first
    assert not document.is_visible()
    card.locator("details.examples > summary").click()
    assert document.is_visible()
    assert card.locator(".document").count() == 20
    assert len(document.locator("p.text").first.inner_text()) > 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_window_and_text_has_contrast(
    cyber: Path, open_page: Any, scheme: str, width: int
) -> None:
    page = open_page(cyber, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ratio = page.evaluate(
        """() => {
          const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => { v /= 255;
            return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          const paper = light(getComputedStyle(document.body).backgroundColor);
          return ["body", ".dim"].map((s) => light(getComputedStyle(document.querySelector(s)).color))
            .map((ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
        }"""
    )
    assert min(ratio) >= 4.5  # WCAG 2.1, AA


def test_hostile_documents_show_as_text_and_run_nothing(hostile: Path, open_page: Any) -> None:
    page = open_page(hostile)
    for summary in page.locator("details > summary").all():
        summary.evaluate("e => { e.parentElement.open = true; }")
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    texts = page.evaluate("[...document.querySelectorAll('p.text')].map((p) => p.textContent)")
    start = HOSTILE.split("\u202e")[0]
    assert any(text.startswith(start) for text in texts)
    assert page.evaluate("[...document.querySelectorAll('script, img, svg[onload], style')].length") == 3
    assert page.evaluate("document.querySelectorAll('i:not(.k):not(.r), b script').length") == 0
    assert not page.evaluate("[...document.querySelectorAll('a')].some((a) => !a.getAttribute('href').startsWith('#'))")
    set_slider(page, "gopher_quality.n_words_min", 0)
    assert parse_count(read_numbers(page)["documents"]) > 0
