"""Older runs whose documents win: what a new run reads of them are their band files, never a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tamiz.config import Config
from tamiz.dedup.signature import MinHashShape
from tamiz.errors import ConfigError
from tamiz.objects import is_url
from tamiz.run.fingerprint import make_fingerprint, to_plain
from tamiz.run.layout import KeptPart
from tamiz.run.ledger import Done, read_done
from tamiz.run.sift import count_splits, list_kept
from tamiz.store import Folder

_ROLES = ("bands",)  # all that is read of an older run


@dataclass(frozen=True)
class OlderRun:
    """`run`: its directory; `place`: where in it the parts' band files are; `fingerprint`: of everything in them."""

    run: str
    place: str
    fingerprint: str


def find_older_runs(config: Config, shape: MinHashShape | None) -> tuple[OlderRun, ...]:
    """The runs of `dedup.against`, in order; ConfigError when one cannot be compared with this run."""
    return tuple(_find_run(config, name, shape) for name in config.dedup.against)


def _find_run(config: Config, name: str, shape: MinHashShape | None) -> OlderRun:
    from tamiz.run.plan import read_plan_record

    folder = _open_run(config, name)
    record = read_plan_record(folder) or {}
    theirs = record["inputs"]["sift"]["minhash"]
    if theirs != to_plain(shape):
        raise ConfigError(f"dedup.against: {name} was made with minhash {theirs}, this run has {to_plain(shape)}")
    stage = "lines" if "lines" in record["places"] else "sift"
    _check_finished(folder, record, name)
    return OlderRun(folder.url, record["places"][stage], make_fingerprint(record["inputs"][stage]))


def _open_run(config: Config, name: str) -> Folder:
    if is_url(name):
        folder = Folder(name)
        if not folder.exists("plan.json"):
            raise ConfigError(f"dedup.against: {folder.url} is no run (no plan.json)")
        return folder
    path = next((base / name for base in (config.folder, Path()) if (base / name / "plan.json").is_file()), None)
    if path is None:
        raise ConfigError(
            f"dedup.against: no run {name!r} (no plan.json) in {config.folder.resolve()} or {Path().resolve()}"
        )
    return Folder(path.resolve())


def _check_finished(folder: Folder, record: dict[str, Any], name: str) -> None:
    done = read_done(folder, record["places"]["sift"], _ROLES)
    n_splits = sum(len(source["splits"]) for source in record["sources"])
    n_finished = count_splits(done.values())
    place = record["places"].get("lines", record["places"]["sift"])
    n_parts = sum("bands" in part.outputs for part in read_done(folder, place, _ROLES).values())
    if n_finished < n_splits or n_parts < len(done):
        raise ConfigError(
            f"dedup.against: {name} is not finished ({n_finished} of {n_splits} splits sifted); build it first"
        )


def list_older_parts(runs: Sequence[tuple[str, str]]) -> tuple[list[KeptPart], list[Done]]:
    """The parts of the older runs ((run, place) each), in the order of documents, and their records."""
    parts: list[KeptPart] = []
    records: list[Done] = []
    for run, place in runs:
        done = [record for record in read_done(Folder(run), place, _ROLES).values() if "bands" in record.outputs]
        parts += [replace(part, run=run) for part in list_kept(done)]
        records += done
    return parts, records
