"""A run over hostile documents, and a real browser."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.run.test_build import ROOT, build

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

HOSTILE = (
    "<script>window.pwned = 1</script></script></style></title></textarea>--><!-- ]]> "
    "<img src=x onerror=\"window.pwned = 2\"> <svg onload='window.pwned = 3'> \" ' ` & &lt; \\u003c {{ 7 * 7 }} "
    "{% raw %} "
    "\u202e\u2066 e\u0301 \ufeff \ufffd \U0001f600 javascript:window.pwned=4 "
)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over texts that try to break out of the page, near every threshold."""
    folder = tmp_path_factory.mktemp("hostile")
    prose = [t for t in pq.read_table(ROOT / "src/tamiz/sample/sample-0.parquet")["text"].to_pylist() if t][:40]
    lines = []
    for i, text in enumerate(prose):
        lines.append({"text": text, "url": f"https://a.example/{i}", "language": "en", "language_score": 0.9})
        words = " ".join(["the", "and", "of", "word"] * (11 + i % 4))
        evil = {"text": HOSTILE + words, "url": f'https://x.example/"><script>window.pwned={i}</script>'}
        lines.append({**evil, "language": "</script><b>en", "language_score": 0.9})
    broken = '{"text": "broken \\ud800 surrogate and the of words", "url": "javascript:alert(1)"}'
    (folder / 'it\'s <i>bad & "odd".jsonl').write_text("\n".join([*map(json.dumps, lines), broken]), encoding="utf-8")
    made = build(
        folder / "run",
        *("--set", "source=lines", "--set", f'sources.lines.paths=["{folder}/*.jsonl"]', "--set", "language=null"),
        *("--set", "rules={gopher_quality: {n_words_min: 55, frac_alpha_words_min: 0.5}}", "--workers", "1"),
        *("--set", "quarantine.max_share=0.02"),  # the broken one is 1 of 81
        config="configs/fineweb-raw.yaml",
    )
    assert made.returncode == 0, made.stderr
    return folder / "run"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium. Without it the tests are skipped, but not in CI."""
    reason = "no Chromium: apt-get install chromium" if CHROMIUM is None else ""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        reason = "no Playwright: pip install playwright"
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"CI must not skip the browser tests: {reason}")
    if reason:
        pytest.skip(reason)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=flags)
        yield chromium
        chromium.close()
