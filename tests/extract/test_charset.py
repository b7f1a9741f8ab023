from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.extract.charset import decode_page, find_encoding

RUSSIAN = "Все люди рождаются свободными и равными в своём достоинстве и правах. " * 5
GREEK = "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια. " * 5
FRENCH = "Tous les êtres humains naissent libres et égaux en dignité et en droits, à Noël. " * 5
JAPANESE = "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。" * 5
CHINESE = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。" * 5
KOREAN = "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. " * 5


def make_page(text: str, declared: str = "") -> str:
    meta = f'<meta http-equiv="Content-Type" content="text/html; charset={declared}">' if declared else ""
    return f"<html><head>{meta}<title>t</title></head><body><p>{text}</p></body></html>"


CASES = [  # text, encoded as, header, meta
    (FRENCH, "utf-8", None, ""),
    (FRENCH, "utf-8", "iso-8859-1", "iso-8859-1"),  # both declarations wrong
    (FRENCH, "cp1252", "iso-8859-1", ""),
    (FRENCH + "“quoted” – dash", "cp1252", "iso-8859-1", ""),  # Latin-1 has no quotes: browsers read cp1252
    (FRENCH, "cp1252", "utf-8", ""),
    (RUSSIAN, "cp1251", "windows-1251", ""),
    (RUSSIAN, "cp1251", None, "windows-1251"),
    (RUSSIAN, "cp1251", "ISO-8859-1", "windows-1251"),  # the server's default
    (RUSSIAN, "cp1251", "ISO-8859-1", ""),
    (RUSSIAN, "koi8-r", "utf-8", "utf-8"),
    (RUSSIAN, "koi8-r", None, ""),
    (GREEK, "iso8859-7", None, ""),
    (JAPANESE, "cp932", "Shift_JIS", ""),
    (JAPANESE, "euc_jp", None, "x-euc-jp"),
    (JAPANESE, "iso2022_jp", None, "iso-2022-jp"),
    (JAPANESE, "cp932", "utf-8", ""),
    (CHINESE + "镕", "gb18030", "gb2312", ""),  # pages that say GB2312 use more than it has
    (CHINESE, "gb18030", None, ""),
    (KOREAN + "똠", "cp949", "euc-kr", ""),
    (KOREAN, "cp949", None, ""),
    (KOREAN, "cp949", "nonsense", ""),
    (RUSSIAN, "utf-16-le", None, ""),
    (FRENCH, "utf-16-be", None, ""),
]


@pytest.mark.parametrize(("text", "encoding", "header", "meta"), CASES)
def test_decodes_what_was_encoded(text: str, encoding: str, header: str | None, meta: str) -> None:
    page = make_page(text, meta)
    assert decode_page(page.encode(encoding), header) == page


@pytest.mark.parametrize(
    ("bom", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_a_mark_wins(bom: bytes, encoding: str) -> None:
    page = make_page(RUSSIAN, "koi8-r")
    assert decode_page(bom + page.encode(encoding), "windows-1252") == page


def test_a_few_broken_bytes_do_not_change_the_encoding() -> None:
    payload = make_page(RUSSIAN).encode()
    at = payload.index("и".encode()) + 1
    assert decode_page(payload[:at] + payload[at + 1 :], "utf-8").replace("�", "и") == make_page(RUSSIAN)


@pytest.mark.parametrize(
    ("label", "expected"),  # https://encoding.spec.whatwg.org/#names-and-labels
    [
        ("latin1", "cp1252"),
        ("US-ASCII", "cp1252"),
        ('"UTF-8"', "utf-8"),
        ("ks_c_5601-1987", "cp949"),
        ("x-sjis", "cp932"),
        ("nonsense", None),
        ("utf-16", None),
        ("", None),
        (None, None),
    ],
)
def test_labels(label: str | None, expected: str | None) -> None:
    assert find_encoding(label) == expected


@given(st.binary(max_size=400), st.none() | st.text(max_size=12) | st.sampled_from(["gbk", "euc-jp", "utf-7", "hex"]))
def test_never_fails(payload: bytes, label: str | None) -> None:
    decode_page(payload, label).encode()


@given(st.text())
def test_utf8_is_utf8_whatever_is_declared(text: str) -> None:
    page = make_page(text.replace("\0", ""), "shift_jis")
    assert page.isascii() or decode_page(page.encode(), "iso-8859-1") == page
