"""One batch through sift: what becomes of a document depends on that document alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz.config_file import load_config
from tamiz.run.measuring import Sifted, SiftSettings, sift_batch
from tamiz.run.settings import make_sift_settings
from tamiz.schema import KEPT, RAW, check_batch, make_bands_schema
from tamiz.tally import merge_tallies

ROOT = Path(__file__).resolve().parents[2]
PROSE = (
    "The harbour froze early that winter, and the boats stayed in. Nobody in the village had seen it before! "
    "People walked across the ice to visit their neighbours, and children learned to skate. "
    "When the thaw came, it came in one night. Was it the noise that woke them, or the silence after it?"
)


@cache
def load_settings() -> SiftSettings:
    config = load_config(ROOT / "configs" / "cyber.yaml", ["domain.score_min=0", "domain.terms_min=0"])
    return make_sift_settings(config, ROOT / "nowhere")


def make_batch(texts: list[str | None]) -> pa.RecordBatch:
    rows = [
        dict.fromkeys(RAW.names)
        | {
            "doc_id": i.to_bytes(16, "big"),
            "source": "s",
            "origin": f"f#{i}",
            "text": text,
            "quarantine": "text_missing" if text is None else None,
        }
        for i, text in enumerate(texts)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW)


texts = st.lists(
    st.one_of(
        st.none(),
        st.text(max_size=60),
        st.sampled_from(
            [PROSE, PROSE * 2, "", " \n\u2003", f"{PROSE}\nwrite to a.b@c.example or 93.184.216.34", "{x}"]
        ),
    ),
    min_size=1,
    max_size=8,
)


def join(sifted: list[Sifted]) -> Sifted:
    tables = (pa.concat_tables([getattr(s, role) for s in sifted]) for role in ("kept", "bands", "verdicts"))
    return Sifted(*tables, merge_tallies(s.tally for s in sifted))


@settings(max_examples=60)
@given(texts, st.integers(0, 8))
def test_any_cut_of_a_source_gives_the_same_union(documents: list[str | None], cut: int) -> None:
    batch = make_batch(documents)
    whole = sift_batch(load_settings(), batch)
    apart = join([sift_batch(load_settings(), part) for part in (batch.slice(0, cut), batch.slice(cut))])
    for role in ("kept", "bands", "verdicts"):
        assert getattr(whole, role).equals(getattr(apart, role).combine_chunks()), role
    assert merge_tallies([whole.tally]) == apart.tally


@settings(max_examples=60)
@given(texts)
def test_documents_and_bytes_balance_and_schemas_hold(documents: list[str | None]) -> None:
    sifted = sift_batch(load_settings(), make_batch(documents))
    tally = sifted.tally
    assert tally["documents/read"] == len(documents) == len(sifted.verdicts)
    parts = [tally[f"documents/{outcome}"] for outcome in ("quarantined", "rejected", "kept")]
    assert sum(parts) == len(documents)
    n_bytes = sum(len(text.encode()) for text in documents if text and not text.isspace())
    assert tally["bytes/read"] == n_bytes
    assert n_bytes == tally["bytes/rejected"] + tally["bytes/cleaned"] + tally["bytes/kept"]
    check_batch(sifted.kept, KEPT, "test")
    check_batch(sifted.bands, make_bands_schema(14), "test")
    assert sifted.verdicts["outcome"].to_pylist().count("kept") == len(sifted.kept) == len(sifted.bands)


def test_a_kept_document_is_redacted_and_a_failing_one_names_all_its_rules() -> None:
    sifted = sift_batch(
        load_settings(), make_batch([f"{PROSE}\nMail jo@site.example from 93.184.216.34, please.", "{"])
    )
    assert sifted.kept["text"].to_pylist()[0].endswith("Mail email@example.com from 192.0.2.1, please.")
    rows: list[dict[str, Any]] = sifted.verdicts.to_pylist()
    assert rows[0]["failed"] == []
    assert "gopher_quality.n_words_min" in rows[1]["failed"]
    assert "c4.n_sentences_min" in rows[1]["failed"]
    assert (sifted.tally["redacted/email"], sifted.tally["redacted/ip"]) == (1, 1)


@pytest.mark.parametrize(("label", "score", "kept"), [("en", 0.66, True), ("en", 0.65, False), ("de", 0.99, False)])
def test_the_source_s_own_language_is_used_with_a_strict_bound(label: str, score: float, kept: bool) -> None:
    batch = make_batch([PROSE])
    columns = {name: batch.column(name) for name in RAW.names}
    columns |= {"language": pa.array([label]), "language_score": pa.array([score])}
    labelled = pa.RecordBatch.from_arrays(list(columns.values()), schema=RAW)
    assert len(sift_batch(load_settings(), labelled).kept) == kept
