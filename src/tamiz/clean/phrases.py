"""What the line rules of C4 look for inside one line: citations, and phrases in any case. Kernels over UTF-8 bytes."""

from __future__ import annotations

import numba
import numpy as np

from tamiz.schema import I32, U8

# The digit zero of every script with decimal digits, Unicode 14.0; nine more follow each.
_ZEROS: I32 = np.array(
    [
        *(0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50),
        *(0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40),
        *(0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30, 0x11066, 0x110F0),
        *(0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50),
        *(0x11DA0, 0x16A60, 0x16AC0, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950),
        0x1FBF0,
    ],
    dtype=np.int32,
)

# Bytes around which phrases are looked for: the brace, and a letter of each phrase that is rare or stands first.
# U+212A (e2 84 aa) is the only code point outside ASCII whose lower case is a single ASCII letter, k.
_IS_ANCHOR: U8 = np.zeros(256, dtype=np.uint8)
_IS_ANCHOR[list(b"jJkKlLvVfF{\xe2")] = 1


def _bytes(text: str) -> U8:
    return np.frombuffer(text.encode("ascii"), dtype=np.uint8)


_EDIT, _CITATION_NEEDED = _bytes("[edit]"), _bytes("[citation needed]")
_LOREM_IPSUM, _JAVASCRIPT_WORD = _bytes("lorem ipsum"), _bytes("javascript")
_TERMS_OF_USE, _PRIVACY_POLICY = _bytes("terms of use"), _bytes("privacy policy")
_COO, _IE, _POLICY_WORD = _bytes("coo"), _bytes("ie"), _bytes(" policy")
_USE, _USES, _USE_OF = _bytes("use "), _bytes("uses "), _bytes("use of ")


@numba.njit(cache=True, nogil=True)
def count_citation_bytes(data: U8, i: int, stop: int) -> int:
    """Length of the citation that starts with the `[` at byte i; 0 if none does."""
    j = i + 1
    while j < stop:
        size = _digit_bytes(data, j)
        if size == 0:
            break
        j += size
    if j < stop and data[j] == 93:
        return j + 1 - i
    if _matches(data, i, i, stop, _EDIT, False):
        return len(_EDIT)
    if _matches(data, i, i, stop, _CITATION_NEEDED, False):
        return len(_CITATION_NEEDED)
    return 0


@numba.njit(cache=True, nogil=True)
def _digit_bytes(data: U8, i: int) -> int:
    """Length of the decimal digit that starts at byte i; 0 if none does."""
    lead = np.int32(data[i])
    if lead < 0x80:
        return 1 if 48 <= lead <= 57 else 0
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    cp = lead & (0x7F >> size)
    for k in range(1, size):
        cp = cp << 6 | (data[i + k] & 0x3F)
    zero = np.searchsorted(_ZEROS, cp, side="right") - 1
    return size if cp - _ZEROS[zero] < 10 else 0


@numba.njit(cache=True, nogil=True)
def find_phrases(data: U8, start: int, end: int) -> tuple[bool, bool, bool, bool]:
    """Whether the line at bytes [start, end) has, in its lower case, "lorem ipsum"; "javascript"; `{`; and one of
    "terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"."""
    has_lorem_ipsum = has_javascript = has_curly_bracket = has_policy = False
    for i in range(start, end):
        byte = data[i]
        if not _IS_ANCHOR[byte]:
            continue
        if byte == 123:
            has_curly_bracket = True
            continue
        letter = byte | 0x20
        if letter == 108:  # l
            has_lorem_ipsum = has_lorem_ipsum or _matches(data, i, start, end, _LOREM_IPSUM, True)
        elif letter == 106:  # j
            has_javascript = has_javascript or _matches(data, i, start, end, _JAVASCRIPT_WORD, True)
        elif letter == 118:  # v
            has_policy = has_policy or _matches(data, i - 3, start, end, _PRIVACY_POLICY, True)
        elif letter == 102:  # f
            has_policy = has_policy or _matches(data, i - 7, start, end, _TERMS_OF_USE, True)
        elif letter == 107:  # k
            has_policy = has_policy or _is_cookie_phrase(data, i, i + 1, start, end)
        elif byte == 0xE2 and data[i + 1] == 0x84 and data[i + 2] == 0xAA:
            has_policy = has_policy or _is_cookie_phrase(data, i, i + 3, start, end)
    return has_lorem_ipsum, has_javascript, has_curly_bracket, has_policy


@numba.njit(cache=True, nogil=True)
def _is_cookie_phrase(data: U8, before: int, after: int, start: int, end: int) -> bool:
    """Whether the k at bytes [before, after) is that of "cookie policy", "use cookies", "uses cookies" or
    "use of cookies"."""
    if not (_matches(data, before - 3, start, end, _COO, True) and _matches(data, after, start, end, _IE, True)):
        return False
    after += 2
    if after < end and data[after] | 0x20 == 115:
        word = before - 3
        return (
            _matches(data, word - len(_USE), start, end, _USE, True)
            or _matches(data, word - len(_USES), start, end, _USES, True)
            or _matches(data, word - len(_USE_OF), start, end, _USE_OF, True)
        )
    return _matches(data, after, start, end, _POLICY_WORD, True)


@numba.njit(cache=True, nogil=True)
def _matches(data: U8, i: int, start: int, end: int, phrase: U8, fold: bool) -> bool:
    """Whether `phrase` stands at byte i of the line [start, end); `fold` ignores the case of ASCII letters."""
    if i < start or i + len(phrase) > end:
        return False
    for k in range(len(phrase)):
        byte = data[i + k]
        if fold and 65 <= byte <= 90:
            byte |= np.uint8(0x20)
        if byte != phrase[k]:
            return False
    return True
