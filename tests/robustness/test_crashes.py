"""A crash before and after every publish, rename and done record of a run: the next run gives the same bytes.

The run is made in this process by an engine that works unit after unit. A crash is an exception that nothing catches;
from then on the store can neither write nor remove, as if the process were gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamiz.config import Config
from tamiz.config_file import load_config
from tamiz.run import build, isolation
from tamiz.run.build import Place, build_corpus
from tamiz.run.engine import R, Report, U, Work
from tamiz.store import Aside
from tests.robustness.cases import pack_zst
from tests.run.test_build import hash_corpus, run_tamiz

CONFIG = """
name: crash
source: [rows, lines]
sources:
  rows: {kind: parquet, paths: ["*.parquet"]}
  lines: {kind: jsonl, paths: ["*.jsonl.zst"]}
pack: {sequence_length: 64, shard_tokens: 2000, holdout: 0.1}
"""
PART_BYTES = 4_000


class CrashError(BaseException):
    """The process is gone."""


class Inline:
    """An engine without workers."""

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers

    def run(self, work: Work[U, R], units: Iterable[U], report: Report, *_: Any) -> Iterator[tuple[U, R]]:
        for unit in units:
            yield unit, work(unit, lambda *_: None)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Some eighty documents in two Parquet files and in a stream of three parts; every tenth is a copy."""
    folder = tmp_path_factory.mktemp("crash")
    texts = [
        f"Document {i - i % 10 if i % 10 == 1 else i}. " + f"What {i % 7} of {i % 11} says. " * 12 for i in range(80)
    ]
    for number in range(2):
        table = pa.table({"text": texts[number * 20 : (number + 1) * 20]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=10)
    lines = [json.dumps({"text": text}).encode() + b"\n" for text in texts[40:]]
    (folder / "a.jsonl.zst").write_bytes(pack_zst(b"".join(lines)))
    (folder / "crash.yaml").write_text(CONFIG)
    return load_config(folder / "crash.yaml")


class Fate:
    """Counts what the store does and crashes at one of it, leaving everything as it is."""

    def __init__(self, n_left: int | None) -> None:
        self.n_left = n_left
        self.n_seen = 0
        self.is_dead = False

    def meet(self) -> None:
        self.n_seen += 1
        if self.n_left is not None and self.n_seen > self.n_left:
            self.is_dead = True
            raise CrashError

    @contextlib.contextmanager
    def rule(self) -> Iterator[None]:
        """Within: before and after each rename, each removal and the first write of each file, fate may strike."""
        write = Aside.write

        def around(do: Any) -> Any:
            def act(*arguments: Any, **options: Any) -> Any:
                if self.is_dead:  # clean-up code runs on, but the process is gone: it can do nothing any more
                    return None
                self.meet()
                result = do(*arguments, **options)
                self.meet()
                return result

            return act

        write_first = around(write)

        def write_some(aside: Aside, data: Any) -> int:
            return int((write_first if aside.tell() == 0 else write)(aside, data) or 0)

        with (
            mock.patch("os.replace", around(os.replace)),
            mock.patch("os.unlink", around(os.unlink)),
            mock.patch("os.remove", around(os.remove)),
            mock.patch.object(Aside, "write", write_some),
            mock.patch("tamiz.sources.jsonl.BATCH_ROWS", 5),
            mock.patch.object(build, "LocalEngine", Inline),
            mock.patch.object(isolation, "LocalEngine", Inline),
            mock.patch.object(build, "warm_kernels"),
        ):
            yield


def run(config: Config, run_dir: Path, n_left: int | None) -> Fate:
    fate = Fate(n_left)
    with fate.rule(), contextlib.suppress(CrashError):
        build_corpus(config, Place(str(run_dir), Path.home() / ".cache" / "tamiz"), lambda _: None, PART_BYTES)
    return fate


@pytest.fixture(scope="module")
def whole(config: Config, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], int]:
    """The corpus of a run without a crash, and how often fate could have struck."""
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    fate = run(config, run_dir, None)
    assert len(list(run_dir.glob("sift/*/part-*.done.json"))) >= 5
    return hash_corpus(run_dir), fate.n_seen


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_series_of_crashes_ends_in_the_same_bytes(
    config: Config, whole: tuple[dict[str, str], int], data: st.DataObject
) -> None:
    lives = data.draw(st.lists(st.integers(0, whole[1]), min_size=1, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        for n_left in lives:
            run(config, run_dir, n_left)
        run(config, run_dir, None)
        assert hash_corpus(run_dir) == whole[0]
        assert not list(run_dir.rglob(".aside-*"))


@pytest.mark.slow
def test_a_crash_at_each_point_of_a_run_ends_in_the_same_bytes(
    config: Config, whole: tuple[dict[str, str], int], tmp_path: Path
) -> None:
    for n_left in range(whole[1]):
        run_dir = tmp_path / f"{n_left}"
        assert run(config, run_dir, n_left).is_dead
        assert not run(config, run_dir, None).is_dead
        assert hash_corpus(run_dir) == whole[0], n_left
    assert run_tamiz("verify", str(run_dir)).returncode == 0
