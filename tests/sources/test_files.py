"""Which files a list of patterns means, and what they are called inside the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tamiz.errors import ConfigError
from tamiz.sources import JsonlSource, ParquetSource, list_splits
from tamiz.sources.files import JSONL_SUFFIXES, PARQUET_SUFFIXES, find_files, name_content


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in ["x/a.parquet", "x/b.parquet", "x/deep/c.parquet", "y/a.parquet", "y/notes.txt", "z[1]/d.jsonl.gz"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "paths"),
    [
        (["x/*.parquet"], ["a.parquet", "b.parquet"]),
        (["x"], ["a.parquet", "b.parquet", "deep/c.parquet"]),
        (["x/**/*.parquet"], ["a.parquet", "b.parquet", "deep/c.parquet"]),
        (["y/a.parquet"], ["a.parquet"]),
        (["*/a.parquet"], ["x/a.parquet", "y/a.parquet"]),
        (["y/*.parquet", "x/a.parquet"], ["x/a.parquet", "y/a.parquet"]),
        (["x/b.parquet", "x/*", "x"], ["a.parquet", "b.parquet", "deep/c.parquet"]),
        (["y/*"], ["a.parquet", "notes.txt"]),  # what a pattern names is taken at its word
    ],
)
@pytest.mark.parametrize("is_relative", [True, False])
def test_paths_are_relative_to_what_no_wildcard_can_change(
    top: Path, monkeypatch: pytest.MonkeyPatch, patterns: list[str], paths: list[str], is_relative: bool
) -> None:
    monkeypatch.chdir(top)
    given = patterns if is_relative else [str(top / pattern) for pattern in patterns]
    found = find_files("s", given, PARQUET_SUFFIXES)
    assert [file.path for file in found] == paths
    assert all(Path(file.address).read_bytes().decode().endswith(file.path) for file in found)
    assert all(os.path.isabs(file.address) for file in found)


def test_a_folder_whose_name_looks_like_a_pattern(top: Path) -> None:
    assert [file.path for file in find_files("s", [str(top / "z[1]")], JSONL_SUFFIXES)] == ["d.jsonl.gz"]
    assert [file.path for file in find_files("s", [str(top / "z[1]" / "d.jsonl.gz")], JSONL_SUFFIXES)] == ["d.jsonl.gz"]


@pytest.mark.parametrize("pattern", ["nowhere/*.parquet", "x/missing.parquet", "z[1]"])
def test_a_pattern_without_a_file_names_its_key(top: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.chdir(top)
    with pytest.raises(ConfigError, match=r"sources\.mine\.paths: no file matches '") as caught:
        list_splits(ParquetSource("mine", ("x", pattern)))
    assert repr(pattern) in str(caught.value)


def test_no_pattern_at_all() -> None:
    with pytest.raises(ConfigError, match=r"sources\.mine\.paths: the list is empty"):
        list_splits(JsonlSource("mine", ()))


def test_the_content_has_another_name_after_a_change(top: Path) -> None:
    pattern = [str(top / "x")]
    first = name_content(find_files("s", pattern, PARQUET_SUFFIXES))
    assert name_content(find_files("s", pattern, PARQUET_SUFFIXES)) == first
    os.utime(top / "x" / "a.parquet", ns=(1, 1))
    second = name_content(find_files("s", pattern, PARQUET_SUFFIXES))
    (top / "x" / "b.parquet").unlink()
    assert len({first, second, name_content(find_files("s", pattern, PARQUET_SUFFIXES))}) == 3
