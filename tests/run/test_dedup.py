"""The dedup stage over made-up band files, against a plain reading of its rule: any layout gives the same tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz.dedup.signature import MinHashShape
from tamiz.run.bloom import choose_filters
from tamiz.run.dedup import DedupSettings
from tamiz.run.deduplication import work_through
from tamiz.run.engine import Report
from tamiz.run.layout import KeptPart, cut_layout
from tamiz.run.ledger import Done, read_done
from tamiz.run.partition import Preference
from tamiz.schema import make_bands_schema
from tamiz.store import Folder

SHAPE = MinHashShape(5, 3, 2)
SETTINGS = DedupSettings(
    exact=True, shape=SHAPE, scope="run", preference=Preference(), against=(), is_verified=False,
    false_positives=None, threshold=0.5, memory=10**9, sample=0, seed=0,
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    part: int
    exact: int
    bands: tuple[int, int, int] | None
    n_bytes: int
    dump: str | None


documents = st.lists(
    st.builds(
        Document,
        part=st.integers(0, 4),
        exact=st.integers(0, 30),
        bands=st.none() | st.tuples(*[st.integers(0, 12)] * 3),
        n_bytes=st.integers(1, 4),
        dump=st.sampled_from([None, "a", "b"]),
    ),
    max_size=60,
)


def spread(key: int) -> int:
    """Small keys all over the 64 bits, so that they fall into several ranges."""
    return key * 0x9E3779B97F4A7C15 % 2**64


def write_parts(folder: Path, documents: list[Document], n_parts: int = 5) -> list[KeptPart]:
    parts = []
    for number in range(n_parts):
        rows = [d for d in documents if d.part == number]
        name = f"part-{number:05d}-000"
        ids = [bytes([number]) + i.to_bytes(15, "big") for i in range(len(rows))]
        bands = {"doc_id": ids, "dump": [d.dump for d in rows], "exact": [spread(d.exact + 100) for d in rows]}
        bands |= {f"band_{b:02d}": [d.bands and spread(20 * b + d.bands[b]) for d in rows] for b in range(3)}
        pq.write_table(pa.table(bands, schema=make_bands_schema(3)), folder / f"{name}.bands.parquet")
        kept = pa.table({"n_bytes": pa.array([d.n_bytes for d in rows], pa.int64())})
        pq.write_table(kept, folder / f"{name}.kept.parquet")
        source = "ab"[number % 2]
        parts.append(KeptPart(name, source, f"{name}.kept.parquet", f"{name}.bands.parquet", "", len(rows), 0))
    return parts


def dedup(
    folder: Path,
    parts: list[KeptPart],
    settings: DedupSettings,
    n_sorted: int,
    n_grouped: int,
    is_resumed: bool = False,
) -> tuple[pa.Table, pa.Table]:
    """`is_resumed`: units that have a record are not worked again."""
    layout = cut_layout(parts, n_sorted, n_grouped)

    def run_units(place: str, work: Callable[[Any, Report], Done], units: Iterable[Any], report: Report) -> list[Done]:
        """Each record as a resumed run sees it: read back."""
        there = read_done(Folder(folder), place) if is_resumed else {}
        names = [unit.name if unit.name in there else work(unit, report).unit for unit in units]
        done = read_done(Folder(folder), place)
        return [done[name] for name in names]

    work_through(Folder(folder), "dedup/x", settings, layout, ("a", "b"), run_units, lambda *_: None)
    return pq.read_table(folder / "dedup/x/duplicates.parquet"), pq.read_table(folder / "dedup/x/copies.parquet")


def lose_by_hand(
    documents: list[Document], parts: list[KeptPart], settings: DedupSettings
) -> dict[tuple[str, int], tuple[tuple[str, int], str]]:
    """(part, row) of each loser -> ((part, row) of what it lost to, kind)."""
    ordered = sorted(documents, key=lambda d: d.part)
    spots = [(part.name, row) for part in parts for row in range(part.n_kept)]
    source = [part.source for part in parts for _ in range(part.n_kept)]
    is_older = [part.run is not None for part in parts for _ in range(part.n_kept)]
    scope = [{"run": 0, "source": s, "dump": d.dump}[settings.scope] for d, s in zip(ordered, source, strict=True)]

    def rank(i: int) -> tuple[Any, ...]:
        known = settings.preference.sources
        if is_older[i]:
            return (-1, 0, i)
        priority = known.index(source[i]) if source[i] in known else len(known)
        return (priority, -ordered[i].n_bytes if settings.preference.metric else 0, i)

    lost = {}
    for i, document in enumerate(ordered):
        rivals = [j for j in range(len(ordered)) if j != i and scope[j] == scope[i] and rank(j) < rank(i)]
        exact = [j for j in rivals if ordered[j].exact == document.exact]
        near = [
            j
            for j in rivals
            if document.bands and ordered[j].bands
            and any(a == b for a, b in zip(document.bands, ordered[j].bands, strict=True))
        ]  # fmt: skip
        if not is_older[i] and (exact or near):
            lost[spots[i]] = (spots[min(exact or near, key=rank)], "exact" if exact else "near")
    return lost


@settings(max_examples=60)
@given(
    documents,
    st.sampled_from(["run", "source", "dump"]),
    st.sampled_from(
        [Preference(), Preference(metric="n_bytes"), Preference(("b",)), Preference(("b", "a"), "n_bytes")]
    ),
    st.integers(0, 2),
    st.integers(1, 70),
    st.integers(1, 70),
)
def test_any_layout_gives_what_the_rule_says(
    documents: list[Document], scope: str, preference: Preference, n_older: int, n_sorted: int, n_grouped: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = write_parts(folder, documents)
        parts = [replace(part, run=str(folder)) if i < n_older else part for i, part in enumerate(parts)]
        chosen = replace(SETTINGS, scope=scope, preference=preference)
        duplicates, copies = dedup(folder, parts, chosen, n_sorted, n_grouped)
        rows = duplicates.to_pylist()
        expected = lose_by_hand(documents, parts, chosen)
        seen = {(r["part"], r["row"]): ((r["lost_to_part"], r["lost_to_row"]), r["kind"]) for r in rows}
        assert seen == expected
        assert list(seen) == sorted(seen)
        assert all(r["lost_to"][:1] == bytes([int(r["lost_to_part"][5:10])]) for r in rows)
        counted = {(r["part"], r["row"]): r["n_copies"] for r in copies.to_pylist()}
        roots = [follow(expected, spot) for spot in expected]
        own = {part.name for part in parts if part.run is None}
        assert counted == {spot: roots.count(spot) for spot in roots if spot[0] in own}
        assert not counted.keys() & expected.keys()


def follow(lost: dict[tuple[str, int], tuple[tuple[str, int], str]], spot: tuple[str, int]) -> tuple[str, int]:
    while spot in lost:
        spot = lost[spot][0]
    return spot


@settings(max_examples=25)
@given(documents, st.sampled_from(["run", "source", "dump"]), st.integers(0, 2), st.integers(1, 70))
def test_bloom_filters_remove_the_same_documents(
    documents: list[Document], scope: str, n_older: int, n_grouped: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = write_parts(folder, documents)
        parts = [replace(part, run=str(folder)) if i < n_older else part for i, part in enumerate(parts)]
        chosen = replace(SETTINGS, scope=scope, false_positives=1e-9)
        duplicates, copies = dedup(folder, parts, chosen, 100, n_grouped)
        seen = {(r["part"], r["row"]): r["kind"] for r in duplicates.to_pylist()}
        assert seen == {spot: kind for spot, (_, kind) in lose_by_hand(documents, parts, chosen).items()}
        assert duplicates["lost_to"].null_count == duplicates["lost_to_part"].null_count == len(seen)
        assert len(copies) == 0


def test_filters_too_large_for_the_memory_are_cut_by_key_range() -> None:
    whole, one = choose_filters(10**8, 15, 1e-4, 2 * 10**9)
    part, several = choose_filters(10**9, 15, 1e-4, 2 * 10**9)
    assert one == 1
    assert several > 1
    assert part.n_words * 8 < 2 * 10**9
    assert 10 * whole.n_words == pytest.approx(several * part.n_words, rel=1e-6)


def test_the_copies_of_a_run_without_older_ones_sum_to_its_duplicates(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    documents = [
        Document(int(p), int(e), tuple(b), 1, None)
        for p, e, b in zip(
            rng.integers(0, 5, 500), rng.integers(0, 400, 500), rng.integers(0, 200, (500, 3)).tolist(), strict=True
        )
    ]
    duplicates, copies = dedup(tmp_path, write_parts(tmp_path, documents), SETTINGS, 90, 120)
    assert len(duplicates) > 100
    assert sum(copies["n_copies"].to_pylist()) == len(duplicates)


@pytest.mark.parametrize(("n_older", "before", "after"), [(0, 310, 410), (1, 310, 250)])
def test_a_run_that_goes_on_with_another_memory_has_the_same_duplicates(
    tmp_path: Path, n_older: int, before: int, after: int
) -> None:
    """Both layouts have as many groups and ranges, but other groups."""
    rng = np.random.default_rng(4)
    documents = [
        Document(int(p), int(e), tuple(b), 1, None)
        for p, e, b in zip(
            rng.integers(0, 5, 500), rng.integers(0, 400, 500), rng.integers(0, 200, (500, 3)).tolist(), strict=True
        )
    ]
    parts = write_parts(tmp_path, documents)
    parts = [replace(part, run=str(tmp_path)) if i < n_older else part for i, part in enumerate(parts)]
    layouts = [cut_layout(parts, 90, n) for n in (before, after)]
    assert len({(layout.n_ranges, len(layout.groups)) for layout in layouts}) == 1
    assert layouts[0].bounds != layouts[1].bounds
    expected, _ = dedup(tmp_path, parts, SETTINGS, 90, after)
    for path in tmp_path.glob("dedup/**/*.*"):
        path.unlink()

    def stop_after_keys(
        place: str, work: Callable[[Any, Report], Done], units: Iterable[Any], report: Report
    ) -> list[Done]:
        done = [work(unit, report) for unit in units]
        if work.__name__ == "partition_keys":
            raise KeyboardInterrupt
        return done

    with pytest.raises(KeyboardInterrupt):
        work_through(Folder(tmp_path), "dedup/x", SETTINGS, layouts[0], ("a", "b"), stop_after_keys, lambda *_: None)
    went_on, _ = dedup(tmp_path, parts, SETTINGS, 90, after, is_resumed=True)
    assert went_on.equals(expected)


def test_of_older_runs_only_the_keys_of_this_one_are_cut(tmp_path: Path) -> None:
    older = [Document(0, i, (i % 1000, i, i), 1, None) for i in range(100, 3000)]
    own = [Document(1, 100, (5, 5, 5), 1, None)]
    parts = write_parts(tmp_path, older + own)
    parts[0] = replace(parts[0], run=str(tmp_path))
    duplicates, _ = dedup(tmp_path, parts, SETTINGS, 10_000, 10_000)
    assert len(duplicates) == 1
    (work,) = tmp_path.glob("dedup/x/work-*")
    counts = read_done(Folder(tmp_path), f"dedup/x/{work.name}")["keys-00000"].facts["counts"]
    for column, rows in counts:
        assert sum(rows) < 600, column  # of 2,900; the smallest bitmap has 64 bits
        assert column != "exact" or sum(rows) >= 1


def test_large_buckets_of_older_runs_alone_are_not_told(tmp_path: Path) -> None:
    older = [Document(0, i, (i % 3, i, i), 1, None) for i in range(300)]
    own = [Document(1, 1000 + i, (7 if i < 4 else 1000 + i, 2000 + i, 2000 + i), 1, None) for i in range(200)]
    parts = write_parts(tmp_path, older + own)
    parts[0] = replace(parts[0], run=str(tmp_path))
    lets_all_through = replace(SETTINGS, memory=64)  # a bitmap of 64 bits for 200 keys
    dedup(tmp_path, parts, lets_all_through, 10_000, 10_000)
    facts = read_done(Folder(tmp_path), "dedup/x")["duplicates"].facts
    assert facts["buckets"] == [[4, "band_00"]]


def test_without_duplicates_nothing_is_removed(tmp_path: Path) -> None:
    documents = [Document(i % 5, i, (i, i, i), 1, None) for i in range(300)]
    duplicates, copies = dedup(tmp_path, write_parts(tmp_path, documents), SETTINGS, 50, 70)
    assert len(duplicates) == len(copies) == 0


@pytest.mark.parametrize("n_sorted", [40, 1000])
def test_a_key_in_every_document_is_worked_in_pieces(tmp_path: Path, n_sorted: int) -> None:
    documents = [Document(i % 5, i, (7, i, i), 1, None) for i in range(300)]
    duplicates, copies = dedup(tmp_path, write_parts(tmp_path, documents), SETTINGS, n_sorted, 30)
    assert len(duplicates) == 299
    assert set(duplicates["lost_to_part"].to_pylist()) == {"part-00000-000"}
    assert copies["n_copies"].to_pylist() == [299]
