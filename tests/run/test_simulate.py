"""The prediction by hand-made numbers. Against real runs: benchmarks/simulate.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tamiz.errors import ConfigError
from tamiz.run.fingerprint import dump_canonical
from tamiz.run.ledger import Done, read_done
from tamiz.run.simulate import (
    FINEWEB,
    Costs,
    Input,
    Machines,
    describe_predictions,
    measure_costs,
    parse_machines,
    predict,
)
from tamiz.store import Folder, Output

MB = 1_000_000
MEMORY = 2_000_000_000


def record(folder: Folder, place: str, done: Done) -> None:
    folder.publish_bytes(f"{place}/{done.unit}.done.json", dump_canonical(done).encode())


def publish(folder: Folder, path: str, n_bytes: int) -> Output:
    return folder.publish_bytes(path, bytes(n_bytes))


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """Three splits of 1 MB at 2 CPU-s each, the first 5 s more; half is kept; 2 key columns; 4 shards.

    Dedup: five units of steps, which are gone, at 0.03 CPU-s and the first 1 s more; 0.05 s behind them.
    """
    folder = Folder(tmp_path)
    places = {stage: f"{stage}/x" for stage in ("sift", "dedup", "tokens", "pack")}
    folder.publish_bytes("plan.json", dump_canonical({"places": places}).encode())
    folder.publish_bytes("corpus/manifest.json", b"{}")
    for i in range(3):
        name = f"part-{i:05d}-000"
        outputs = {
            role: publish(folder, f"sift/x/{name}.{role}", size)
            for role, size in (("kept", 3000), ("bands", 1000), ("verdicts", 500))
        }
        tally = {"bytes/read": MB, "bytes/kept": MB // 2, "documents/read": 1000, "documents/kept": 600}
        record(folder, "sift/x", Done(name, outputs, tally, {}, 7.0 if i == 0 else 2.0, i == 0))
        tally = {
            "bytes/train": 300_000,
            "bytes/validation": 100_000,
            "tokens/train": 60_000,
            "tokens/validation": 6_666,
        }
        tokens = {"tokens": publish(folder, f"tokens/x/{name}", 2000)}
        record(folder, "tokens/x", Done(name, tokens, tally, {}, 1.5 if i == 0 else 0.5, i == 0))
    steps = {"units": 5, "first_units": 1, "cpu_seconds": 1.15, "first_cpu_seconds": 1.03, "n_bytes": 700}
    facts = {"n_columns": 2, "false_positives": None, "steps": steps}
    for name, seconds in (("duplicates", 0.02), ("copies", 0.03)):
        outputs = {name: publish(folder, f"dedup/x/{name}.parquet", 100)}
        record(folder, "dedup/x", Done(name, outputs, {}, facts if name == "duplicates" else {}, seconds, False))
    record(folder, "dedup/x", Done("trust-9-0", {}, {}, {}, 9.0, False))  # of a sample, however large the run
    for i in range(4):
        shard = {"shard": publish(folder, f"corpus/train-{i}", 4000)}
        record(folder, "pack/x", Done(f"train-{i}", shard, {}, {"tokens": 50_000}, 0.25, i == 0))
    return folder


def test_twice_the_input_takes_twice_the_work_and_the_same_start(run: Folder) -> None:
    costs = measure_costs(run, 50_000, MEMORY)
    predicted = predict(costs, Input("double", 6 * MB, 5 * MB), Machines(1, 1, 8.0, 36.0, 1.0))
    assert predicted.cpu_seconds == pytest.approx(
        {"sift": 12 + 5, "dedup": 2 * (5 * 0.03 + 0.05) + 1, "tokens": 3 + 1, "pack": 2.0}, rel=1e-4
    )
    assert predicted.documents == pytest.approx(6000)
    assert predicted.tokens == pytest.approx(2 * 3 * 66_666)
    assert predicted.stored_bytes == pytest.approx(2 * (3 * 4500 + 3 * 2000 + 200 + 4 * 4000), rel=0.001)
    assert predicted.objects == 4 * 1 + 3 * 1 + 2 * 8  # its 2 columns and 3 x 1 groups are gone by then
    assert predicted.dedup_tasks == 2 + 3
    assert predicted.moved_bytes == pytest.approx(
        5 * MB + 2 * (3 * 4500 + 3 * 1000 + 2 * 700 + 200 + 3 * 3500 + 3 * 2000 + 3 * 2000 + 4 * 4000), rel=0.001
    )
    seconds = sum(predicted.wall_seconds.values())
    assert predicted.price == pytest.approx(seconds / 100 + predicted.stored_bytes / 1e9)
    more = predict(costs, Input("double", 6 * MB, 5 * MB), Machines(10, 16, 8.0, 0.0, 0.0))
    assert sum(more.wall_seconds.values()) <= seconds


def test_a_slow_network_decides_the_wall_time(run: Folder) -> None:
    costs = measure_costs(run, 50_000, MEMORY)
    source = Input("far", 6 * MB, 1000e9)
    assert predict(costs, source, Machines(1, 1, 1.0, 0.0, 0.0)).wall_seconds["sift"] == pytest.approx(8000, rel=0.01)
    assert predict(costs, source, Machines(4, 1, 1.0, 0.0, 0.0)).wall_seconds["sift"] == pytest.approx(2000, rel=0.01)


def test_fineweb_stays_below_100_000_objects(run: Folder) -> None:
    costs = measure_costs(run, 1_000_000_000, MEMORY)
    kept = 18.5e9 / FINEWEB.text_bytes * 0.6  # its documents are longer than these
    costs = replace(costs, documents_kept=kept, dedup=replace(costs.dedup, n_columns=15))
    assert predict(costs, FINEWEB, Machines(32, 16, 10.0, 0.0, 0.0)).objects < 100_000
    text = describe_predictions(costs, Machines(32, 16, 10.0, 0.04, 0.02))
    assert "FineWeb-Edu, 1.3T tokens" in text
    assert "price" in text
    assert isinstance(costs, Costs)


def test_bloom_filters_and_lines_are_counted(run: Folder) -> None:
    places = {stage: f"{stage}/x" for stage in ("sift", "lines", "dedup", "tokens", "pack")}
    run.publish_bytes("plan.json", dump_canonical({"places": places}).encode())
    for i in range(3):
        outputs = {"kept": publish(run, f"lines/x/{i}.kept", 2900), "bands": publish(run, f"lines/x/{i}.bands", 1000)}
        record(run, "lines/x", Done(f"part-{i:05d}-000", outputs, {"documents/kept": 600}, {}, 0.5, False))
    old = read_done(run, "dedup/x")["duplicates"]
    record(run, "dedup/x", replace(old, facts={**old.facts, "false_positives": 0.0001}))
    costs = measure_costs(run, 50_000, MEMORY)
    assert list(costs.stages) == ["sift", "lines", "dedup", "tokens", "pack"]
    predicted = predict(costs, Input("double", 6 * MB, 5 * MB), Machines(1, 1, 8.0, 0.0, 0.0))
    assert predicted.cpu_seconds["lines"] == pytest.approx(3.0)
    assert predicted.dedup_tasks == 2 + 1
    assert predicted.objects == 7 * 1 + 3 * 1 + 2 * 8


def test_machines_are_read() -> None:
    assert parse_machines("nodes=32,cores=16,network=10Gbit") == Machines(32, 16, 10.0, 0.0, 0.0)
    priced = parse_machines("nodes=2, cores=4, network=25 Gbit/s, price_core_hour=0.04, price_gb=0.023")
    assert priced == Machines(2, 4, 25.0, 0.04, 0.023)


@pytest.mark.parametrize("text", ["", "nodes", "nodes=x", "knots=3", "nodes=0", "cores=16Gbit", "nodes=-1"])
def test_other_machines_are_told(text: str) -> None:
    with pytest.raises(ConfigError, match="--simulate"):
        parse_machines(text)


def test_an_unfinished_run_has_no_costs(run: Folder, tmp_path: Path) -> None:
    run.remove("corpus/manifest.json")
    for folder in (run, Folder(tmp_path / "nothing")):
        with pytest.raises(ConfigError, match="not a finished run"):
            measure_costs(folder, 1, MEMORY)
