"""dedup.verify: who is removed is what comparing each document with the first of its buckets says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.dedup.signature import MinHashShape
from tamiz.measure.normal import scan_normal_words
from tamiz.run.checking import DEPTH
from tamiz.run.layout import KeptPart
from tamiz.run.measuring import make_bands
from tamiz.run.sampling import sample_pairs
from tamiz.run.trust import TrustUnit, measure_trust, read_pair
from tamiz.schema import KEPT, view_text
from tamiz.store import Folder
from tests.run.test_against import make_texts
from tests.run.test_dedup import SETTINGS, dedup

SHAPE = MinHashShape(5, 14, 4)  # of four rows: many pairs that are not alike collide
N_PARTS = 4


def write_kept(folder: Path, texts: list[str]) -> list[KeptPart]:
    parts = []
    for number in range(N_PARTS):
        own = texts[number::N_PARTS]
        name = f"part-{number:05d}-000"
        columns = {
            "doc_id": [bytes([number]) + i.to_bytes(15, "big") for i in range(len(own))],
            "source": pa.array(["a"] * len(own)).dictionary_encode(),
            "origin": [f"a#{i}" for i in range(len(own))],
            "url": pa.nulls(len(own), pa.string()),
            "text": own,
            "n_bytes": [len(text) for text in own],
        }
        kept = pa.table(columns, schema=KEPT)
        pq.write_table(kept, folder / f"{name}.kept.parquet", row_group_size=7)
        bands = make_bands(SHAPE, kept, pa.nulls(len(own), pa.string()))
        pq.write_table(bands, folder / f"{name}.bands.parquet")
        n_bytes = sum(map(len, own))
        parts.append(KeptPart(name, "a", f"{name}.kept.parquet", f"{name}.bands.parquet", "", len(own), n_bytes))
    return parts


def shingle(text: str) -> set[bytes]:
    words = scan_normal_words(*view_text(pa.array([text], pa.large_string()))).hashes
    return {words[k : k + 5].tobytes() for k in range(len(words) - 4)}


def decide_by_hand(folder: Path, parts: list[KeptPart], texts: list[str], threshold: float) -> dict[int, int]:
    """Index of each loser -> what it loses to, in the order of documents."""
    tables = [pq.read_table(folder / part.bands) for part in parts]
    bands = pa.concat_tables(tables).drop_columns(["doc_id", "dump"]).to_pydict()
    ordered = [text for number in range(N_PARTS) for text in texts[number::N_PARTS]]
    sets = [shingle(text) for text in ordered]
    lost = {}
    for i in range(len(ordered)):
        exact = bands["exact"].index(bands["exact"][i])
        candidates = set()
        for name, keys in bands.items():
            if name != "exact":
                candidates |= {j for j in [j for j, key in enumerate(keys) if key == keys[i]][:DEPTH] if j < i}
        alike = [j for j in candidates if len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= threshold]
        if exact < i:
            lost[i] = exact
        elif alike:
            lost[i] = min(alike)
    return lost


@pytest.mark.parametrize(("n_sorted", "n_grouped"), [(1000, 1000), (50, 40)])
def test_only_pairs_that_are_alike_are_removed(tmp_path: Path, n_sorted: int, n_grouped: int) -> None:
    texts = make_texts(11, 150)
    parts = write_kept(tmp_path, texts)
    loose, _ = dedup(tmp_path, parts, replace(SETTINGS, shape=SHAPE), 1000, 1000)
    for path in (tmp_path / "dedup").rglob("*.*"):
        path.unlink()
    settings = replace(SETTINGS, shape=SHAPE, is_verified=True, threshold=0.7)
    duplicates, copies = dedup(tmp_path, parts, settings, n_sorted, n_grouped)
    expected = decide_by_hand(tmp_path, parts, texts, 0.7)
    firsts = np.cumsum([0, *(part.n_kept for part in parts)])
    seen = {}
    for row in duplicates.to_pylist():
        i, j = (firsts[int(row[f"{side}part"][5:10])] + row[f"{side}row"] for side in ("", "lost_to_"))
        seen[int(i)] = int(j)
        assert row["similarity"] >= 0.7
    assert seen == expected
    assert 10 < len(seen) < len(loose)
    assert sum(copies["n_copies"].to_pylist()) == len(seen)


def test_the_sample_tells_the_true_similarity(tmp_path: Path) -> None:
    texts = make_texts(12, 120)
    parts = write_kept(tmp_path, texts)
    duplicates, _ = dedup(tmp_path, parts, replace(SETTINGS, shape=SHAPE), 1000, 1000)
    near = duplicates.filter(pa.compute.equal(duplicates["kind"], "near")).to_pylist()
    path = "dedup/x/duplicates.parquet"
    pairs = sample_pairs(Folder(tmp_path), path, 20, seed=3)
    assert len(pairs) == 20
    assert pairs == sample_pairs(Folder(tmp_path), path, 20, seed=3)
    assert pairs != sample_pairs(Folder(tmp_path), path, 20, seed=4)
    kept = {(None, part.name): part.kept for part in parts}
    everything = sample_pairs(Folder(tmp_path), path, 1000, seed=3)
    assert len(everything) == len(near)
    unit = TrustUnit(str(tmp_path), "dedup/x", "trust-1000-3", tuple(everything), kept, 5, 0.7)
    facts = measure_trust(unit, lambda *_: None).facts
    true = []
    for row in near:
        pair = read_pair(Folder(tmp_path), row["doc_id"], kept, path)
        assert pair is not None
        a, b = (shingle(text) for text in pair[:2])
        true.append(len(a & b) / len(a | b))
    assert facts["n"] == len(near)
    assert facts["n_under"] == sum(value < 0.7 for value in true) > 0
    assert facts["mean"] == pytest.approx(np.mean(true))
    assert sum(facts["histogram"]) == len(near)
