"""One YAML file, with overrides, becomes one Config; what is wrong with it becomes one sentence per mistake."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from tamiz.config import (
    Config,
    Dedup,
    Domain,
    Extract,
    FileSource,
    HubCache,
    HubSource,
    KeepMetric,
    Language,
    Lines,
    MinHash,
    Pack,
    Quarantine,
    Run,
    SampleSource,
    WarcSource,
    suggest,
)
from tamiz.errors import ConfigError


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read the YAML file, put `a.b=value` overrides (values in YAML) over it, and check the whole."""
    if path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"{path}: the config is a .yaml file")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.yaml")], n=1)
        raise ConfigError(f"{path}: no such config file" + (f"; did you mean {near[0]}?" if near else "")) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot read the config: {' '.join(str(error).split())}") from None
    return read_config(text, str(path), path.parent, overrides)


def read_config(text: str, path: str, folder: Path, overrides: Sequence[str] = ()) -> Config:
    """As `load_config`, from the YAML text; `path` names it in messages, its relative paths start at `folder`."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: cannot read the config: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a config is a mapping of keys, seen {type(raw).__name__}")
    for override in overrides:
        _put_override(raw, override)
    if "folder" in raw:
        raise ConfigError(f"{path}: unknown key folder")
    try:
        return Config.model_validate({**raw, "folder": folder})
    except ValidationError as error:
        raise ConfigError(f"{path}: " + "; ".join(_explain_error(e) for e in error.errors())) from None


def _put_override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r}: write key=value, for instance pack.sequence_length=2048")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"--set {key}: {text!r} is not a YAML value") from None
    *parents, last = key.strip().split(".")
    node = raw
    for name in parents:
        if node.get(name) is None:
            node[name] = {}
        node = node[name]
        if not isinstance(node, dict):
            raise ConfigError(f"--set {key}: {name} is {node!r}, not a mapping")
    node[last] = value


_TAGS = {"sample", "parquet", "jsonl", "hub", "warc"}
_BRANCHES = {
    "str", "int", "float", "bool", "list[str]", "list[int]",
    "literal['auto']", "literal['first','longest']", "keepmetric",
}  # fmt: skip


def _explain_error(error: Any) -> str:
    """One sentence from one pydantic error: key, value seen, what to do."""
    kinds = error["type"]
    location = [str(part) for part in error["loc"]]
    location = [part for i, part in enumerate(location) if not (part in _TAGS and i == 2 and location[0] == "sources")]
    key = ".".join(part for part in location if part.lower() not in _BRANCHES and not part.startswith("constrained"))
    message = error["msg"].removeprefix("Value error, ")
    if kinds == "extra_forbidden":
        return f"unknown key {key}{suggest(location[-1], _known_keys(location))}"
    if kinds == "missing":
        return f"{key} is missing"
    if kinds == "union_tag_invalid":
        return f"{key}.kind is {error['input'].get('kind')!r}; known are sample, parquet, jsonl, hub, warc"
    if kinds == "union_tag_not_found":
        return f"{key}.kind is missing; known are sample, parquet, jsonl, hub, warc"
    if kinds == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key} is {error['input']!r}: {message[0].lower()}{message[1:]}"


def _known_keys(location: list[str]) -> list[str]:
    """The keys that may stand where `location` ends."""
    sections: dict[str, type[BaseModel]] = {
        "extract": Extract, "language": Language, "domain": Domain, "dedup": Dedup, "minhash": MinHash,
        "keep": KeepMetric, "lines": Lines, "pack": Pack, "run": Run, "quarantine": Quarantine, "hub_cache": HubCache,
    }  # fmt: skip
    if len(location) == 1:
        return [name for name in Config.model_fields if name != "folder"]
    if location[0] == "sources":
        models: list[type[BaseModel]] = [FileSource, HubSource, SampleSource, WarcSource]
        return sorted({name for model in models for name in model.model_fields})
    section = sections.get(location[-2])
    return list(section.model_fields) if section else []
