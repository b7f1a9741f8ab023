"""FineWeb's decisions on 6,986 real documents, against those of datatrove 0.10.1. docs/parity.md tells the numbers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from benchmarks import language, minhash, parity
from benchmarks.parity import RECIPES, Agreement
from benchmarks.reference import DATA, read_batches, read_reference
from tamiz.measure.fasttext_model import read_model

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="the reference data is not beside the checkout (../shared/data)"),
]

Compared = dict[str, tuple[Agreement, pa.Table, pa.Table]]


@pytest.fixture(scope="module")
def batches() -> list[pa.RecordBatch]:
    return list(read_batches((str(DATA / "fineweb-like/data/*/*.parquet"),)))


@pytest.fixture(scope="module")
def compared(batches: list[pa.RecordBatch], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("cache")
    return {recipe: parity.compare_recipe(recipe, batches, folder) for recipe in RECIPES}


def test_documents_and_reference_are_the_same(batches: list[pa.RecordBatch]) -> None:
    assert sum(map(len, batches)) == len(read_reference()) == 6986


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_decides_as_the_reference(compared: Compared, recipe: str) -> None:
    agreement = compared[recipe][0]
    assert agreement.decision_share >= 0.995, agreement.differences
    assert agreement.rule_share >= 0.99, agreement.differences
    assert agreement.both_drop > 0


@pytest.mark.parametrize("recipe", ["c4", "c4_fineweb"])
def test_line_rules_leave_the_same_text(compared: Compared, recipe: str) -> None:
    _, verdicts, kept = compared[recipe]
    n, same, others = parity.compare_text(recipe, kept, verdicts)
    assert n > 4000
    assert same / n >= 0.995, others


def test_pairs_collide_as_the_curve_says(batches: list[pa.RecordBatch]) -> None:
    found = minhash.measure_collisions(minhash.join_text(pa.Table.from_batches(batches)))
    assert [collisions.label for collisions in found] == [">= 0.9", ">= 0.8", "<= 0.5"]
    for collisions in found:
        assert collisions.n >= 200
        assert abs(collisions.seen - collisions.expected) <= 0.02, collisions


@pytest.mark.parametrize("which", ["all", "after_chain"])
def test_every_difference_in_what_minhash_removes_is_explained(
    compared: Compared, batches: list[pa.RecordBatch], which: str
) -> None:
    _, verdicts, kept = compared["chain"]
    documents = kept if which == "after_chain" else pa.Table.from_batches(batches)
    removed = minhash.compare_removed(documents, verdicts["origin"].to_pylist(), which)
    assert removed.theirs > 100
    assert len(removed.differences) <= 0.005 * removed.documents
    for removal in removed.differences:
        # Chance decides only where it can: a pair that collides always or never would need another explanation.
        assert removal.why != minhash.OTHER_HASH or 0.005 < removal.probability < 0.98, removal


@pytest.mark.parametrize("name", language.list_files())
def test_language_is_fasttext_s(name: str) -> None:
    path = language.find_model()
    texts = language.read_texts(language.list_files()[name])
    labels, scores, _ = language.time_tamiz(read_model(path.read_bytes()), texts)
    expected, expected_scores, _ = language.time_fasttext(path, texts.to_pylist())
    same = sum(a == b for a, b in zip(labels, expected, strict=True))
    assert same >= 0.999 * len(texts)
    assert max(abs(a - b) for a, b in zip(scores, expected_scores, strict=True)) <= 0.002
