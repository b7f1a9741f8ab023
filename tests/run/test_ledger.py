from __future__ import annotations

from pathlib import Path

import pytest

from tamiz.errors import StoreError
from tamiz.run.ledger import Done, forget_done, read_done, record_done
from tamiz.store import Folder


def publish(folder: Folder, unit: str) -> Done:
    output = folder.publish_bytes(f"sift/x/{unit}.kept", b"12345")
    done = Done(unit, {"kept": output}, {"documents/read": 3}, {"is_last": True, "cursor": [1, 2]})
    record_done(folder, "sift/x", done)
    return done


def test_a_record_reads_back_as_written(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    done = publish(folder, "part-0")
    assert read_done(folder, "sift/x") == {"part-0": done}
    assert read_done(folder, "sift/y") == {}


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_record_without_its_output_does_not_count(tmp_path: Path, damage: str) -> None:
    folder = Folder(tmp_path)
    publish(folder, "part-0")
    kept = publish(folder, "part-1")
    path = tmp_path / "sift/x/part-0.kept"
    path.unlink() if damage == "missing" else path.write_bytes(b"123")
    assert read_done(folder, "sift/x") == {"part-1": kept}


def test_an_output_without_its_record_does_not_count(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.publish_bytes("sift/x/part-0.kept", b"12345")
    assert read_done(folder, "sift/x") == {}


def test_forgetting_leaves_outputs(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    publish(folder, "part-0")
    forget_done(folder, "sift/x")
    assert folder.list() == ["sift/x/part-0.kept"]


def test_a_broken_record_is_told(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.publish_bytes("sift/x/part-0.done.json", b"{}")
    with pytest.raises(StoreError, match="part-0"):
        read_done(folder, "sift/x")
