"""Whole builds from a Hub that behaves as the real one does: the corpus is that of the local files, byte for byte."""

from __future__ import annotations

import json
import re
import shutil
import socket
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.hub_server import Fault, HubServer
from tests.run.hub_builds import Builds, find_seconds, hash_shards, lay_out, write_config

RANGES = "GET .*parquet"
LISTING = "^(GET|POST) /api/"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("web"), "fineweb-like", 400)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_config(tmp_path_factory.mktemp("config"), {"web": "org/web"})


@pytest.fixture(scope="module")
def from_files(tmp_path_factory: pytest.TempPathFactory, web: Path, config: Path) -> dict[str, str]:
    """The shards made of the local files."""
    shards = Builds(tmp_path_factory.mktemp("files"), config, "http://127.0.0.1:9").build_files("run", web, "web")
    assert {"train-00000.parquet", "validation-00000.parquet"} <= shards.keys()
    return shards


@pytest.fixture
def builds(hub: HubServer, web: Path, config: Path, tmp_path: Path) -> Builds:
    hub.commit("org/web", web)
    return Builds(tmp_path, config, hub.endpoint)


FAULTS = {
    "429 with Retry-After": Fault("status", RANGES, times=2, status=429, headers={"Retry-After": "1"}),
    "a burst of 500": Fault("status", "paths-info|HEAD .*parquet", times=3, status=500),
    "a burst of 503": Fault("status", RANGES, times=3, status=503),
    "reset in a range": Fault("reset", RANGES, times=2),
    "truncated body": Fault("truncate", RANGES, times=2),
    "stall": Fault("stall", RANGES, times=1),
    "listing refused": Fault("status", "GET /api|README", times=2, status=429, headers={"RateLimit": '"api";r=0;t=1'}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_no_byte(hub: HubServer, builds: Builds, from_files: dict[str, str], name: str) -> None:
    fault = FAULTS[name]
    hub.faults.append(Fault(**vars(fault)))
    assert builds.build("run", "--workers", "2") == from_files
    assert hub.faults[0].times == 0


@pytest.mark.slow
@pytest.mark.parametrize("n_expired", [0, 3])
def test_storage_on_a_second_host_changes_no_byte(
    hub: HubServer, builds: Builds, from_files: dict[str, str], n_expired: int
) -> None:
    hub.is_redirecting = True
    hub.signatures_expire = n_expired
    assert builds.build("run", "--workers", "2", HF_TOKEN="hf_secret") == from_files
    signed = [one.status for one in hub.served if "/signed/" in one.path]
    assert (signed.count(403), signed.count(400)) == (n_expired, 0)
    assert hub.signatures_expire == 0


def test_all_faults_together_change_no_byte(hub: HubServer, builds: Builds, from_files: dict[str, str]) -> None:
    hub.is_redirecting = True
    hub.signatures_expire = 2
    hub.faults += [Fault(**{**vars(fault), "times": 1}) for fault in FAULTS.values()]
    assert builds.build("run", "--workers", "3") == from_files
    assert [fault.times for fault in hub.faults] == [0] * len(FAULTS)
    assert hub.signatures_expire == 0


def test_main_may_move_and_only_the_plan_lists(
    hub: HubServer, builds: Builds, from_files: dict[str, str], web: Path, tmp_path: Path
) -> None:
    """The chosen columns travel once, from the commit that was main when the plan was made; workers list nothing."""
    other = lay_out(tmp_path / "other", "fineweb-like")
    for path in other.rglob("*.parquet"):
        pq.write_table(pq.read_table(path).slice(0, 7), path)
    pinned = hub.main["org/web"]
    hub.after.append(("HEAD .*parquet", lambda: (hub.commit("org/web", other), None)[1]))
    assert builds.build("run", "--workers", "3") == from_files
    assert hub.main["org/web"] != pinned
    assert all(pinned in one.path for one in hub.served if one.path.endswith(".parquet"))
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert [source["revision"] for source in plan["sources"]] == [pinned]
    first_read = next(one.at for one in hub.served if one.method == "HEAD" and one.path.endswith(".parquet"))
    assert not [one for one in hub.served if one.at > first_read and not one.path.endswith(".parquet")]
    assert 0 < hub.count(LISTING) <= 6
    files = list(web.rglob("*.parquet"))
    assert hub.count(RANGES) <= 4 * len(files)  # two footers, and a window or two
    assert hub.count_bytes(RANGES) <= sum(path.stat().st_size + 2 * (64 << 10) for path in files)


def test_a_worker_told_to_wait_makes_the_others_wait(
    hub: HubServer, builds: Builds, from_files: dict[str, str]
) -> None:
    asked = 4
    hub.faults.append(Fault("status", "HEAD .*parquet", status=429, headers={"Retry-After": str(asked)}))
    hub.seconds = 0.2  # so that the other workers still have requests to make
    code, _, errors = builds.run("run", "--workers", "3")
    assert code == 0, errors
    assert hash_shards(builds.home / "run") == from_files
    refused = next(one.at for one in hub.served if one.status == 429)
    behind = [one.at - refused for one in hub.served if one.at > refused]
    early = [seconds for seconds in behind if seconds < asked]
    assert len(early) <= 2  # what the other two workers had under way
    assert all(seconds < 0.5 for seconds in early)
    assert len(behind) > 4


def test_waiting_is_shown(hub: HubServer, builds: Builds) -> None:
    wait = {"Retry-After": "13"}
    hub.faults.append(Fault("status", "paths-info", status=429, headers={"Retry-After": "3"}))
    hub.faults.append(Fault("status", "HEAD .*parquet", status=429, headers=wait))
    code, _, errors = builds.run("run", "--workers", "2")
    assert code == 0, errors
    planning, sifting = errors.splitlines()[0], [line for line in errors.splitlines() if line.startswith("sift")]
    assert find_seconds(planning) == [3]
    assert any(find_seconds(line) for line in sifting)
    assert "Traceback" not in errors


def test_a_run_with_other_rules_reads_no_network(
    hub: HubServer, builds: Builds, from_files: dict[str, str], web: Path, tmp_path: Path
) -> None:
    cache = {"TAMIZ_HUB_CACHE": str(tmp_path / "kept")}
    assert builds.build("run", "--workers", "2", **cache) == from_files
    assert hub.count(RANGES) > 0
    hub.forget()
    rules = ("--set", "rules.gopher_quality.n_words_min=100")
    changed = builds.build("run", *rules, **cache)
    assert hub.served == []
    assert changed == builds.build_files("files", web, "web", *rules) != from_files
    other = builds.build("other", "--set", f"run.hub_cache={{path: {tmp_path / 'kept'}, quota_gb: 1}}")
    assert other == from_files
    assert hub.count(LISTING) > 0  # another run asks what main is
    assert hub.count(RANGES) == hub.count("HEAD .*parquet") == 0


def test_the_part_of_fineweb_edu_that_scores_three(hub: HubServer, tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "edu", "fineweb-edu-like")
    hub.commit("org/edu", folder)
    config = write_config(tmp_path / "config", {"edu": "org/edu"})
    source = {"kind": "hub", "dataset": "org/edu", "where": {"int_score": {"min": 3}}}
    write_config(tmp_path / "config", {"edu": "org/edu"}, sources={"edu": source})
    builds = Builds(tmp_path, config, hub.endpoint)
    assert builds.build("run") == builds.build_files("files", folder, "edu")
    tables = [pq.read_table(path, columns=["int_score"]) for path in folder.rglob("*.parquet")]
    wanted = sum(score >= 3 for table in tables for score in table["int_score"].to_pylist())
    summary = json.loads((tmp_path / "run" / "report" / "summary.json").read_text())
    assert summary["documents"]["read"] == wanted > 0


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"subset": "odl"}, 2, r"sources\.web\.subset: there is no 'odl' in org/web; it has default, old$"),
        ({"split": "test"}, 2, r"sources\.web\.split: org/web has no split 'test'; it has train$"),
        ({"revision": "v9"}, 2, r"sources\.web\.revision: org/web has no such branch, tag"),
        ({"dataset": "org/nothing"}, 2, r"sources\.web\.dataset: the Hub has no dataset org/nothing"),
        ({"dataset": "org/gated"}, 2, r"sources\.web\.dataset: org/gated is gated; accept its terms"),
    ],
    ids=str,
)
def test_a_wrong_name_is_one_clear_line(
    hub: HubServer, builds: Builds, web: Path, settings: dict[str, str], code: int, message: str
) -> None:
    hub.commit("org/gated", web)
    hub.gated.add("org/gated")
    overrides = [part for key, value in settings.items() for part in ("--set", f"sources.web.{key}={value}")]
    check_one_line(builds, code, message, *overrides)


def check_one_line(builds: Builds, code: int, message: str, *arguments: str, is_quick: bool = True) -> None:
    started = time.monotonic()
    seen, output, errors = builds.run("run", *arguments)
    assert not is_quick or time.monotonic() - started < 30
    lines = [line for line in errors.splitlines() if not find_seconds(line)]
    assert (seen, output, len(lines)) == (code, "", 1), errors
    assert re.search(message, lines[0]), lines[0]


def test_no_network_is_one_clear_line(builds: Builds) -> None:
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        builds.endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        check_one_line(builds, 1, "could not reach the Hub for org/web: .*refused")


@pytest.mark.slow
def test_a_host_that_does_not_exist_is_one_clear_line(builds: Builds) -> None:
    builds.endpoint = "http://hub.invalid"
    check_one_line(builds, 1, "could not reach the Hub for org/web: ")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["api/datasets", "README", "org/web/tree", "paths-info", RANGES])
def test_too_many_requests_are_never_a_missing_file(hub: HubServer, builds: Builds, where: str) -> None:
    hub.faults.append(Fault("status", where, times=1000, status=429, headers={"Retry-After": "1"}))
    message = "the Hub lets no more requests for org/web through .HTTP 429"
    check_one_line(builds, 1, message, is_quick=False)  # it is given the time it asks for, ten times


@pytest.mark.slow
def test_a_hub_that_goes_away_in_mid_run_is_one_clear_line(hub: HubServer, builds: Builds) -> None:
    stall = Fault("stall", RANGES, times=0)
    hub.faults.append(stall)
    hub.after.append(("HEAD .*parquet", lambda: setattr(stall, "times", 1000)))  # the plan is made
    check_one_line(builds, 1, "could not reach the Hub for org/web: .*timed out", is_quick=False)
    silent_since = next(one.at for one in hub.served if one.method == "HEAD" and one.path.endswith(".parquet"))
    assert time.monotonic() - silent_since < 30


def test_a_stopped_build_goes_on(hub: HubServer, builds: Builds, from_files: dict[str, str], tmp_path: Path) -> None:
    hub.faults.append(Fault("status", RANGES, times=0, status=404))
    hub.after.append(("HEAD .*parquet", lambda: setattr(hub.faults[0], "times", 1000)))
    code, _, errors = builds.run("run", "--workers", "1")
    assert code == 1, errors
    hub.faults.clear()
    hub.served.clear()
    assert builds.build("run", "--workers", "2") == from_files
    assert hub.count(LISTING) == 0  # the plan is that of the first build
    shutil.rmtree(tmp_path / "run" / "corpus")
    hub.served.clear()
    assert builds.build("run") == from_files
    assert hub.served == []
