"""A worker that is killed in the middle of a split, as the kernel does when memory is short."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tamiz.errors import RunError
from tamiz.run.engine import Report
from tamiz.run.ledger import Done
from tamiz.run.local import TRIES, LocalEngine
from tamiz.run.measuring import SiftSettings
from tamiz.run.sift import SiftUnit, sift_split
from tamiz.sources import JsonlSource, list_splits
from tamiz.sources.access import HubAccess
from tests.robustness.cases import Good, pack_zst

PART_BYTES = 40_000  # less than a chunk of 1,024 documents, so that each is a part


def sift_and_die(unit: SiftUnit, report: Report) -> list[Done]:
    """Die once, in the third part."""
    published = len(list(Path(unit.folder).glob("sift/part-*.done.json")))
    has_died = Path(unit.folder) / "has-died"

    def tell(documents: int, n_bytes: int, tokens: int) -> None:
        if published < 2 <= len(list(Path(unit.folder).glob("sift/part-*.done.json"))) and not has_died.exists():
            has_died.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return sift_split(unit, tell)


def sift_and_die_always(unit: SiftUnit, report: Report) -> list[Done]:
    """Die in the third part."""

    def tell(documents: int, n_bytes: int, tokens: int) -> None:
        if len(list(Path(unit.folder).glob("sift/part-*.done.json"))) >= 2:
            os.kill(os.getpid(), signal.SIGKILL)

    return sift_split(unit, tell)


def make_unit(settings: SiftSettings, good: Good, folder: Path, run_dir: Path, n_files: int = 1) -> SiftUnit:
    """A unit of as many splits as files; the documents of 30 copies of `good` are dealt to them."""
    for name in "abc"[:n_files]:
        (folder / f"{name}.jsonl.zst").write_bytes(pack_zst(good.write_lines(0, 1) * (30 // n_files)))
    spec = JsonlSource("s", (f"{folder}/*.jsonl.zst",))
    splits = list_splits(spec).splits
    assert len(splits) == n_files
    run_dir.mkdir(exist_ok=True)
    return SiftUnit(str(run_dir), "sift", settings, spec, splits, 0, 0, HubAccess(), PART_BYTES)


@pytest.mark.parametrize("n_files", [1, 3])
def test_a_killed_worker_is_replaced_and_goes_on_behind_its_last_part(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path, n_files: int
) -> None:
    whole = make_unit(settings, good, tmp_path, tmp_path / "whole", n_files)
    ((_, expected),) = engine.run(sift_split, [whole], lambda *_: None)
    assert len(expected) >= 3
    unit = make_unit(settings, good, tmp_path, tmp_path / "run", n_files)
    ((_, records),) = engine.run(sift_and_die, [unit], lambda *_: None)
    assert (tmp_path / "run" / "has-died").exists()
    assert records == expected  # with their checksums


def test_the_third_death_names_split_and_position(
    engine: LocalEngine, settings: SiftSettings, good: Good, tmp_path: Path
) -> None:
    unit = make_unit(settings, good, tmp_path, tmp_path / "run")
    with pytest.raises(
        RunError, match=rf"a\.jsonl\.zst \(split 0\), behind position \d\d+: its worker died {TRIES} times"
    ):
        list(engine.run(sift_and_die_always, [unit], lambda *_: None))
    assert len(list((tmp_path / "run").glob("sift/part-*.done.json"))) == 2
