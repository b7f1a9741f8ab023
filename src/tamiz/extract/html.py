"""A page's bytes to its main text, by one of two engines; pure: the text depends on the page alone.

Reasons why a page has no text: extract_not_html (no tag in it, or the bytes of another format), extract_too_deep (more
open elements than the parser follows: everything behind would be lost without a word), extract_too_large (the same for
one text or attribute), extract_empty (no main text).
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tamiz.extract.charset import decode_page

NESTING_MAX = 2000
"""Elements open at once; resiliparse takes 0.04 s for 2,000 and, growing with the square, 153 s for 100,000."""

_TAG = re.compile(rb"<[a-zA-Z!/?][^<>]*>")
_OTHER_FORMATS = tuple(b"%PDF-|\x89PNG|GIF8|\xff\xd8\xff|PK\x03\x04|\x1f\x8b\x08|RIFF|\xd0\xcf\x11\xe0".split(b"|"))
_CONTROLS = bytes([*range(9), 11, *range(14, 32), 127])  # not in HTML, or not in XML
# The same as character references: one of them, and lxml raises in the midst of trafilatura, which then finds no text.
_CONTROL_REFERENCE = re.compile(
    rb"&#(?:0*(?:[1-8]|11|1[4-9]|2[0-9]|3[01])|x0*(?:[1-8bef]|1[0-9a-f]|fff[ef]))(?:;|(?![0-9a-f]))", re.IGNORECASE
)
_SPACE_BEFORE_BREAK = re.compile(r"[ \t\u00a0]+(?=\n|\Z)")

# Elements that have no end tag, or whose end tag may be left out: they do not nest, or only with others around them.
_FLAT = b"""area base basefont body br col colgroup dd dt embed frame head hr html img input keygen li link meta
optgroup option p param rp rt source tbody td tfoot th thead tr track wbr""".split()


class PageError(Exception):
    """The page has no text; `reason` is its quarantine reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def extract_page(payload: bytes, charset: str | None, engine: str) -> str:
    """The main text of a page: NFC, lines separated by LF, no control characters, never empty.

    `charset` is the label of the HTTP header; `engine` is a key of ENGINES. Raises PageError with the reason when
    there is no text, and whatever the engine raises when it fails.
    """
    if payload.startswith(_OTHER_FORMATS):
        raise PageError("extract_not_html")
    page = decode_page(payload, charset).encode().translate(None, _CONTROLS)
    page = _CONTROL_REFERENCE.sub(b"", page)
    if _TAG.search(page) is None:
        raise PageError("extract_not_html")
    if measure_nesting(page) > NESTING_MAX:
        raise PageError("extract_too_deep")
    text = normalise(ENGINES[engine](page.decode()))
    if not text:
        raise PageError("extract_empty")
    return text


def normalise(text: str) -> str:
    """Unicode NFC, every line break LF, no space before one, no control characters, nothing around it."""
    plain = text.encode(errors="ignore").translate(None, _CONTROLS).decode()
    plain = unicodedata.normalize("NFC", plain.replace("\r\n", "\n").replace("\r", "\n"))
    return _SPACE_BEFORE_BREAK.sub("", plain).strip()


def measure_nesting(page: bytes) -> int:
    """The largest number of elements open at once, by counting tags; UTF-8 or another superset of ASCII.

    Flat elements are left out, so that a thousand `<li>` or `<br>` are not deep; end tags without a start tag close
    nothing. 0.1 ms for a page of 100 KB.
    """
    data = np.frombuffer(page + b" " * 10, dtype=np.uint8)
    at = np.flatnonzero(data[:-10] == ord("<")) + 1
    is_end = data[at] == ord("/")
    names = _read_names(data, at + is_end)
    counts = (names != 0) & ~np.isin(names, _flat_names())
    steps = np.where(counts, np.where(is_end, -1, 1), 0)
    open_now = np.cumsum(steps)
    lowest = np.minimum.accumulate(np.minimum(open_now, 0))
    return int((open_now - lowest).max(initial=0))


def _read_names(data: np.ndarray[Any, np.dtype[np.uint8]], at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The first eight letters or digits of the tag name at each place, in lower case, as one uint64; 0 for no name.

    A name ends at white space, `/` or `>`: `a<b;` in a script is no tag.
    """
    folded, is_end = _letter_tables()
    names = np.zeros(len(at), dtype=np.uint64)
    is_open = np.ones(len(at), dtype=np.bool_)
    is_name = np.zeros(len(at), dtype=np.bool_)
    for i in range(9):
        code = data[at + i]
        letter = folded[code]
        is_name |= is_open & is_end[code] & (i > 0)
        is_open &= letter > 0
        if i < 8:
            names = np.where(is_open, (names << np.uint64(8)) | letter, names)
    return np.where(is_name | is_open, names, np.uint64(0))


@cache
def _letter_tables() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Per byte: its lower-case letter, digit or hyphen as uint64 (else 0), and whether a tag name may end with it."""
    folded = np.zeros(256, dtype=np.uint64)
    for code in b"abcdefghijklmnopqrstuvwxyz0123456789-":
        folded[code] = folded[ord(chr(code).upper())] = code
    is_end = np.zeros(256, dtype=np.bool_)
    is_end[list(b" \t\n\f\r/>")] = True
    return folded, is_end


@cache
def _flat_names() -> np.ndarray[Any, Any]:
    return np.array([int.from_bytes(name[:8], "big") for name in _FLAT], dtype=np.uint64)


def _extract_trafilatura(page: str) -> str:
    """trafilatura's main text: precision before recall, tables kept, comments and links left out.

    Its deduplication, a cache over all pages of the process, stays off, and so does metadata, whose dates it would
    compare with today.
    """
    import trafilatura  # 0.2 s, and only the child that extracts needs it
    from trafilatura.utils import HTML_PARSER

    tree = trafilatura.load_html(page)
    for entry in HTML_PARSER.error_log:
        if entry.type_name == "ERR_RESOURCE_LIMIT":  # 256 open elements, or 10 MB of one text or attribute
            raise PageError("extract_too_deep" if "depth" in entry.message else "extract_too_large")
    if tree is None:
        raise PageError("extract_not_html")
    return trafilatura.extract(tree, options=_choose_options()) or ""


@cache
def _choose_options() -> Any:
    from trafilatura.settings import Extractor

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # pages without a text are counted, not told one by one
    return Extractor(comments=False, tables=True, precision=True, dedup=False, date_params={"max_date": "1970-01-01"})


def _extract_resiliparse(page: str) -> str:
    """resiliparse's main content without comments, post metadata, alternative texts and links."""
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(page, main_content=True, alt_texts=False, links=False, comments=False, post_meta=False)


ENGINES: dict[str, Callable[[str], str]] = {
    "trafilatura": _extract_trafilatura,
    "resiliparse": _extract_resiliparse,
}
