"""Redaction against regular expressions that state the same grammar, and `ipaddress` for what is public."""

from __future__ import annotations

import ipaddress
import re

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamiz.clean.redact import EMAIL, IP, KINDS, redact
from tamiz.errors import SchemaError

ATOM = r"[A-Za-z0-9_%+'-]+"
STATED_EMAIL = re.compile(
    rf"[A-Za-z0-9_][A-Za-z0-9_%+'-]*(?:\.{ATOM})*@(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{{2,}}(?![A-Za-z0-9])"
)
OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
STATED_IP = re.compile(rf"(?<![A-Za-z0-9_.]){OCTET}(?:\.{OCTET}){{3}}(?![A-Za-z0-9_])(?!\.[A-Za-z0-9_])")

PIECES = [
    *("a", "Bob", "x1", "com", "org", "c0m", "é", "京", "😀", "co", "de-x", "0", "1", "8", "25", "255", "256", "010"),
    *("@", ".", "-", "_", "+", "%", "'", "=", ":", "/", " ", "\n", ",", "\u00a0"),
    *("a@b.co", "1.2.3.4", "8.8.8.8", "10.0.0.1", "192.0.2.1", "email@example.com", "1.1.1.1", "@x.y.zz"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def is_public(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    # parts of 192.0.0.0/24 are global or not depending on Python's patch version
    return parsed.is_global and parsed not in ipaddress.ip_network("192.0.0.0/24")


def state_redaction(text: str, kinds: tuple[str, ...]) -> tuple[str, int, int]:
    emails = [match.span() for match in STATED_EMAIL.finditer(text)] if "email" in kinds else []
    spans = [(start, end, EMAIL.decode()) for start, end in emails if text[start:end].encode() != EMAIL]
    n_emails = len(spans)
    for match in STATED_IP.finditer(text) if "ip" in kinds else []:
        is_in_email = any(start < match.end() and match.start() < end for start, end in emails)
        if is_public(match.group()) and not is_in_email:
            spans.append((*match.span(), IP.decode()))
    new = text
    for start, end, replacement in sorted(spans, reverse=True):
        new = new[:start] + replacement + new[end:]
    return new, n_emails, len(spans) - n_emails


@settings(deadline=None)  # the first call compiles
@given(st.lists(TEXTS, min_size=1, max_size=5), st.sampled_from([(), ("email",), ("ip",), KINDS]))
@example(["1.2.3.4@b.co", "a@1.2.3.4", "a@b.co@8.8.8.8"], KINDS)
@example(["a@b.co.8.8.8.8 a@email@example.com 8.8.8.8.a@b.co"], KINDS)
def test_every_document_follows_the_statement_of_the_grammar(texts: list[str], kinds: tuple[str, ...]) -> None:
    redacted = redact(pa.array(texts, pa.large_string()), kinds)
    redacted.text.validate(full=True)
    expected = [state_redaction(text, kinds) for text in texts]
    assert redacted.text.to_pylist() == [text for text, _, _ in expected]
    assert redacted.n_emails.tolist() == [n_emails for _, n_emails, _ in expected]
    assert redacted.n_ips.tolist() == [n_ips for _, _, n_ips in expected]


@settings(deadline=None)
@given(st.lists(TEXTS | st.text(), min_size=1, max_size=5), st.sampled_from([("email",), ("ip",), KINDS]))
def test_a_second_pass_changes_and_counts_nothing(texts: list[str], kinds: tuple[str, ...]) -> None:
    once = redact(pa.array(texts, pa.large_string()), kinds)
    twice = redact(once.text, kinds)
    assert twice.text is once.text
    assert twice.n_emails.sum() == twice.n_ips.sum() == 0


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Write to jane.doe+news@mail.example.co.uk.", "Write to email@example.com."),
        ("<a href='mailto:jane@corp.org'>", "<a href='mailto:email@example.com'>"),
        ("o'brien@corp.ie and 'jane@corp.ie'", "email@example.com and 'email@example.com'"),
        ("联系jane@corp.cn谢谢", "联系email@example.com谢谢"),
        ("user=jane@corp.org;", "user=email@example.com;"),
        ("git@github.com:owner/name.git", "email@example.com:owner/name.git"),
        ("pip install name@1.2.3, @user, a@b, a@localhost", "pip install name@1.2.3, @user, a@b, a@localhost"),
        ("logo@2x.png1 jane@corp.x", "logo@2x.png1 jane@corp.x"),
        ("DNS at 8.8.8.8, and 1.1.1.1.", "DNS at 192.0.2.1, and 192.0.2.1."),
        ("http://93.184.216.34:80/ 8.8.8.0/24 (8.8.4.4)", "http://192.0.2.1:80/ 192.0.2.1/24 (192.0.2.1)"),
        ("版本8.8.8.8是", "版本192.0.2.1是"),
        (
            "version 1.2.3.4.5, v1.2.3.4, 1.2.3.4a, 1.2.3.4.Final",
            "version 1.2.3.4.5, v1.2.3.4, 1.2.3.4a, 1.2.3.4.Final",
        ),
        ("31.2.3.4444 8.8.8.256 8.8.8.08 12345.1.1.1", "31.2.3.4444 8.8.8.256 8.8.8.08 12345.1.1.1"),
        ("10.0.0.1 192.168.1.1 127.0.0.1 100.64.0.1 0.0.0.0", "10.0.0.1 192.168.1.1 127.0.0.1 100.64.0.1 0.0.0.0"),
    ],
)
def test_addresses_in_the_wild(text: str, redacted: str) -> None:
    assert redact(pa.array([text], pa.large_string()), KINDS).text.to_pylist() == [redacted]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_public_is_what_ipaddress_calls_global(addresses: list[int]) -> None:
    texts = [str(ipaddress.IPv4Address(address)) for address in addresses]
    redacted = redact(pa.array(texts, pa.large_string()), ["ip"])
    assert redacted.n_ips.tolist() == [is_public(text) for text in texts]


def test_the_edges_of_every_special_block() -> None:
    blocks = "0/8 10/8 100.64/10 127/8 169.254/16 172.16/12 192.0.2/24 192.88.99/24 192.168/16 198.18/15 198.51.100/24 "
    blocks += "203.0.113/24 224/4 240/4"
    texts = []
    for block in blocks.split():
        address, bits = block.split("/")
        network = ipaddress.ip_network(f"{address}{'.0' * (3 - address.count('.'))}/{bits}")
        edges = int(network.network_address), int(network.broadcast_address)
        near = {min(max(edge + step, 0), 2**32 - 1) for edge in edges for step in (-1, 0, 1)}
        texts += [str(ipaddress.IPv4Address(address)) for address in sorted(near)]
    redacted = redact(pa.array(texts, pa.large_string()), ["ip"])
    assert redacted.n_ips.tolist() == [is_public(text) for text in texts]


def test_the_same_array_comes_back_when_nothing_matches() -> None:
    for texts in (["nothing here", "a@b 1.2.3"], [], [""]):
        text = pa.array(texts, pa.large_string())
        assert redact(text, KINDS).text is text


def test_a_slice_is_redacted_like_a_copy() -> None:
    text = pa.array(["x@y.org", "1.1.1.1@x.org and 1.1.1.1", "8.8.8.8"], pa.large_string())
    redacted = redact(text.slice(1, 1), KINDS)
    assert redacted.text.to_pylist() == ["email@example.com and 192.0.2.1"]
    assert (redacted.n_emails.tolist(), redacted.n_ips.tolist()) == ([1], [1])


def test_a_null_is_a_defect_of_the_caller() -> None:
    with pytest.raises(SchemaError):
        redact(pa.array(["a", None], pa.large_string()), KINDS)


def test_hostile_documents_take_linear_time() -> None:
    """A quadratic scan of one of these would take minutes."""
    texts = ["@" * 500_000, "a" * 500_000 + "@", "a@" + "b." * 250_000, "1." * 250_000]
    assert redact(pa.array(texts, pa.large_string()), KINDS).text.to_pylist() == texts
