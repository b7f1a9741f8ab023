"""A month added to a corpus: B built against A keeps what A and B in one run keep of B."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tamiz.config_file import load_config
from tamiz.errors import ConfigError
from tamiz.run.build import Place, build_corpus

CACHE = Path.home() / ".cache" / "tamiz"


def make_texts(seed: int, n: int) -> list[str]:
    """Pages of which many resemble others: words replaced, pages repeated, pages of their own."""
    rng = random.Random(seed)
    words = [a + b + c for a in "bdfgklmprt" for b in "aeiou" for c in "lmnrstxy"]  # digits would all be one word
    pages = [" ".join(random.Random(page).choices(words, k=120)) for page in range(n // 2)]
    texts = []
    for _ in range(n):
        text = rng.choice(pages).split(" ")
        for _ in range(rng.choice([0, 0, 1, 3, 8, 20])):
            text[rng.randrange(len(text))] = rng.choice(words)
        texts.append(" ".join(text))
    return texts


def write_source(folder: Path, name: str, texts: list[str], dumps: list[str] | None = None) -> None:
    (folder / name).mkdir(parents=True)
    for number in range(2):
        chosen = slice(number, None, 2)
        columns = {"text": texts[chosen]} | ({"dump": dumps[chosen]} if dumps else {})
        pq.write_table(pa.table(columns), folder / name / f"{number}.parquet", row_group_size=20)


def build(folder: Path, run: str, sources: list[str], dedup: dict[str, object], **sections: object) -> Path:
    config = {
        "name": "months",
        "source": sources,
        "sources": {name: {"kind": "parquet", "paths": [f"{name}/*.parquet"]} for name in ("a", "b")},
        "dedup": dedup,
        "pack": {"sequence_length": 256, "holdout": 0.0, **sections.pop("pack", {})},  # type: ignore[dict-item]
        "run": {"workers": 1},
        **sections,
    }
    path = folder / f"{run}.yaml"
    path.write_text(yaml.safe_dump(config))
    build_corpus(load_config(path), Place(str(folder / run), CACHE), lambda _: None)
    return folder / run


def list_survivors(run: Path, source: str) -> set[bytes]:
    kept = {
        row["doc_id"]
        for path in run.glob("sift/*/*.kept.parquet")
        for row in pq.read_table(path, columns=["doc_id", "source"]).to_pylist()
        if row["source"] == source
    }
    (duplicates,) = run.glob("dedup/*/duplicates.parquet")
    return kept - set(pq.read_table(duplicates)["doc_id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scope", ["run", "dump"])
def test_a_then_b_against_a_is_a_and_b_in_one_run(tmp_path: Path, seed: int, scope: str) -> None:
    for name in "ab":
        dumps = [random.Random(i).choice(["CC-1", "CC-2"]) for i in range(120)]
        write_source(tmp_path, name, make_texts(seed + ord(name), 120), dumps)
    both = build(tmp_path, "both", ["a", "b"], {"scope": scope})
    a = build(tmp_path, "first", ["a"], {"scope": scope})
    for path in a.glob("sift/*/*.kept.parquet"):
        path.unlink()  # the texts are not needed
    b = build(tmp_path, "second", ["b"], {"scope": scope, "against": ["first"]})
    assert list_survivors(b, "b") == list_survivors(both, "b")
    assert 20 < len(list_survivors(b, "b")) < 100
    (duplicates,) = b.glob("dedup/*/duplicates.parquet")
    older = [row for row in pq.read_table(duplicates).to_pylist() if row["lost_to_run"] is not None]
    assert older
    assert {row["lost_to_run"] for row in older} == {str(a.resolve())}
    assert not list(b.glob("dedup/*/work-*/*"))


def test_an_older_run_with_other_bands_is_refused(tmp_path: Path) -> None:
    write_source(tmp_path, "a", make_texts(1, 12))
    write_source(tmp_path, "b", make_texts(2, 12))
    build(tmp_path, "first", ["a"], {})
    with pytest.raises(ConfigError, match=r"dedup\.against: first was made with minhash"):
        build(tmp_path, "second", ["b"], {"against": ["first"], "minhash": {"bands": 9, "rows": 8}})
    with pytest.raises(ConfigError, match=r"dedup\.against: no run 'none'"):
        build(tmp_path, "second", ["b"], {"against": ["none"]})
