"""The whole run over the bundled sample, by the command line a user types."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
LABELS = ROOT / "tests" / "golden" / "sample_labels.tsv"
TAMIZ = Path(sys.executable).with_name("tamiz")


def run_tamiz(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TAMIZ, *arguments], cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


def build(run_dir: Path, *arguments: str, config: str = "configs/cyber.yaml") -> subprocess.CompletedProcess[str]:
    return run_tamiz("build", config, "--run-dir", str(run_dir), *arguments)


def hash_corpus(run_dir: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (run_dir / "corpus").iterdir()}


def read_outcomes(run_dir: Path) -> dict[str, dict[str, object]]:
    """By origin: outcome after dedup, failing rules, quarantine reason."""
    documents: dict[str, dict[str, object]] = {}
    lost: dict[bytes, bytes] = {}
    for path in sorted(run_dir.glob("dedup/*/duplicates.parquet")):
        table = pq.read_table(path)
        lost.update(zip(table["doc_id"].to_pylist(), table["lost_to"].to_pylist(), strict=True))
    origins = {}
    for path in sorted(run_dir.glob("sift/*/*.verdicts.parquet")):
        for row in pq.read_table(path).to_pylist():
            outcome = "duplicate" if row["doc_id"] in lost else row["outcome"]
            origins[row["doc_id"]] = row["origin"]
            documents[row["origin"]] = {
                "outcome": "packed" if outcome == "kept" else outcome,
                "failed": row["failed"],
                "quarantine": row["quarantine"],
                "lost_to": lost.get(row["doc_id"]),
            }
    for document in documents.values():
        document["lost_to"] = origins.get(document["lost_to"])  # type: ignore[arg-type]
    return documents


def test_every_document_of_the_sample_ends_where_its_label_says(cyber: Path) -> None:
    outcomes = read_outcomes(cyber)
    with LABELS.open(encoding="utf-8", newline="") as file:
        labels = list(csv.DictReader(file, delimiter="\t"))
    by_id = {label["id"]: f"{label['file']}#{label['row']}" for label in labels}
    wrong = []
    for label in labels:
        seen = outcomes[f"{label['file']}#{label['row']}"]
        right = seen["outcome"] == label["outcome"]
        if label["outcome"] == "rejected":
            recipes = {rule.split(".")[0] for rule in seen["failed"]}  # type: ignore[attr-defined]
            right &= bool(recipes & set(label["reason"].split("|")))
        elif label["outcome"] == "quarantined":
            right &= seen["quarantine"] == label["reason"]
        elif label["outcome"] == "duplicate":
            right &= seen["lost_to"] == by_id[label["reason"]]
        if not right:
            wrong.append((label, seen))
    assert not wrong
    assert len(labels) == len(outcomes)


def test_verify_passes_and_the_summary_balances(cyber: Path) -> None:
    verified = run_tamiz("verify", str(cyber))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    summary = json.loads((cyber / "report" / "summary.json").read_text(encoding="utf-8"))
    documents = summary["documents"]
    assert documents["read"] == sum(count for outcome, count in documents.items() if outcome != "read")
    assert summary["source"] == ["sample"]
    assert summary["dedup"]["scopes"]["run"] == documents["duplicate"]
    rows = sum(pq.read_metadata(path).num_rows for path in (cyber / "corpus").glob("*.parquet"))
    assert rows == summary["sequences"]
    assert summary["tokens"]["total"] == rows * 4096


def test_two_workers_make_the_same_bytes(cyber: Path, tmp_path: Path) -> None:
    assert build(tmp_path / "two", "--workers", "2").returncode == 0
    assert hash_corpus(tmp_path / "two") == hash_corpus(cyber)


def test_a_second_build_does_nothing_again_and_another_length_packs_only(cyber: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "again"
    assert build(run_dir).returncode == 0
    stamps = {path: path.stat().st_mtime_ns for path in run_dir.glob("*/*/*.parquet")}
    shards = {path: path.stat().st_mtime_ns for path in run_dir.glob("corpus/*.parquet")}
    assert build(run_dir).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in shards} == shards
    assert build(run_dir, "--set", "pack.sequence_length=512").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert run_tamiz("verify", str(run_dir)).returncode == 0
    assert build(run_dir).returncode == 0
    assert hash_corpus(run_dir) == hash_corpus(cyber)


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "stranger"])
def test_verify_finds_damage(cyber: Path, tmp_path: Path, damage: str) -> None:
    import shutil

    run_dir = tmp_path / "damaged"
    shutil.copytree(cyber, run_dir)
    shard = run_dir / "corpus" / "train-00000.parquet"
    data = bytearray(shard.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
    elif damage == "truncate":
        shard.write_bytes(data[:-100])
    elif damage == "remove":
        shard.unlink()
    else:
        (run_dir / "corpus" / "train-00009.parquet").write_bytes(data)
    verified = run_tamiz("verify", str(run_dir))
    assert verified.returncode == 1, verified.stdout
    assert "train-0000" in verified.stdout
    assert "Traceback" not in verified.stderr


def test_the_corpus_folder_is_a_dataset(cyber: Path, tmp_path: Path) -> None:
    code = (
        "import sys, datasets; folder = sys.argv[1];"
        "rows = datasets.load_dataset(folder, cache_dir=sys.argv[2])['train'];"
        "shards = folder + '/train-*.parquet';"
        "files = datasets.load_dataset('parquet', data_files=shards, cache_dir=sys.argv[2])['train'];"
        "assert len(rows) == len(files) == int(sys.argv[3]); assert sum(rows[0]['seq_lens']) == 4096"
    )
    rows = pq.read_metadata(cyber / "corpus" / "train-00000.parquet").num_rows
    arguments = [sys.executable, "-c", code, str(cyber / "corpus"), str(tmp_path), str(rows)]
    loaded = subprocess.run(arguments, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, check=False)
    assert loaded.returncode == 0, loaded.stderr.decode()


def test_a_directory_of_another_config_and_a_wrong_key_are_refused(cyber: Path) -> None:
    other = build(cyber, config="configs/fineweb-edu.yaml")
    assert other.returncode == 2
    assert "made by config 'cyber'" in other.stderr
    wrong = build(cyber, "--set", "pack.sequence_lenght=5")
    assert wrong.returncode == 2
    assert "did you mean 'sequence_length'?" in wrong.stderr


def test_jsonl_with_bad_lines_is_quarantined_by_position(tmp_path: Path) -> None:
    import zstandard

    good = json.dumps({"text": "A short text, but a text. It has two sentences."})
    lines = [good, "{broken", '{"text": null}', '{"other": 1}', "[1]", good.replace("short", "longer")]
    data = "\n".join(lines).encode()
    (tmp_path / "in.jsonl.zst").write_bytes(zstandard.compress(data))
    (tmp_path / "c.yaml").write_text(
        "name: c\nsource: a\nsources: {a: {kind: jsonl, paths: [in.jsonl.zst]}}\ndedup: {minhash: {similarity: 0.8}}\n"
        "pack: {sequence_length: 16, shard_tokens: 1000, holdout: 0.0, bos: true}\nquarantine: {max_share: 1.0}\n"
    )
    built = build(tmp_path / "run", config=str(tmp_path / "c.yaml"))
    assert built.returncode == 0, built.stderr
    outcomes = read_outcomes(tmp_path / "run")
    starts = [0] + [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    reasons = [None, "bad_json", "text_missing", "text_missing", "not_an_object", None]
    assert {origin: seen["quarantine"] for origin, seen in outcomes.items()} == {
        f"in.jsonl.zst#{start}": reason for start, reason in zip(starts, reasons, strict=True)
    }
    assert run_tamiz("verify", str(tmp_path / "run")).returncode == 0
