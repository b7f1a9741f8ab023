"""Replace e-mail addresses and public IPv4 addresses.

datatrove 0.10.1 (`PIIFormatter`) replaces them by addresses taken in turn from a list, so that its output depends on
the documents read before; its IPv4 pattern also matches inside longer numbers. Here one document gives one output,
applying it twice changes nothing, and no byte outside a match is touched.

E-mail address: `local@domain` in ASCII.
- local: one or more of letters, digits and `_ % + - '`, in atoms joined by single dots (RFC 5322 dot-atom without the
  characters that quoting and URLs put around addresses: `! # $ & * / = ? ^ { | } ~` and the backquote). It begins with
  a letter, a digit or `_`: what stands before that in the run stays in the text.
- domain: labels joined by single dots; a label is letters, digits and hyphens and begins with a letter or digit. The
  match ends after the last label but the first that begins with two or more letters not followed by a digit, so
  `a@b.org.` and `a@b.org-x` lose `a@b.org`.
Non-ASCII text may touch either side (Chinese puts no space around an address). Internationalised addresses and domains
are not recognised.

IPv4 address: four decimal numbers 0..255 without leading zeros, joined by single dots, not beside a letter, a digit or
`_`, not after a dot, nor before a dot and a letter or digit: the version 1.2.3.4.5 stays. Only public addresses, those
`ipaddress` calls global: private, loopback, link-local, shared, documentation and reserved ones name nobody.
IPv6 addresses are not recognised.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numba
import numpy as np
import pyarrow as pa

from tamiz.schema import I32, I64, U8, make_text, view_text

KINDS = ("email", "ip")
EMAIL = b"email@example.com"  # RFC 2606: example.com is nobody's
IP = b"192.0.2.1"  # RFC 5737 (TEST-NET-1): nobody's, and not public, so that a second pass leaves it alone

_EMAIL_BYTES: U8 = np.frombuffer(EMAIL, dtype=np.uint8)
_IP_BYTES: U8 = np.frombuffer(IP, dtype=np.uint8)

_LETTER, _DIGIT, _LOCAL, _DOT, _HYPHEN, _UNDERSCORE = 1, 2, 4, 8, 16, 32
_ALNUM = _LETTER | _DIGIT
_LABEL = _ALNUM | _HYPHEN
_AT_SIGN, _DOT_BYTE, _ZERO = 64, 46, 48


def _make_classes() -> U8:
    """Class bits of every byte, uint8[256]; bytes of non-ASCII characters have none."""
    classes: U8 = np.zeros(256, dtype=np.uint8)
    for byte in range(128):
        char = chr(byte)
        if char.isalpha():
            classes[byte] = _LETTER | _LOCAL
        elif char.isdecimal():
            classes[byte] = _DIGIT | _LOCAL
    for char in "%+'":
        classes[ord(char)] = _LOCAL
    classes[ord("-")] = _HYPHEN | _LOCAL
    classes[ord("_")] = _UNDERSCORE | _LOCAL
    classes[ord(".")] = _DOT
    return classes


_CLASSES = _make_classes()

# First and last address of the blocks that are not public, from IANA's special-purpose registry. 192.0.0.0/24 is
# taken whole: Python's `ipaddress` changed its mind about parts of it between 3.11 and 3.13.
_NOT_PUBLIC: I64 = np.array(
    [
        (0x00000000, 0x00FFFFFF),  # 0.0.0.0/8
        (0x0A000000, 0x0AFFFFFF),  # 10.0.0.0/8
        (0x64400000, 0x647FFFFF),  # 100.64.0.0/10
        (0x7F000000, 0x7FFFFFFF),  # 127.0.0.0/8
        (0xA9FE0000, 0xA9FEFFFF),  # 169.254.0.0/16
        (0xAC100000, 0xAC1FFFFF),  # 172.16.0.0/12
        (0xC0000000, 0xC00000FF),  # 192.0.0.0/24
        (0xC0000200, 0xC00002FF),  # 192.0.2.0/24
        (0xC0A80000, 0xC0A8FFFF),  # 192.168.0.0/16
        (0xC6120000, 0xC613FFFF),  # 198.18.0.0/15
        (0xC6336400, 0xC63364FF),  # 198.51.100.0/24
        (0xCB007100, 0xCB0071FF),  # 203.0.113.0/24
        (0xF0000000, 0xFFFFFFFF),  # 240.0.0.0/4
    ],
    dtype=np.int64,
)


class Redacted(NamedTuple):
    """`text` with n rows as given; `n_emails`, `n_ips` int32[n]: addresses replaced (one that already is the
    replacement is neither counted nor changed)."""

    text: pa.LargeStringArray
    n_emails: I32
    n_ips: I32


def redact(text: pa.LargeStringArray, kinds: Collection[str]) -> Redacted:
    """Replace the addresses of these kinds ("email", "ip") in every document; nulls are an error (SchemaError).

    The array itself comes back when nothing matches. With both kinds, IPv4 addresses are looked for outside the
    e-mail addresses.
    """
    offsets, data = view_text(text)
    n_docs = len(text)
    n_emails: I32 = np.zeros(n_docs, dtype=np.int32)
    n_ips: I32 = np.zeros(n_docs, dtype=np.int32)
    n_at_signs, n_digit_dots = _count_candidates(offsets, data)
    max_emails = int(n_at_signs) if "email" in kinds else 0
    max_ips = int(n_digit_dots) // 3 if "ip" in kinds else 0
    if max_emails + max_ips == 0:
        return Redacted(text, n_emails, n_ips)
    emails: I64 = np.empty((max_emails, 2), dtype=np.int64)
    if max_emails:
        emails = emails[: _find_emails(offsets, data, _CLASSES, _EMAIL_BYTES, emails, n_emails)]
    ips: I64 = np.empty((max_ips, 2), dtype=np.int64)
    if max_ips:
        ips = ips[: _find_ips(offsets, data, _CLASSES, _NOT_PUBLIC, emails, ips, n_ips)]
    if len(emails) + len(ips) == 0:
        return Redacted(text, n_emails, n_ips)
    new_offsets, new_data = _replace(offsets, data, emails, ips, _EMAIL_BYTES, _IP_BYTES)
    return Redacted(make_text(new_offsets, new_data), n_emails, n_ips)


@numba.njit(cache=True, nogil=True)
def _count_candidates(offsets: I64, data: U8) -> tuple[int, int]:
    """Bytes `@`, and dots after a digit, in all documents: what bounds the number of matches."""
    n_at_signs = 0
    n_digit_dots = 0
    previous = np.uint8(0)
    for i in range(offsets[0], offsets[-1]):
        byte = data[i]
        n_at_signs += byte == _AT_SIGN
        n_digit_dots += (byte == _DOT_BYTE) & (np.uint8(previous - _ZERO) < 10)
        previous = byte
    return n_at_signs, n_digit_dots


@numba.njit(cache=True, nogil=True)
def _find_emails(offsets: I64, data: U8, classes: U8, replacement: U8, spans: I64, n_emails: I32) -> int:
    """Fill `spans` with [start, end) of the e-mail addresses to replace, in order; return how many.

    Every byte is looked at once forward and at most once backward: a local part ends at the `@` before it.
    """
    n_spans = 0
    for doc in range(len(offsets) - 1):
        floor = offsets[doc]
        end = offsets[doc + 1]
        for at_sign in range(floor, end):
            if data[at_sign] != _AT_SIGN:
                continue
            start = _find_local_start(data, floor, at_sign, classes)
            if start < at_sign:
                stop = _find_domain_end(data, at_sign + 1, end, classes)
                if stop > 0:
                    floor = stop
                    if not _is_same(data, start, stop, replacement):
                        spans[n_spans, 0] = start
                        spans[n_spans, 1] = stop
                        n_spans += 1
                        n_emails[doc] += 1
                    continue
            floor = at_sign + 1
    return n_spans


@numba.njit(cache=True, nogil=True)
def _find_local_start(data: U8, floor: int, at_sign: int, classes: U8) -> int:
    """Where the local part that ends before `at_sign` begins, not before `floor`; `at_sign` if there is none."""
    i = at_sign
    while i > floor:
        kind = classes[data[i - 1]]
        if not kind & _LOCAL and not (kind & _DOT and i < at_sign and data[i] != _DOT_BYTE):
            break
        i -= 1
    while i < at_sign and not classes[data[i]] & (_ALNUM | _UNDERSCORE):
        i += 1
    return i


@numba.njit(cache=True, nogil=True)
def _find_domain_end(data: U8, start: int, end: int, classes: U8) -> int:
    """Where the domain that begins at `start` ends; -1 if there is none."""
    found = -1
    i = start
    while i < end and classes[data[i]] & _ALNUM:
        label = i
        while i < end and classes[data[i]] & _LETTER:
            i += 1
        if label > start and i - label >= 2 and (i == end or not classes[data[i]] & _DIGIT):
            found = i
        while i < end and classes[data[i]] & _LABEL:
            i += 1
        if i == end or data[i] != _DOT_BYTE:
            break
        i += 1
    return found


@numba.njit(cache=True, nogil=True)
def _is_same(data: U8, start: int, end: int, other: U8) -> bool:
    if end - start != len(other):
        return False
    for k in range(len(other)):  # noqa: SIM110 (numba has no generator expressions)
        if data[start + k] != other[k]:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def _find_ips(offsets: I64, data: U8, classes: U8, not_public: I64, emails: I64, spans: I64, n_ips: I32) -> int:
    """Fill `spans` with [start, end) of the public IPv4 addresses outside `emails`, in order; return how many."""
    n_spans = 0
    email = 0
    for doc in range(len(offsets) - 1):
        end = offsets[doc + 1]
        i = offsets[doc] + 1
        while i < end - 1:
            if data[i] != _DOT_BYTE or not classes[data[i - 1]] & _DIGIT:
                i += 1
                continue
            start = i - 1
            while start > offsets[doc] and classes[data[start - 1]] & _DIGIT:
                start -= 1
            while i < end and classes[data[i]] & (_DIGIT | _DOT):
                i += 1
            stop = _find_ip_end(data, start, i, not_public)
            if stop < 0 or not _is_apart(data, offsets[doc], start, stop, end, classes):
                continue
            while email < len(emails) and emails[email, 1] <= start:
                email += 1
            if email < len(emails) and emails[email, 0] < stop:
                continue
            spans[n_spans, 0] = start
            spans[n_spans, 1] = stop
            n_spans += 1
            n_ips[doc] += 1
    return n_spans


@numba.njit(cache=True, nogil=True)
def _find_ip_end(data: U8, start: int, end: int, not_public: I64) -> int:
    """Where the public IPv4 address that begins at `start` ends; -1 if there is none. [start, end) has only digits
    and dots."""
    address = 0
    i = start
    for octet in range(4):
        if octet:
            if i == end or data[i] != _DOT_BYTE:
                return -1
            i += 1
        first = i
        value = 0
        while i < end and i - first < 3 and data[i] != _DOT_BYTE:
            value = value * 10 + data[i] - _ZERO
            i += 1
        if i == first or value > 255 or (i - first > 1 and data[first] == _ZERO):
            return -1
        address = address * 256 + value
    for block in range(len(not_public)):
        if not_public[block, 0] <= address <= not_public[block, 1]:
            return -1
    return i


@numba.njit(cache=True, nogil=True)
def _is_apart(data: U8, floor: int, start: int, stop: int, end: int, classes: U8) -> bool:
    """Whether [start, stop) is not a piece of a longer number, name or dotted version."""
    if start > floor and classes[data[start - 1]] & (_ALNUM | _UNDERSCORE | _DOT):
        return False
    if stop == end:
        return True
    if data[stop] == _DOT_BYTE:
        return stop + 1 == end or not classes[data[stop + 1]] & (_ALNUM | _UNDERSCORE)
    return not classes[data[stop]] & (_ALNUM | _UNDERSCORE)


@numba.njit(cache=True, nogil=True)
def _replace(offsets: I64, data: U8, emails: I64, ips: I64, email: U8, ip: U8) -> tuple[I64, U8]:
    """The documents with the spans replaced: offsets int64[n + 1] from 0 and their bytes."""
    size = offsets[-1] - offsets[0]
    for k in range(len(emails)):
        size += len(email) - (emails[k, 1] - emails[k, 0])
    for k in range(len(ips)):
        size += len(ip) - (ips[k, 1] - ips[k, 0])
    new_data = np.empty(size, dtype=np.uint8)
    new_offsets = np.zeros(len(offsets), dtype=np.int64)
    next_email = 0
    next_ip = 0
    out = 0
    for doc in range(len(offsets) - 1):
        i = offsets[doc]
        end = offsets[doc + 1]
        while i < end:
            email_start = emails[next_email, 0] if next_email < len(emails) else end
            ip_start = ips[next_ip, 0] if next_ip < len(ips) else end
            stop = min(email_start, ip_start, end)
            new_data[out : out + stop - i] = data[i:stop]
            out += stop - i
            i = stop
            if stop == end:
                break
            if email_start < ip_start:
                new_data[out : out + len(email)] = email
                out += len(email)
                i = emails[next_email, 1]
                next_email += 1
            else:
                new_data[out : out + len(ip)] = ip
                out += len(ip)
                i = ips[next_ip, 1]
                next_ip += 1
        new_offsets[doc + 1] = out
    return new_offsets, new_data
