"""Does tamiz take FineWeb's decisions? Compares it with datatrove 0.10.1's on all documents of `fineweb-like`.

    python -m benchmarks.parity        (make parity)

For each recipe: agreement on keep or drop and on the first failing rule, then every document where they differ with the
metric seen and the bound; the text after C4's line rules by SHA-1; MinHash against the curve and the reference's set.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.reference import DATA, ENGLISH, FINEWEB, REASONS, make_settings, read_batches, read_reference, sift_all
from tamiz.decide.rules import Rule


@dataclass(frozen=True)
class Difference:
    """A document on which the two differ: the rule each names first (None = kept), and our metric beside its bound."""

    row: int
    ours: str | None
    theirs: str | None
    metric: str


@dataclass(frozen=True)
class Agreement:
    """How one recipe compares: documents, those decided alike, drops by both, those with the same first rule."""

    recipe: str
    documents: int
    same_decision: int
    both_drop: int
    same_rule: int
    differences: tuple[Difference, ...]

    @property
    def decision_share(self) -> float:
        return self.same_decision / self.documents

    @property
    def rule_share(self) -> float:
        return self.same_rule / max(self.both_drop, 1)


RECIPES: dict[str, Mapping[str, Any]] = {
    "gopher_repetition": {"rules": {"gopher_repetition": {}}},
    "gopher_quality": {"rules": {"gopher_quality": {}}},
    "c4": {"rules": {"c4": {}}},
    "c4_fineweb": {"rules": {"c4": FINEWEB["c4"]}},
    "fineweb_quality": {"rules": {"fineweb_quality": {}}},
    "language": {"language": ENGLISH},
    "chain": {"language": ENGLISH, "rules": FINEWEB},
}
"""Column of the reference -> the config that takes the same decision."""


def compare_recipe(recipe: str, batches: list[pa.RecordBatch], cache_dir: Path) -> tuple[Agreement, pa.Table, pa.Table]:
    """The agreement, and our verdicts and kept documents."""
    settings = make_settings(cache_dir, **RECIPES[recipe])
    sifted = sift_all(settings, batches)
    theirs = read_reasons(recipe)
    rules = {rule.name: rule for rule in settings.rules}
    verdicts = sifted.verdicts.to_pylist()
    ours = [row["failed"][0] if row["failed"] else None for row in verdicts]
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    differences = tuple(
        Difference(i, a, b, describe_metric(verdicts[i], rules, a or b, b))
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True))
        if not is_same(a, b)
    )
    agreement = Agreement(
        recipe,
        len(ours),
        sum((a is None) == (b is None) for a, b in zip(ours, theirs, strict=True)),
        len(both),
        sum(is_same(a, b) for a, b in both),
        differences,
    )
    return agreement, sifted.verdicts, sifted.kept


def read_reasons(recipe: str) -> list[str | None]:
    """The reference's first reason per document as the key of our rule; None = kept."""
    reference = read_reference()
    if recipe == "language":
        pairs = zip(reference["language"].to_pylist(), reference["language_score"].to_pylist(), strict=True)
        return [None if label == "en" and score > 0.65 else "language" for label, score in pairs]
    column = reference["chain_reason" if recipe == "chain" else recipe].to_pylist()
    return [None if reason is None else REASONS[reason] for reason in column]


def is_same(ours: str | None, theirs: str | None) -> bool:
    """The same first rule, or kept by both; the reference has one reason for both language rules."""
    if ours is None or theirs is None:
        return ours is theirs
    recipe, _, key = ours.partition(".")
    return theirs == ("language" if recipe == "language" else key)


def describe_metric(row: Mapping[str, Any], rules: Mapping[str, Rule], ours: str | None, theirs: str | None) -> str:
    """Our value and the bound of each rule named."""
    named = [rule for rule in rules.values() if rule.name == ours or rule.name.endswith(f".{theirs}")]
    return ", ".join(f"{rule.metric} {row[rule.metric]} against {rule.bound:g}" for rule in named)


def compare_text(recipe: str, kept: pa.Table, verdicts: pa.Table) -> tuple[int, int, list[str]]:
    """(documents kept by both, texts identical after the line rules, origins of the others)."""
    column = {"c4": "c4_text_sha1", "c4_fineweb": "c4_fineweb_text_sha1"}[recipe]
    reference = read_reference()
    origins = verdicts["origin"].to_pylist()
    sha1 = dict(zip(origins, reference[column].to_pylist(), strict=True))
    is_kept = {o: reason is None for o, reason in zip(origins, reference[recipe].to_pylist(), strict=True)}
    pairs = [
        (origin, hashlib.sha1(text.encode()).hexdigest() == sha1[origin])
        for origin, text in zip(kept["origin"].to_pylist(), kept["text"].to_pylist(), strict=True)
        if is_kept[origin]
    ]
    return len(pairs), sum(same for _, same in pairs), [origin for origin, same in pairs if not same]


def main() -> None:
    from benchmarks.minhash import print_minhash

    batches = list(read_batches((str(DATA / "fineweb-like/data/*/*.parquet"),)))
    print(f"{sum(map(len, batches)):,} documents\n")
    print(f"{'recipe':20}{'keep/drop alike':>18}{'both drop':>12}{'same first rule':>18}")
    with tempfile.TemporaryDirectory() as folder:
        results = {recipe: compare_recipe(recipe, batches, Path(folder)) for recipe in RECIPES}
    for agreement, _, _ in results.values():
        print(
            f"{agreement.recipe:20}{agreement.decision_share:>17.3%} {agreement.both_drop:>11,}"
            f"{agreement.rule_share:>17.3%}"
        )
    print()
    for recipe in ("c4", "c4_fineweb"):
        _, verdicts, kept = results[recipe]
        n, same, others = compare_text(recipe, kept, verdicts)
        print(f"text after the line rules of {recipe}: {same:,} of {n:,} identical ({same / n:.3%}); {others}")
    for agreement, verdicts, _ in results.values():
        for difference in agreement.differences:
            origin = verdicts["origin"][difference.row].as_py()
            both = f"tamiz {difference.ours}, reference {difference.theirs}"
            print(f"{agreement.recipe}: {origin}: {both}; {difference.metric}")
    print()
    print_minhash(results["chain"][2], batches, results["chain"][1])


if __name__ == "__main__":
    main()
