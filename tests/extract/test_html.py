from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.extract.html import ENGINES, PageError, extract_page, measure_nesting, normalise

SENTENCES = [f"The quick brown fox number {i} jumps over the lazy dog, and then it sleeps a while." for i in range(8)]
ARTICLE = "".join(f"<p>{sentence}</p>\n" for sentence in SENTENCES)
PAGE = f"<html><head><title>t</title></head><body><nav><a href=/>X</a></nav><article>{ARTICLE}</article></body></html>"

engines = pytest.mark.parametrize("engine", sorted(ENGINES))


def fail(payload: bytes, engine: str) -> str:
    with pytest.raises(PageError) as info:
        extract_page(payload, None, engine)
    return info.value.reason


@engines
def test_the_article_and_not_the_navigation(engine: str) -> None:
    text = extract_page(PAGE.encode(), None, engine)
    assert [line for line in text.split("\n") if line] == SENTENCES


@engines
def test_nothing_of_the_text_is_lost_to_nul_bytes(engine: str) -> None:
    payload = PAGE.replace("fox", "f\0ox").replace("dog", "dog\x01").encode() + b"\0" * 100
    assert extract_page(payload, None, engine) == extract_page(PAGE.encode(), None, engine)


@engines
def test_text_is_in_normal_form(engine: str) -> None:
    page = PAGE.replace("dog", "cafe\u0301 &#1;&#x1F;&#X0fffe;&#13; &#10;&#31415; dog").replace("\n", "\r\n")
    text = extract_page(page.encode(), None, engine)
    assert "café" in text
    assert "\u7ab7" in text  # 31415: not a control character
    assert unicodedata.is_normalized("NFC", text)
    assert not any(unicodedata.category(char) == "Cc" for char in text.replace("\n", "").replace("\t", ""))


@engines
@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"%PDF-1.7 <b>x</b>", "extract_not_html"),
        (b'{"a": "json"}', "extract_not_html"),
        (b"", "extract_not_html"),
        (b"a < b > c", "extract_not_html"),
        (b"<html><body><script>var a = '<p>x</p>'</script></body></html>", "extract_empty"),
        (b"<html><body>" + b"<div>" * 100_000 + ARTICLE.encode(), "extract_too_deep"),
        (b"<html><body>" + b"<x-y a=b>" * 100_000 + ARTICLE.encode(), "extract_too_deep"),
    ],
)
def test_reasons(payload: bytes, reason: str, engine: str) -> None:
    assert fail(payload, engine) == reason


def test_what_libxml2_would_cut_is_not_half_a_text() -> None:
    """It stops at 256 open elements, and trafilatura would return what came before."""
    page = PAGE.replace("</article>", "<div>" * 300 + "deep" + "</div>" * 300 + ARTICLE + "</article>")
    assert fail(page.encode(), "trafilatura") == "extract_too_deep"


@pytest.mark.parametrize(
    ("page", "n"),
    [
        (b"", 0),
        (b"<div><div></div></div>", 2),
        (b"<div></div>" * 5, 1),
        (b"</b></b><b>", 1),
        (b"<p>a<br>b<p>c<li><IMG src=x>", 0),
        (b"<ul><li><ul><li><UL><li></UL></ul>", 3),
        (b"<blockquote><blockquotes></blockquote>", 2),  # eight letters of a name count
        (b"for(i=0;i<n;i++){ a<b&&c }", 0),
        (b"<div", 1),  # cut short
        (b"<", 0),
        (b"< div><!-- x --><!doctype html>", 0),
        (b"<h1>\n<em\t>", 2),
    ],
)
def test_nesting(page: bytes, n: int) -> None:
    assert measure_nesting(page) == n


@given(st.lists(st.sampled_from(["div", "em", "article", "x-very-long-name"])), st.text(alphabet="ab <&;\n"))
def test_nesting_of_a_chain(names: list[str], text: str) -> None:
    text = text.replace("<", "< ")
    opened = "".join(f"<{name}>{text}" for name in names)
    closed = "".join(f"</{name}>{text}" for name in reversed(names))
    assert measure_nesting((opened + closed).encode()) == len(names)


@given(st.text())
def test_normal_form_is_a_fixed_point(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
