"""Pages, every option of dedup, older runs and the commands that read a run: over S3 and Ray as in a folder."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tamiz.decide.recipes import RECIPES
from tamiz.store import Folder
from tests.cluster.conftest import BUCKET, Nodes
from tests.cluster.drivers import TAMIZ, check_books, finish, use_ray
from tests.robustness.pages import LAYOUT, make_response
from tests.run.test_against import make_texts, write_source

ALL = {
    "verify": True, "keep": {"metric": "n_words", "order": "asc"}, "scope": "dump", "lines": {"min_copies": 5},
    "minhash": {"ngram": 5, "hashes": 112, "bands": 20, "rows": 5},
}  # fmt: skip
BLOOM = {"index": "bloom", "minhash": {"ngram": 5, "hashes": 112, "bands": 20, "rows": 5}}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, nodes: Nodes) -> Path:
    """Two sources and a file of pages, in a folder and under the same names in the bucket."""
    folder = tmp_path_factory.mktemp("inputs")
    for source in "ab":
        texts = [f"A banner that is on pages.\n{text}" for text in make_texts(ord(source) // 2, 90)]
        dumps = [random.Random(i).choice(["CC-1", "CC-2"]) for i in range(len(texts))]
        write_source(folder, source, texts, dumps)
    pages = [LAYOUT % (b"<p>%s.</p>" % text.encode()) for text in make_texts(7, 30)]
    (folder / "web").mkdir()
    (folder / "web" / "0.warc.gz").write_bytes(
        b"".join(gzip.compress(make_response(i, p)) for i, p in enumerate(pages))
    )
    bucket = Folder(f"s3://{BUCKET}/options")
    for path in folder.rglob("*.*"):
        bucket.publish_bytes(str(path.relative_to(folder)), path.read_bytes())
    return folder


def build(folder: Path, place: str, run: str, dedup: dict[str, Any], sources: str, *options: str) -> str:
    """The run directory of a build from the inputs at `place`."""
    # One rule, which all documents pass, so that there is something to measure and to change.
    rules = dict.fromkeys(RECIPES["gopher_quality"]) | {"n_words_min": 50}
    config = {
        "name": "options", "source": sources.split(), "dedup": dedup, "pack": {"sequence_length": 256},
        "rules": {"gopher_quality": rules},
        "sources": {
            "a": {"kind": "parquet", "paths": [f"{place}/a/*.parquet"]},
            "b": {"kind": "parquet", "paths": [f"{place}/b/*.parquet"]},
            "web": {"kind": "warc", "paths": [f"{place}/web/*.warc.gz"]},
        },
    }  # fmt: skip
    path = folder / "options.yaml"
    path.write_text(yaml.safe_dump(config))
    finish([str(TAMIZ), "build", str(path), "--run-dir", f"{place}/runs/{run}", *options], dict(os.environ))
    return f"{place}/runs/{run}"


@pytest.mark.parametrize("dedup", [ALL, BLOOM], ids=["all", "bloom"])
def test_options_against_an_older_run(
    inputs: Path, nodes: Nodes, tmp_path: Path, dedup: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.id
    shards, runs = [], []
    for place, options in ((str(inputs), ["--workers", "1"]), (f"s3://{BUCKET}/options", use_ray(nodes))):
        first = build(tmp_path, place, f"first-{kind}", dedup, "a", *options)
        second = build(tmp_path, place, f"second-{kind}", dedup | {"against": [first]}, "b web", *options)
        runs.append((first, second))
        shards.append(read_shards(second))
        summary = check_books(second)
        assert summary["documents"]["duplicate"] > 10
        assert summary["sources"]["web"]["kept"] > 0
    assert shards[0].equals(shards[1])  # their files also name the config, in which places differ
    assert len(shards[0]) > 0
    said = [read_all(*pair) for pair in runs]
    assert said[0] == said[1]


def read_shards(run: str) -> pa.Table:
    """The rows of all shards, in the order of their names."""
    folder, tables = Folder(run), []
    for path in folder.list("corpus/"):
        if path.endswith(".parquet"):
            with folder.open(path) as file:
                tables.append(pq.read_table(file, use_threads=False, pre_buffer=False))
    return pa.concat_tables(tables)


def read_all(first: str, second: str) -> list[str]:
    """What explain, whatif and compare say of the run, without the names of places."""
    folder = Folder(second)
    path = next(path for path in folder.list("dedup/") if path.endswith("/duplicates.parquet"))
    with folder.open(path) as file:
        loser = pq.read_table(file, use_threads=False, pre_buffer=False)["doc_id"][0].as_py().hex()
    said = []
    for command in (["explain", second, "--id", loser], ["whatif", second, "--set", "gopher_quality.n_words_min=121"]):
        said.append(finish([str(TAMIZ), *command], dict(os.environ)).stdout)
    assert loser in said[0]
    compared = finish([str(TAMIZ), "compare", first, second], dict(os.environ)).stdout
    said.append(compared.partition("what differs in the configs")[2].partition("\n\n")[2])  # in them places differ
    places = {first, second, first.rpartition("/runs/")[0]}
    for place in sorted(places, key=len, reverse=True):
        said = [text.replace(place, "PLACE") for text in said]
    return said
