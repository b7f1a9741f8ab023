from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tamiz.errors import SchemaError
from tamiz.extract.guard import Guard
from tamiz.extract.text import extract_text
from tamiz.schema import RAW, TEXT, check_batch

PAGE = b"<html><body><article>" + b"<p>The quick brown fox jumps over the lazy dog, and sleeps.</p>" * 5 + b"</article>"


def make_batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    identity = {"doc_id": b"0" * 16, "source": "s", "origin": "f#0"}
    return pa.RecordBatch.from_pylist([dict.fromkeys(RAW.names) | identity | row for row in rows], schema=RAW)


def test_texts_stay_as_they_came() -> None:
    batch = make_batch({"text": " a\r\n\0b\u0301 "}, {"text": " \n"}, {"text": ""}, {"quarantine": "bad_json"})
    out = extract_text(batch)
    check_batch(out, TEXT, "test")
    assert out.column("text").to_pylist() == [" a\r\n\0b\u0301 ", None, None, None]
    assert out.column("quarantine").to_pylist() == [None, "text_empty", "text_empty", "bad_json"]


def test_pages_among_texts() -> None:
    batch = make_batch({"payload": PAGE, "charset": "utf-8"}, {"text": "x"}, {"quarantine": "y"}, {"payload": b"z"})
    with Guard() as guard:
        out = extract_text(batch, "resiliparse", guard)
    check_batch(out, TEXT, "test")
    text = out.column("text").to_pylist()
    assert text[0].startswith("The quick brown fox")
    assert text[1:] == ["x", None, None]
    assert out.column("quarantine").to_pylist() == [None, None, "y", "extract_not_html"]


def test_pages_need_an_engine() -> None:
    with pytest.raises(SchemaError, match="no engine"):
        extract_text(make_batch({"payload": PAGE}))


def test_no_rows() -> None:
    assert len(extract_text(make_batch())) == 0
