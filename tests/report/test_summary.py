from __future__ import annotations

from typing import Any

import pytest

from tamiz.errors import BalanceError
from tamiz.report.console import format_summary
from tamiz.report.summary import Summary, build_summary

RULE = "c4.n_sentences_min"
FACTS = {"name": "<b>x</b>", "source": ["a"], "config_fingerprint": "0" * 16, "validation_shards": 1}


def make(**changes: dict[str, int]) -> Summary:
    """Ten documents read: one quarantined, three rejected, two duplicates, four packed into two rows of 64."""
    sift = {
        "documents/read": 10, "documents/quarantined": 1, "documents/rejected": 3, "documents/kept": 6,
        "bytes/read": 1000, "bytes/rejected": 300, "bytes/cleaned": 50, "bytes/kept": 650,
        f"rules/{RULE}/failed": 3, f"rules/{RULE}/alone": 3, f"rules/{RULE}/first": 3, "quarantine/bad_json": 1,
    }  # fmt: skip
    values: dict[str, Any] = {
        "sift": sift | changes.get("sift", {}),
        "dedup": {"documents/duplicate": 2, "bytes/duplicate": 250, "duplicates/near": 2} | changes.get("dedup", {}),
        "tokens": {
            "documents/train": 3, "documents/validation": 1, "bytes/train": 300, "bytes/validation": 100,
            "tokens/train": 80, "tokens/validation": 20,
        } | changes.get("tokens", {}),
        "shards": {"rows": 2, "documents": 4, "tokens": 100, "padding": 28, "text_bytes": 400, "pieces": 5}
        | changes.get("shards", {}),
    }  # fmt: skip
    return build_summary(
        facts=FACTS,
        sift={"a": values["sift"]},
        dedup=values["dedup"],
        dedup_facts=None,
        damage=[],
        tokens=values["tokens"],
        shards=[values["shards"]],
        sequence_length=64,
        rules=[RULE, "language.keep"],
    )


def test_a_balanced_run_has_its_summary() -> None:
    summary = make()
    assert summary["documents"] == {"read": 10, "quarantined": 1, "rejected": 3, "duplicate": 2, "packed": 4}
    assert summary["tokens"] == {"total": 128, "packed": 100, "padding": 28, "dropped": 0}
    assert summary["rules"] == {
        RULE: {"failed": 3, "alone": 3, "first": 3},
        "language.keep": {"failed": 0, "alone": 0, "first": 0},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"sift": {"documents/read": 11}},
        {"sift": {"documents/kept": 7}},
        {"sift": {"bytes/read": 999}},
        {"sift": {f"rules/{RULE}/first": 2}},
        {"sift": {"quarantine/bad_json": 2}},
        {"dedup": {"documents/duplicate": 1}},
        {"dedup": {"bytes/duplicate": 251}},
        {"tokens": {"tokens/train": 81}},
        {"tokens": {"documents/validation": 0}},
        {"shards": {"padding": 27}},
        {"shards": {"documents": 5}},
        {"shards": {"text_bytes": 401}},
    ],
    ids=str,
)
def test_a_count_that_is_off_by_one_fails_the_run(changes: dict[str, dict[str, int]]) -> None:
    with pytest.raises(BalanceError, match="do not balance"):
        make(**changes)


def test_the_console_fits_eighty_columns_and_names_what_matters() -> None:
    lines = format_summary(make()).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert all(part in text for part in ("bad_json", RULE, "held out for validation: 1 documents, 20 tokens"))
    assert "language.keep" not in text
