"""From the bytes of a page to its characters: byte order mark, HTTP header, meta element, the bytes themselves.

The order is that of the WHATWG Encoding and HTML standards (2024), with two departures for crawled pages, whose
declarations are often a server's default: bytes that are valid UTF-8 are UTF-8 whatever is declared, and a declared
Latin-1 gives way to a meta element or to bytes that speak another script.
"""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes
from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta\b[^>]{0,1024}?\bcharset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_UTF16 = re.compile(rb"(?P<little>(?:[ \t\r\n]\0)*<\0[!?a-zA-Z]\0)|(?:\0[ \t\r\n])*\0<\0[!?a-zA-Z]")
_META_BYTES = 16 << 10  # the standard looks at the first 1,024; real pages put scripts before it

# Python's codecs that hold all a browser reads under the same label (the standard's own tables are larger too).
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "latin-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "koi8-r": "koi8-u",  # the standard keeps them apart, but only box-drawing characters differ
}
_OTHER_SCRIPTS = frozenset(
    {"cp1251", "cp1253", "cp1255", "cp1256", "cp866", "cp874", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8"}
    | {"koi8-u", "gb18030", "big5hkscs", "cp932", "cp949", "euc_jp"}
)
_OTHER_SCRIPT_BYTES = 64  # bytes outside ASCII that it takes to believe them more than a declared Latin-1
_BROKEN_PER_BYTE = 0.01  # of the bytes outside ASCII: a declaration is believed up to so many broken characters
_NON_ASCII = re.compile(rb"[\x80-\xff]+")


def decode_page(payload: bytes, charset: str | None) -> str:
    """The characters of a page; `charset` is the label of the HTTP header, None when it has none.

    Never fails: bytes that mean nothing in the chosen encoding become U+FFFD.
    """
    for bom, encoding in _BOMS:
        if payload.startswith(bom):
            return payload[len(bom) :].decode(encoding, "replace")
    wide = _find_utf16(payload)
    if wide:
        return payload.decode(wide, "replace")
    declared = [known for known in (find_encoding(charset), find_encoding(find_meta(payload))) if known]
    if payload.isascii():
        return payload.decode("iso2022_jp" if "iso2022_jp" in declared else "ascii", "replace")
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return payload.decode(_choose(payload, declared), "replace")


def find_encoding(label: str | None) -> str | None:
    """The Python codec for a label of the Encoding standard, the widest of its family; None for an unknown one.

    None for UTF-16 too: that is seen in the bytes, and what only claims to be is something else.
    """
    if not label:
        return None
    name = map_encoding_to_html5(label.strip(" \t\"'").lower(), False)
    if name is None:
        return None
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return None
    return None if known.startswith("utf-16") else _WIDER.get(known, known)


def find_meta(payload: bytes) -> str | None:
    """The label that the page's first meta element with a charset declares."""
    match = _META.search(payload, 0, _META_BYTES)
    if match is None:
        return None
    return match[1].decode("ascii")


def _choose(payload: bytes, declared: list[str]) -> str:
    """The encoding of bytes that are not valid UTF-8 as a whole."""
    foreign = sum(map(len, _NON_ASCII.findall(payload)))
    first = [name for name in declared if name != "cp1252"] + [name for name in declared if name == "cp1252"]
    for name in first:
        if name == "cp1252":
            guess = find_encoding(detect_encoding(payload, len(payload))) if foreign >= _OTHER_SCRIPT_BYTES else None
            return guess if guess in _OTHER_SCRIPTS else name
        if _count_broken(payload, name) <= _BROKEN_PER_BYTE * foreign:
            return name
    return _detect(payload, foreign)


def _detect(payload: bytes, foreign: int) -> str:
    guess = find_encoding(detect_encoding(payload, len(payload)))
    if guess == "utf-8" and _count_broken(payload, guess) > _BROKEN_PER_BYTE * foreign:
        # The detector's word for "no idea", Korean for instance; the other one is slower and knows it.
        best = from_bytes(payload).best()
        guess = find_encoding(best.encoding if best else None) or (best.encoding if best else None)
    return guess or "cp1252"


def _count_broken(payload: bytes, encoding: str) -> int:
    return payload.decode(encoding, "replace").count("�")


def _find_utf16(payload: bytes) -> str | None:
    """UTF-16 without a mark, seen by how markup in it begins."""
    match = _UTF16.match(payload)
    return None if match is None else "utf-16-le" if match["little"] else "utf-16-be"
