"""Whether a piece of a chunk is a URL as spaCy 3.8 sees it (`spacy.lang.tokenizer_exceptions.URL_PATTERN`).

The pattern is [scheme://] [anything@] host [:port] [/ ? or # and anything], anchored at both ends. A chunk has no
whitespace, so "anything" is any text: the host may start at the front, after the scheme, or after any "@" but a first.
Each candidate is read once, forward, and ends before the next "@": the whole test is linear.
"""

from __future__ import annotations

from numba import njit

from tamiz.measure import chars as classes
from tamiz.measure.affixes import Chunk, is_digit

_LOWER, _ND, _WORD = classes.LOWER, classes.ND, classes.WORD
_COLON, _SLASH, _QUESTION, _HASH, _HYPHEN, _UNDERSCORE = ord(":"), ord("/"), ord("?"), ord("#"), ord("-"), ord("_")
_STOP, _ONE, _NINE, _TWO, _ZERO, _THREE = ord("."), ord("1"), ord("9"), ord("2"), ord("0"), ord("3")
_FOUR, _FIVE, _PLUS, _AT = ord("4"), ord("5"), ord("+"), ord("@")
_AFTER_HOST = (_COLON, _SLASH, _QUESTION, _HASH)
_N_LABEL_CHARS_MAX = 64
_N_TLD_CHARS_MAX = 63


@njit(cache=True, nogil=True)
def is_host_char(point: int) -> bool:
    """[A-Za-z0-9\\u00a1-\\uffff]"""
    return 48 <= point <= 57 or 65 <= point <= 90 or 97 <= point <= 122 or 0xA1 <= point <= 0xFFFF


@njit(cache=True, nogil=True)
def is_tail(chunk: Chunk, i: int, high: int) -> bool:
    """Whether [i, high) is an optional port and an optional path."""
    if i < high and chunk.points[i] == _COLON:
        first = i + 1
        i = first
        while i < high and chunk.flags[i] & _ND:
            i += 1
        if not 2 <= i - first <= 5:
            return False
    return i == high or chunk.points[i] in (_SLASH, _QUESTION, _HASH)


@njit(cache=True, nogil=True)
def is_label(chunk: Chunk, low: int, high: int) -> bool:
    """Whether [low, high) is a part of a host name: 1 to 64 characters, "-" and "_" only inside."""
    if not 1 <= high - low <= _N_LABEL_CHARS_MAX:
        return False
    if not (is_host_char(chunk.points[low]) and is_host_char(chunk.points[high - 1])):
        return False
    for i in range(low + 1, high - 1):
        point = chunk.points[i]
        if not (is_host_char(point) or point in (_HYPHEN, _UNDERSCORE)):
            return False
    return True


@njit(cache=True, nogil=True)
def match_name(chunk: Chunk, low: int, high: int) -> bool:
    """Whether [low, high) is a host name, a port and a path: labels, each with its dot, then 2 to 63 lower-case
    letters."""
    label, i = low, low
    while i < high:
        point = chunk.points[i]
        if point == _STOP:
            if not is_label(chunk, label, i):
                return False
            label = i + 1
        elif point in _AFTER_HOST:
            break
        elif point == _AT:  # keeps the test linear: another candidate starts there
            return False
        i += 1
    if label == low or not 2 <= i - label <= _N_TLD_CHARS_MAX:
        return False
    for k in range(label, i):
        if not chunk.flags[k] & _LOWER:
            return False
    return is_tail(chunk, i, high)


@njit(cache=True, nogil=True)
def is_octet(chunk: Chunk, low: int, high: int, place: int) -> bool:
    """Whether [low, high) is allowed at this place (0 to 3) of an address; a digit without a bound is any script's.

    First: 1 to 223, no leading zero; second and third: up to three digits, 0 to 255; last: 1 to 254, no leading zero.
    """
    n = high - low
    if not 1 <= n <= 3:
        return False
    for i in range(low, high):
        if not chunk.flags[i] & _ND:
            return False
    first = chunk.points[low]
    is_middle = place in (1, 2)
    if n < 3:
        return is_middle or _ONE <= first <= _NINE
    if first == _ONE:
        return True
    if first != _TWO:
        return False
    second, third = chunk.points[low + 1], chunk.points[low + 2]
    if place == 0:
        return second in (_ZERO, _ONE) or (second == _TWO and _ZERO <= third <= _THREE)
    if _ZERO <= second <= _FOUR:
        return True
    return bool(second == _FIVE and _ZERO <= third <= (_FIVE if is_middle else _FOUR))


@njit(cache=True, nogil=True)
def read_number(chunk: Chunk, low: int, high: int) -> int:
    """The value of the ASCII digits [low, high); -1 when another script's digit is among them."""
    value = 0
    for i in range(low, high):
        if not is_digit(chunk.points[i]):
            return -1
        value = value * 10 + chunk.points[i] - 48
    return value


@njit(cache=True, nogil=True)
def match_address(chunk: Chunk, low: int, high: int) -> bool:
    """Whether [low, high) is a public IPv4 address, a port and a path."""
    start, first, second = low, -1, -1
    for place in range(4):
        end = start
        while end < high and end - start <= 3 and chunk.flags[end] & _ND:
            end += 1
        if not is_octet(chunk, start, end, place):
            return False
        if place == 0:
            first = read_number(chunk, start, end)
        elif place == 1:
            second = read_number(chunk, start, end)
        if place < 3:
            if end == high or chunk.points[end] != _STOP:
                return False
            end += 1
        start = end
    if first == 10 or first == 127 or (first == 169 and second == 254) or (first == 192 and second == 168):
        return False
    if first == 172 and 16 <= second <= 31:
        return False
    return is_tail(chunk, start, high)


@njit(cache=True, nogil=True)
def find_scheme(chunk: Chunk, low: int, high: int) -> int:
    """The position after "scheme://", or -1 when [low, high) does not start with one."""
    i = low
    while i < high:
        point = chunk.points[i]
        if not (chunk.flags[i] & _WORD or point in (_PLUS, _HYPHEN, _STOP)):
            break
        i += 1
    if i - low < 2 or i + 2 >= high:
        return -1
    is_scheme = chunk.points[i] == _COLON and chunk.points[i + 1] == _SLASH and chunk.points[i + 2] == _SLASH
    return i + 3 if is_scheme else -1


@njit(cache=True, nogil=True)
def is_host(chunk: Chunk, low: int, high: int) -> bool:
    """Whether [low, high) is a host, a port and a path."""
    return low < high and (match_name(chunk, low, high) or match_address(chunk, low, high))


@njit(cache=True, nogil=True)
def has_stop(chunk: Chunk, low: int, high: int) -> bool:
    """Whether there is a full stop within [low, high), its ends left out."""
    for i in range(low + 1, high - 1):  # noqa: SIM110 (numba has no any() of a generator)
        if chunk.points[i] == _STOP:
            return True
    return False


@njit(cache=True, nogil=True)
def is_url(chunk: Chunk, low: int, high: int) -> bool:
    """Whether [low, high) is a URL as a whole."""
    if not has_stop(chunk, low, high):  # as most are, and no host is
        return False
    if is_host(chunk, low, high):
        return True
    after_scheme = find_scheme(chunk, low, high)
    if after_scheme >= 0 and is_host(chunk, after_scheme, high):
        return True
    for i in range(low + 1, high - 1):  # noqa: SIM110 (numba has no any() of a generator)
        if chunk.points[i] == _AT and is_host(chunk, i + 1, high):
            return True
    return False
