from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tamiz.config_file import load_config
from tamiz.errors import ConfigError

BASE: dict[str, Any] = {"name": "x", "source": "a", "sources": {"a": {"kind": "sample"}}}
CONFIGS = Path(__file__).resolve().parents[1] / "configs"


def write(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump({**BASE, **changes}), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_configs_load(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    for name in config.sources:
        assert load_config(path, [f"source={name}"]).source_names == [name]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nmae": 1}, ["nmae", "'name'"]),
        ({"pack": {"sequence_lenght": 3}}, ["pack.sequence_lenght", "'sequence_length'"]),
        ({"pack": {"sequence_length": 1}}, ["pack.sequence_length is 1", "2"]),
        ({"pack": {"sequence_length": "long"}}, ["pack.sequence_length is 'long'", "integer"]),
        ({"pack": {"shard_tokens": 10}}, ["shard_tokens 10", "sequence_length 4096"]),
        ({"pack": {"holdout": 1.0}}, ["pack.holdout is 1.0"]),
        ({"rules": {"gopher": {}}}, ["'gopher'", "'gopher_quality'"]),
        ({"rules": {"gopher_quality": {"n_word_min": 3}}}, ["gopher_quality.n_word_min", "'n_words_min'"]),
        ({"rules": {"gopher_quality": {"n_words_min": 1e6}}}, ["n_words_min 1000000", "n_words_max 100000"]),
        ({"rules": {"c4": {"require_terminal_punctuation": 3}}}, ["c4.require_terminal_punctuation is 3"]),
        ({"rules": {"c4": {"line_words_min": None}}}, ["c4.line_words_min is None"]),
        ({"dedup": {"minhash": {"bands": 20}}}, ["20 x rows 8 = 160 > hashes 112"]),
        ({"dedup": {"minhash": {"bands": 2, "similarity": 0.8}}}, ["similarity", "bands/rows"]),
        ({"source": "b"}, ["'b'", "known are a"]),
        ({"source": ["a", "a"]}, ["twice"]),
        ({"sources": {"a": {"kind": "hubb"}}}, ["sources.a.kind is 'hubb'", "hub"]),
        ({"sources": {"a": {}}}, ["sources.a.kind is missing"]),
        ({"sources": {"a": {"kind": "parquet", "paths": []}}}, ["sources.a.paths is []"]),
        ({"sources": {"a": {"kind": "hub", "dataset": "d", "where": {"s": {"min": 3, "max": 1}}}}}, ["where.s", "3"]),
        ({"sources": {"a": {"kind": "hub"}}}, ["sources.a.dataset is missing"]),
        ({"redact": ["mail"]}, ["redact.0 is 'mail'", "'email'"]),
        ({"language": {"keep": ["en"], "min_score": 2.0}}, ["language.min_score is 2.0"]),
        ({"run": {"workers": 0}}, ["run.workers is 0"]),
        ({"name": "../x"}, ["name is '../x'"]),
        ({"folder": "x"}, ["folder"]),
    ],
)
def test_a_mistake_is_told_with_key_and_value(tmp_path: Path, changes: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, **changes))
    assert len(str(caught.value).splitlines()) == 1
    for part in expected:
        assert part in str(caught.value)


def test_published_bounds_stand_unless_changed_and_null_is_off(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, rules={"gopher_quality": {"n_words_min": 40, "n_words_max": None}}))
    bounds = config.recipe_bounds("gopher_quality")
    assert bounds["n_words_min"] == 40
    assert bounds["n_words_max"] is None
    assert bounds["frac_alpha_words_min"] == 0.8


def test_a_recipe_set_to_null_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, rules={"c4": {}, "gopher_quality": {}})
    assert list(load_config(path, ["rules.c4=null"]).rules) == ["gopher_quality"]
    assert load_config(path, ["rules.c4=null"]) == load_config(write(tmp_path, rules={"gopher_quality": {}}))


def test_overrides_take_yaml_values_and_make_sections(tmp_path: Path) -> None:
    path = write(tmp_path)
    config = load_config(path, ["pack.sequence_length=128", 'sources.b={kind: parquet, paths: ["x"]}', "source=b"])
    assert config.pack.sequence_length == 128
    assert config.source_names == ["b"]


@pytest.mark.parametrize("override", ["x", "=3", "name.first=3", "pack.bos=[1"])
def test_a_bad_override_is_told(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        load_config(write(tmp_path), [override])


def test_files_that_are_no_config(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "bad.yaml").write_text("a: [1\n")
    (tmp_path / "cyber.yaml").write_text("")
    for name, expected in {
        "list.yaml": "mapping",
        "bad.yaml": "cannot read",
        "cyber.yml": "no such config",
        "ciber.yaml": "did you mean cyber.yaml",
        "cyber.yaml": "NoneType",
        "cyber.json": ".yaml",
    }.items():
        with pytest.raises(ConfigError, match=expected):
            load_config(tmp_path / name)


def test_files_are_looked_for_beside_the_config_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    config = load_config(write(tmp_path))
    (tmp_path / "here" / "terms.tsv").write_text("cwd")
    assert config.find_file("terms.tsv", "domain.lexicon").read_text() == "cwd"
    (tmp_path / "terms.tsv").write_text("beside")
    assert config.find_file("terms.tsv", "domain.lexicon").read_text() == "beside"
    with pytest.raises(ConfigError, match=r"domain\.lexicon: no file 'nix\.tsv'"):
        config.find_file("nix.tsv", "domain.lexicon")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("dedup.memory=2 gigs", "dedup.memory"),
        ("dedup.memory=100MB", "a worker needs at least 600MB"),
        ("dedup.keep={metric: n_words, order: up}", "order"),
        ("dedup.prefer=[smaple]", "did you mean 'sample'"),
        ("dedup={verify: true, minhash: null}", "no near copies to verify"),
        ("dedup={index: bloom, keep: longest}", "knows only the first one"),
        ("dedup.scope=dumps", "dedup.scope"),
        ("pack.repeat={2: 3, 5: 2}", "pack.repeat"),
    ],
)
def test_impossible_dedup_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(CONFIGS / "cyber.yaml", [override])


def test_memory_is_bytes_or_a_size() -> None:
    for text, n_bytes in {"2GB": 2 * 10**9, "800 mb": 8 * 10**8, "1.5TB": 15 * 10**11, "700000000": 7 * 10**8}.items():
        config = load_config(CONFIGS / "cyber.yaml", [f"dedup.memory={text}"])
        assert config.dedup.memory_bytes == n_bytes
