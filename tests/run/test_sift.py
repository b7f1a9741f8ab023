"""Units of sift: how splits are grouped, and that grouping changes nothing but the number of files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.run import sift
from tamiz.run.ledger import Done, read_done
from tamiz.run.measuring import SiftSettings
from tamiz.sources import JsonlSource, ParquetSource, Source, Split, list_splits
from tamiz.sources.access import HubAccess
from tamiz.store import Folder

SETTINGS = SiftSettings(None, frozenset(), (), None, False, None, None, (), None)
PLACE = "sift/x"
N_FILES, N_LINES = 7, 2500


def make_splits(sizes: list[int], name: str = "mine") -> list[tuple[Source, Split]]:
    spec = ParquetSource(name, ("x",))
    return [(spec, Split(name, "parquet", f"{i}", f"/{i}", 0, 1, 0, 10, size)) for i, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 1000), max_size=200), st.integers(0, 200), st.integers(1, 60))
def test_groups_cover_the_splits_in_order_and_stay_within_a_source(sizes: list[int], cut: int, most: int) -> None:
    splits = make_splits(sizes[:cut], "a") + make_splits(sizes[cut:], "b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sift, "UNITS_MAX", most)
        groups = sift.group_splits(splits)
    assert [i for group in groups for i in group] == list(range(len(splits)))
    assert all(group for group in groups)
    assert all(len({splits[i][0].name for i in group}) == 1 for group in groups)
    assert len(groups) <= most + 2
    if len(splits) <= most:
        assert all(len(group) == 1 for group in groups)


def test_a_million_splits_make_fewer_than_100_000_objects(tmp_path: Path) -> None:
    splits = make_splits([256 << 20] * 1_000_000)
    units, valid = sift.plan_units(str(tmp_path), PLACE, SETTINGS, splits, {}, HubAccess())
    assert not valid
    assert len(units) <= sift.UNITS_MAX
    assert max(len(unit.splits) for unit in units) <= 126
    assert (len(sift._ROLES) + 1) * len(units) + 3 * len(units) <= 56_000  # sift and tokens, each with a record


def ignore(documents: int, n_bytes: int, tokens: int) -> None:
    pass


def read_origins(folder: Folder, parts: list[Done]) -> list[str]:
    """Of all verdicts, in document order."""
    origins: list[str] = []
    for part in sorted(parts, key=lambda done: done.unit):
        with folder.open(part.outputs["verdicts"].path) as file:
            origins += pq.read_table(file).column("origin").to_pylist()
    return origins


def finish(folder: Folder, splits: list[tuple[Source, Split]], part_bytes: int = sift.PART_BYTES) -> list[Done]:
    done = read_done(folder, PLACE)
    units, parts = sift.plan_units(folder.url, PLACE, SETTINGS, splits, done, HubAccess(), part_bytes)
    for unit in units:
        parts += sift.sift_split(unit, ignore)
    return parts


@pytest.mark.parametrize("most", [1, 3, 100])
def test_groups_of_packed_files_are_cut_into_parts_and_go_on_after_any_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for number in range(N_FILES):
        lines = [json.dumps({"text": f"line {i} of file {number}, " * 20}) for i in range(N_LINES)]
        (tmp_path / f"{number}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    spec = JsonlSource("mine", (f"{tmp_path}/*.gz",))
    splits: list[tuple[Source, Split]] = [(spec, split) for split in list_splits(spec).splits]
    whole = Folder(tmp_path / "whole")
    origins = read_origins(whole, finish(whole, splits))
    assert len(origins) == N_FILES * N_LINES
    assert len(set(origins)) == len(origins)
    monkeypatch.setattr(sift, "UNITS_MAX", most)
    monkeypatch.setattr(sift, "_PACKED_RATIO", 1)
    cut = Folder(tmp_path / "cut")
    parts = finish(cut, splits, 1_000_000)
    assert len(parts) > most or most > N_FILES
    assert read_origins(cut, parts) == origins
    for lost in sorted(part.unit for part in parts):
        cut.remove(f"{PLACE}/{lost}.done.json")
        assert read_origins(cut, finish(cut, splits, 1_000_000)) == origins


def test_records_of_another_grouping_are_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = make_splits([5, 5, 5, 5])
    done = {"part-00000-000": Done("part-00000-000", {}, {}, {"splits": [0, 2], "is_last": True, "at": 1})}
    units, valid = sift.plan_units(str(tmp_path), PLACE, SETTINGS, splits, done, HubAccess())
    assert (len(units), valid) == (4, [])
    monkeypatch.setattr(sift, "UNITS_MAX", 2)
    units, valid = sift.plan_units(str(tmp_path), PLACE, SETTINGS, splits, done, HubAccess())
    assert ([unit.range for unit in units], len(valid)) == ([[2, 4]], 1)
