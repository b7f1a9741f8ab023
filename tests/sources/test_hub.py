"""The real `datasets` and `huggingface_hub` against a Hub on this machine: same rows as from the files themselves."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamiz.sources import Bound, JsonlSource, ParquetSource, list_splits, read_split
from tests.hub_server import ClientError, Fault, HubClient, HubServer

CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/*/*.parquet
- config_name: sample
  data_files:
  - split: train
    path: data/two/*.parquet
  - split: validation
    path: data/one/*.parquet
---
"""

READ = """
from tamiz.sources import Bound, Cursor, HubSource, Split, list_splits, read_split
where = {name: Bound(**bound) for name, bound in where.items()}
spec = HubSource("s", dataset, subset, split, revision, where=where, limit=limit)
if splits is None:
    listing = list_splits(spec, split_bytes)
    splits = [split.to_json() for split in listing.splits]
    revision = listing.revision
rows = []
if is_reading:
    for split in splits:
        for chunk in read_split(Split.from_json(split), spec):
            rows += [[r["doc_id"].hex(), r["origin"], r["url"], r["text"], r["quarantine"]]
                     for r in chunk.batch.to_pylist()]
result = {"rows": rows, "splits": splits, "revision": revision}
"""
DEFAULTS: dict[str, Any] = {
    "subset": None, "split": "train", "revision": None, "where": {}, "limit": None, "split_bytes": 1 << 28,
    "splits": None, "is_reading": True,
}  # fmt: skip


def read_hub(client: HubClient, dataset: str, **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = client.run(READ, dataset=dataset, **{**DEFAULTS, **options})
    return result


def read_local(spec: ParquetSource | JsonlSource) -> list[list[Any]]:
    rows = []
    for split in list_splits(spec).splits:
        for chunk in read_split(split, spec):
            for row in chunk.batch.to_pylist():
                rows.append([row["doc_id"].hex(), row["origin"], row["url"], row["text"], row["quarantine"]])
    return rows


def write_table(path: Path, n_rows: int, seed: str, group_rows: int = 500) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [hashlib.sha256(f"{seed}{i}".encode()).hexdigest() for i in range(n_rows)]
    columns = {
        "text": [" ".join([word] * 3) for word in words],
        "url": [f"https://a.example/{word}" for word in words],
        "int_score": [i % 5 for i in range(n_rows)],
        "ballast": [word * 20 for word in words],
    }
    pq.write_table(pa.table(columns), path, row_group_size=group_rows, use_dictionary=False, compression="none")


@pytest.fixture(scope="session")
def edu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edu")
    (folder / "README.md").write_text(CARD)
    write_table(folder / "data" / "one" / "a.parquet", 1200, "a")
    write_table(folder / "data" / "two" / "b.parquet", 2300, "b")
    return folder


@pytest.fixture
def served(hub: HubServer, edu: Path) -> str:
    hub.commit("org/edu", edu)
    return "org/edu"


def test_rows_are_those_of_the_files(hub: HubServer, client: HubClient, edu: Path, served: str) -> None:
    expected = read_local(ParquetSource("s", (f"{edu}/*/*/*.parquet",)))
    for split_bytes in (1, 50_000, 1 << 28):
        found = read_hub(client, served, split_bytes=split_bytes)
        assert found["rows"] == expected
        assert found["revision"] == hub.main[served]
        assert all(f"@{hub.main[served]}/" in split["address"] for split in found["splits"])
    assert len(expected) == 3500


def test_where_and_limit_count_in_order(client: HubClient, edu: Path, served: str) -> None:
    where = {"int_score": Bound(min=3)}
    expected = read_local(ParquetSource("s", (f"{edu}/*/*/*.parquet",), where=where))
    assert len(expected) == 1400
    for limit in (1, 480, 481, 5000):
        found = read_hub(client, served, where={"int_score": {"min": 3}}, limit=limit, split_bytes=100_000)
        assert found["rows"] == expected[:limit]


def test_subset_and_split_choose_files(client: HubClient, served: str) -> None:
    two = read_hub(client, served, subset="sample", is_reading=False)
    one = read_hub(client, served, subset="sample", split="validation", is_reading=False)
    assert [split["path"] for split in two["splits"]] == ["data/two/b.parquet"]
    assert [split["path"] for split in one["splits"]] == ["data/one/a.parquet"]


def test_only_the_columns_wanted_travel(hub: HubServer, client: HubClient, edu: Path, served: str) -> None:
    plan = read_hub(client, served, is_reading=False)
    size = sum(path.stat().st_size for path in edu.rglob("*.parquet"))
    assert hub.count_bytes("GET .*parquet") < 2 * (1 << 16) + 1  # the end of two files, where the footers are
    hub.forget()
    rows = read_hub(client, served, splits=plan["splits"])["rows"]
    wanted = sum(len(row[2]) + len(row[3]) for row in rows)
    assert wanted < hub.count_bytes("GET .*parquet") < wanted * 1.5 < size / 3
    # Per split: its size, the footer, and a window of all row groups with text and url side by side.
    assert hub.count("GET .*parquet") <= 2 * 10
    assert hub.count("^(GET|HEAD) .*/(api|tree)/") == 0


SMALL = """
from tamiz.sources import opening, table
table._WINDOW_BYTES, table._PIECE_BYTES, opening._REMOTE_STREAM_BYTES = sizes
"""
NORMAL = [16 << 20, 4 << 20, 8 << 20]


@pytest.mark.parametrize(
    ("sizes", "n_requests"),
    [
        ([300_000, 1 << 20, 1 << 20], 2 + 3 + 5),  # two footers, and each row group's text and url, two groups a window
        ([20_000, 30_000, 1 << 20], 8 * 2 * 4),  # no row group fits: every column in pieces, one of them ahead
    ],
    ids=["windows", "pieces"],
)
def test_what_is_fetched_ahead_is_fetched_once(
    hub: HubServer, client: HubClient, edu: Path, served: str, sizes: list[int], n_requests: int
) -> None:
    plan = read_hub(client, served, is_reading=False)
    whole = read_hub(client, served, splits=plan["splits"])["rows"]
    hub.forget()
    client.run(SMALL, sizes=sizes)
    try:
        assert read_hub(client, served, splits=plan["splits"])["rows"] == whole
    finally:
        client.run(SMALL, sizes=NORMAL)
    wanted = sum(len(row[2]) + len(row[3]) for row in whole)
    assert wanted < hub.count_bytes("GET .*parquet") < wanted * 1.5
    assert 4 < hub.count("GET .*parquet") <= n_requests


def test_lines_are_fetched_ahead_once(hub: HubServer, client: HubClient, tmp_path: Path) -> None:
    lines = "".join(json.dumps({"text": f"document {i} {'x' * (i % 90)}"}) + "\n" for i in range(9000))
    (tmp_path / "train.jsonl").write_text(lines)
    hub.commit("org/long", tmp_path)
    client.run(SMALL, sizes=[16 << 20, 4 << 20, 100_000])
    try:
        rows = read_hub(client, "org/long", split_bytes=250_000)["rows"]
    finally:
        client.run(SMALL, sizes=NORMAL)
    assert rows == read_local(JsonlSource("s", (str(tmp_path),)))
    n_splits = -(-len(lines) // 250_000)
    # A split reads from the piece in which it begins to that in which its last line ends.
    assert hub.count_bytes("GET .*jsonl") <= len(lines) + n_splits * 2 * 100_000


def test_a_redirect_to_another_place_is_followed(hub: HubServer, client: HubClient, served: str) -> None:
    straight = read_hub(client, served)
    hub.is_redirecting = True
    assert read_hub(client, served) == straight
    assert hub.count("/signed/") > 0


def test_a_redirect_that_has_expired_is_asked_for_again(hub: HubServer, client: HubClient, served: str) -> None:
    straight = read_hub(client, served)
    hub.is_redirecting = True
    hub.signatures_expire = 2
    assert read_hub(client, served) == straight
    assert [one.status for one in hub.served if "/signed/" in one.path].count(403) == 2


def test_the_commit_is_pinned_when_main_moves(
    hub: HubServer, client: HubClient, edu: Path, served: str, tmp_path: Path
) -> None:
    before = read_hub(client, served)
    (tmp_path / "README.md").write_text(CARD)
    write_table(tmp_path / "data" / "one" / "a.parquet", 10, "other")
    write_table(tmp_path / "data" / "two" / "b.parquet", 10, "other")
    hub.commit(served, tmp_path)
    assert read_hub(client, served, splits=before["splits"])["rows"] == before["rows"]
    after = read_hub(client, served)
    assert len(after["rows"]) == 20
    assert after["revision"] != before["revision"]
    assert read_hub(client, served, revision=before["revision"]) == before


def test_a_dataset_without_a_card_has_the_usual_splits(hub: HubServer, client: HubClient, tmp_path: Path) -> None:
    write_table(tmp_path / "data" / "train-00000-of-00001.parquet", 10, "t")
    write_table(tmp_path / "data" / "test-00000-of-00001.parquet", 10, "v")
    hub.commit("org/plain", tmp_path)
    assert [split["path"] for split in read_hub(client, "org/plain")["splits"]] == ["data/train-00000-of-00001.parquet"]
    assert len(read_hub(client, "org/plain", split="test")["rows"]) == 10


def test_jsonl_on_the_hub_reads_like_local_jsonl(hub: HubServer, client: HubClient, tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"document {i}", "url": f"u{i}"}) for i in range(3000)]
    lines[7] = "{broken"
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    hub.commit("org/lines", tmp_path)
    expected = read_local(JsonlSource("s", (str(tmp_path),)))
    assert expected[7][3:] == [None, "bad_json"]
    for split_bytes in (10_000, 1 << 28):
        assert read_hub(client, "org/lines", split_bytes=split_bytes)["rows"] == expected


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", "GET .*parquet", times=2, status=503),
        Fault("status", "GET .*parquet", times=1, status=429, headers={"Retry-After": "0"}),
        Fault("status", "api|tree|README", times=3, status=500),
        Fault("status", "paths-info", times=1, status=429, headers={"RateLimit": '"api";r=0;t=0'}),
        Fault("reset", "GET .*parquet", times=2),
        Fault("truncate", "GET .*parquet", times=1),
        Fault("reset", "api", times=1),
        Fault("truncate", "GET .*README", times=2),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.status}-{fault.where}",
)
def test_passing_faults_change_nothing(
    hub: HubServer, client: HubClient, edu: Path, tmp_path: Path, fault: Fault
) -> None:
    copy = shutil.copytree(edu, tmp_path / "copy")  # a commit of its own: the client keeps what it knows of one
    (copy / "README.md").write_text(f"{CARD}\n# {fault}")
    hub.commit("org/edu", copy)
    hub.faults.append(fault)
    rows = read_hub(client, "org/edu")["rows"]
    assert rows == read_local(ParquetSource("s", (f"{edu}/*/*/*.parquet",)))
    assert fault.times == 0


def test_wrong_bytes_are_never_taken(hub: HubServer, client: HubClient, served: str) -> None:
    hub.faults.append(Fault("short", "GET .*parquet"))
    with pytest.raises(ClientError, match=r"SourceError: org/edu: asked for \d+ bytes .*, the Hub sent \d+"):
        read_hub(client, served)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subset": "smaple"}, r"sources\.s\.subset: there is no 'smaple' in org/edu; it has default, sample"),
        ({"split": "test"}, r"sources\.s\.split: org/edu has no split 'test'; it has train"),
        ({"revision": "v9"}, r"sources\.s\.revision: org/edu has no such branch, tag"),
        ({"dataset": "org/nothing"}, r"sources\.s\.dataset: the Hub has no dataset org/nothing"),
        ({"dataset": "org/gated"}, r"sources\.s\.dataset: org/gated is gated"),
        ({"dataset": "no such name"}, r"sources\.s\.dataset: the Hub has no dataset no such name"),
        ({"dataset": "org/pictures"}, r"sources\.s\.dataset: org/pictures has no data files"),
        ({"dataset": "org/table"}, r"sources\.s\.dataset: .*train\.csv is neither Parquet nor JSONL"),
    ],
    ids=str,
)
def test_wrong_names_are_config_errors(
    hub: HubServer, client: HubClient, edu: Path, served: str, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    hub.commit("org/gated", edu)
    hub.gated.add("org/gated")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README.md").write_text("# nothing")
    hub.commit("org/pictures", tmp_path / "empty")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "train.csv").write_text("text\nx\n")
    hub.commit("org/table", tmp_path / "table")
    with pytest.raises(ClientError, match=message) as caught:
        read_hub(client, **{"dataset": served, **options})
    assert caught.value.kind == "ConfigError"


def test_importing_the_room_imports_no_hub_library(client: HubClient) -> None:
    code = """
import subprocess, sys
done = subprocess.run([sys.executable, "-c", "import sys, tamiz.sources; print(*sys.modules)"], capture_output=True)
result = done.stdout.decode().split()
"""
    modules = client.run(code)
    assert "tamiz.sources.parquet" in modules
    assert not {"datasets", "huggingface_hub", "httpx", "httpx2", "pandas", "tamiz.sources.hub"} & set(modules)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["README"])
def test_a_hub_that_only_fails_says_so(
    hub: HubServer, client: HubClient, edu: Path, tmp_path: Path, where: str
) -> None:
    copy = shutil.copytree(edu, tmp_path / "copy")  # a commit of its own: the client keeps what it knows of one
    (copy / "README.md").write_text(f"{CARD}\n# {where}")
    hub.commit("org/edu", copy)
    hub.faults.append(Fault("status", where, times=1000, status=502))
    with pytest.raises(ClientError, match=r"SourceError: the Hub failed again and again to serve org/edu \(HTTP 502"):
        read_hub(client, "org/edu")


@pytest.mark.slow
def test_a_hub_that_is_not_there_is_named_within_thirty_seconds() -> None:
    with socket.socket() as taken:  # bound, not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        with HubClient(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            client.run("import tamiz.sources.hub, datasets")
            started = time.monotonic()
            with pytest.raises(ClientError, match=r"SourceError: could not reach the Hub for org/edu: .*refused"):
                read_hub(client, "org/edu")
            assert time.monotonic() - started < 30


@pytest.mark.slow
def test_a_hub_that_falls_silent_is_named_within_thirty_seconds(edu: Path) -> None:
    with HubServer() as hub, HubClient(hub.endpoint) as client:
        hub.commit("org/edu", edu)
        plan = read_hub(client, "org/edu", is_reading=False)
        hub.faults.append(Fault("stall", "GET .*parquet", times=100))
        started = time.monotonic()
        with pytest.raises(ClientError, match=r"SourceError: could not reach the Hub for org/edu: .*timed out"):
            read_hub(client, "org/edu", splits=plan["splits"])
        assert time.monotonic() - started < 30
        hub.closing.set()
