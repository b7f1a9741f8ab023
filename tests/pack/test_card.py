"""card: `datasets.load_dataset` reads a corpus folder by it, offline."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tamiz.pack.card import CardFacts, CardSource, make_card
from tamiz.pack.fill import fill_best_fit
from tamiz.pack.shards import add_boundaries, build_shard
from tamiz.schema import DOC_ID


def make_facts(**changes) -> CardFacts:
    facts = CardFacts(
        name='cyber: "one" #1',
        sources=[CardSource("fineweb-edu", "hub", "HuggingFaceFW/fineweb-edu", "a1b2c3", "odc-by")],
        filters=["language: en, score at least 0.65", "gopher_quality, published bounds"],
        tokenizer="tekken",
        tokenizer_fingerprint="f" * 64,
        n_vocab=131_072,
        bos=None,
        eos="</s>",
        sequence_length=8,
        strategy="best_fit",
        documents_read=1_000,
        documents_packed=40,
        documents_holdout=3,
        tokens_packed=990,
        tokens_padding=10,
        n_train_shards=2,
        n_validation_shards=1,
        config_fingerprint="c0ffee",
    )
    return facts._replace(**changes)


def front_matter(card: str) -> dict:
    _, head, _ = card.split("---\n", 2)
    return yaml.safe_load(head)


def write_corpus(folder, facts: CardFacts, dtype: pa.DataType) -> dict[str, list]:
    """Shards of a few documents each under the names a run gives them; returns the rows of each split."""
    import numpy as np

    folder.mkdir()
    (folder / "README.md").write_text(make_card(facts), encoding="utf-8")
    (folder / "manifest.json").write_text("{}", encoding="utf-8")
    rows: dict[str, list] = {}
    for split, n_shards in (("train", facts.n_train_shards), ("validation", facts.n_validation_shards)):
        for shard in range(n_shards):
            lengths = np.arange(12) + shard
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            values, offsets = add_boundaries(np.arange(offsets[-1], dtype=np.int32) + 10, offsets, None, 2)
            doc_ids = pa.array([bytes([shard, i]) * 8 for i in range(12)], DOC_ID)
            pieces = fill_best_fit(np.diff(offsets), facts.sequence_length)
            table = build_shard(values, offsets, doc_ids, pieces, facts.sequence_length, 3, dtype)
            pq.write_table(table, folder / f"{split}-{shard:05d}.parquet")
            rows.setdefault(split, []).extend(table.to_pylist())
    return rows


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    """The library, offline, with its caches in the test's folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    yield datasets
    datasets.enable_progress_bars()


@pytest.mark.parametrize("dtype", [pa.uint16(), pa.int32()])
@pytest.mark.parametrize("n_validation_shards", [0, 1])
def test_load_dataset_reads_the_folder(tmp_path, datasets, dtype, n_validation_shards):
    facts = make_facts(n_validation_shards=n_validation_shards)
    rows = write_corpus(tmp_path / "corpus", facts, dtype)
    loaded = datasets.load_dataset(str(tmp_path / "corpus"), cache_dir=str(tmp_path / "cache"))
    assert {split: loaded[split].to_list() for split in loaded} == rows


def test_load_dataset_reads_the_files(tmp_path, datasets):
    rows = write_corpus(tmp_path / "corpus", make_facts(), pa.int32())
    files = {split: str(tmp_path / "corpus" / f"{split}-*.parquet") for split in rows}
    loaded = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))
    assert {split: loaded[split].to_list() for split in loaded} == rows


def test_load_dataset_streams_the_folder(tmp_path, datasets):
    rows = write_corpus(tmp_path / "corpus", make_facts(), pa.int32())
    streamed = datasets.load_dataset(str(tmp_path / "corpus"), split="train", streaming=True)
    assert list(streamed) == rows["train"]


def test_the_example_in_the_card_runs(tmp_path, datasets, monkeypatch):
    facts = make_facts()
    rows = write_corpus(tmp_path / "corpus", facts, pa.int32())
    code = make_card(facts).split("```python\n")[1].split("```")[0]
    code = code.replace('"path/to/this/folder"', f"{str(tmp_path / 'corpus')!r}, cache_dir={str(tmp_path / 'cache')!r}")
    seen: dict = {}
    exec(code, seen)
    assert seen["row"] == rows["train"][0]
    assert seen["cu_seqlens"][-1] == facts.sequence_length
    assert len(seen["positions"]) == facts.sequence_length
    assert seen["n_padding"] == sum(
        n for n, doc in zip(rows["train"][0]["seq_lens"], rows["train"][0]["doc_ids"], strict=True) if doc is None
    )


def test_front_matter_is_yaml_whatever_the_name():
    head = front_matter(make_card(make_facts()))
    assert head["pretty_name"] == 'cyber: "one" #1'
    assert head["license"] == ["odc-by"]
    assert head["configs"] == [
        {
            "config_name": "default",
            "data_files": [
                {"split": "train", "path": "train-*.parquet"},
                {"split": "validation", "path": "validation-*.parquet"},
            ],
        }
    ]


def test_a_license_is_named_only_when_every_source_has_one():
    known = CardSource("a", "hub", "o/a", "r", "odc-by")
    unknown = CardSource("b", "jsonl", "b/*.jsonl", None, None)
    assert "license" not in front_matter(make_card(make_facts(sources=[known, unknown])))
    assert "license not stated" in make_card(make_facts(sources=[known, unknown]))


def test_an_empty_corpus_has_a_card():
    empty = make_facts(
        filters=[], documents_packed=0, tokens_packed=0, tokens_padding=0, n_train_shards=0, n_validation_shards=0
    )
    assert "configs" not in front_matter(make_card(empty))


def test_the_prose_has_the_counts():
    card = make_card(make_facts(bos="<s>"))
    assert "40 documents of the 1,000 read" in card
    assert "1.000% padding" in card
    assert "3 documents are held out" in card
    assert "`HuggingFaceFW/fineweb-edu`, revision `a1b2c3`, license odc-by" in card
    assert "1. language: en, score at least 0.65\n2. gopher_quality" in card
    assert "`<s>` before and `</s>` after" in card
