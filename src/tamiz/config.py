"""One YAML file becomes one Config. Unknown keys, wrong types and impossible values are errors with the key in them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.errors import ConfigError

MEMORY_MIN = 600_000_000  # a worker of dedup before its first document takes 400 MB

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Condition(_Model):
    """A condition on a column of the source: `{min: 3}`, `{max: 5}`, `{min: 1, max: 2}` or `{in: [en, de]}`."""

    min: float | None = None
    max: float | None = None
    in_: Annotated[list[str] | list[int] | None, Field(alias="in")] = None

    @model_validator(mode="after")
    def _check(self) -> Condition:
        if self.min is None and self.max is None and self.in_ is None:
            raise ValueError("is empty; give min, max or in")
        if self.in_ is not None and (self.min is not None or self.max is not None):
            raise ValueError("has `in` together with min or max; give one kind")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"has min {self.min} > max {self.max}; nothing can pass")
        return self


class _Source(_Model):
    license: str | None = None
    where: dict[str, Condition] = {}
    limit: PositiveInt | None = None


class SampleSource(_Source):
    """The sample shipped with tamiz."""

    kind: Literal["sample"]


class FileSource(_Source):
    """Local files: Parquet, or JSON lines (plain, .gz, .zst)."""

    kind: Literal["parquet", "jsonl"]
    paths: Annotated[list[str], Field(min_length=1)]
    text_column: str = "text"


class HubSource(_Source):
    """A dataset on the Hugging Face Hub."""

    kind: Literal["hub"]
    dataset: str
    subset: str | None = None
    split: str = "train"
    revision: str | None = None
    text_column: str = "text"


Source: TypeAlias = Annotated[SampleSource | FileSource | HubSource, Field(discriminator="kind")]


class Language(_Model):
    """Keep documents whose language is in `keep` with a score strictly above `min_score`."""

    keep: Annotated[list[str], Field(min_length=1)]
    min_score: Fraction = 0.65
    recompute: bool = False
    model: str | None = None


class Domain(_Model):
    """Keep documents whose weighted lexicon hits per 1,000 words and distinct terms reach the bounds."""

    lexicon: str
    score_min: Annotated[float, Field(ge=0)] | None = None
    terms_min: Annotated[int, Field(ge=0)] | None = None


class MinHash(_Model):
    """Near copies: `bands` x `rows` out of `hashes`, or a `similarity` for which they are chosen."""

    ngram: PositiveInt = 5
    hashes: PositiveInt = 112
    bands: PositiveInt = 14
    rows: PositiveInt = 8
    similarity: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None

    @model_validator(mode="after")
    def _check(self) -> MinHash:
        if self.similarity is not None and self.model_fields_set & {"bands", "rows"}:
            raise ValueError("has both similarity and bands/rows; give one of them")
        if self.bands * self.rows > self.hashes:
            raise ValueError(
                f"has bands {self.bands} x rows {self.rows} = {self.bands * self.rows} > hashes {self.hashes}; "
                "lower bands or rows, or raise hashes"
            )
        return self


class KeepMetric(_Model):
    """Of copies, the one with the most (`desc`) or least (`asc`) of a metric stays; one that has no value loses."""

    metric: str
    order: Literal["asc", "desc"] = "desc"


class Lines(_Model):
    """Take out the lines that at least `min_copies` documents of a dump have."""

    min_copies: Annotated[int, Field(ge=2)] = 10


_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Dedup(_Model):
    """Exact copies, near copies, or both; `minhash: null` is off. Keys are explained in docs/deduplication.md."""

    exact: bool = True
    minhash: MinHash | None = MinHash()
    scope: Literal["run", "source", "dump"] = "run"
    keep: Literal["first", "longest"] | KeepMetric = "first"
    prefer: Annotated[list[str], Field(max_length=200)] = []
    against: list[str] = []
    memory: int | str = "2GB"
    verify: bool = False
    lines: Lines | None = None
    index: Literal["sorted", "bloom"] = "sorted"
    false_positives: Annotated[float, Field(gt=0.0, le=0.01)] = 0.0001
    sample: Annotated[int, Field(ge=0, le=100_000)] = 1000

    @property
    def memory_bytes(self) -> int:
        """`memory` as bytes."""
        if isinstance(self.memory, int):
            return self.memory
        number, unit = self.memory[:-2], self.memory[-2:].upper()
        return int(float(number) * _UNITS[unit])

    @field_validator("memory")
    @classmethod
    def _check_memory(cls, memory: int | str) -> int | str:
        if isinstance(memory, str) and not re.fullmatch(r"\d+(\.\d+)? ?[KMGT]B", memory, re.IGNORECASE):
            raise ValueError(f'{memory!r} is not a size; write bytes, or a number and a unit such as "2GB" or "800MB"')
        return memory

    @model_validator(mode="after")
    def _check(self) -> Dedup:
        if self.verify and self.minhash is None:
            raise ValueError("has verify: true without minhash; there are no near copies to verify")
        if self.index == "bloom" and (self.verify or self.keep != "first" or self.prefer):
            raise ValueError("has index: bloom with verify, keep or prefer: a Bloom filter knows only the first one")
        if self.memory_bytes < MEMORY_MIN:
            raise ValueError(f"has memory {self.memory}; a worker needs at least {MEMORY_MIN // 10**6}MB")
        return self


class Pack(_Model):
    """Tokens and sequences."""

    tokenizer: str = "tekken"
    sequence_length: Annotated[int, Field(ge=2)] = 4096
    strategy: Literal["best_fit", "concat"] = "best_fit"
    shard_tokens: PositiveInt = 100_000_000
    holdout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.002
    bos: bool = False
    eos: str | None = None
    dtype: Literal["auto", "uint16", "int32"] = "auto"
    repeat: dict[PositiveInt, PositiveInt] = {}  # copies a document has at least -> times it is packed

    @field_validator("repeat")
    @classmethod
    def _check_repeat(cls, repeat: dict[int, int]) -> dict[int, int]:
        times = [repeat[n_copies] for n_copies in sorted(repeat)]
        if times != sorted(times) or any(t > 100 for t in times):
            raise ValueError(
                f"{repeat} has to repeat documents with more copies at least as often, and 100 times at most"
            )
        return repeat

    @model_validator(mode="after")
    def _check(self) -> Pack:
        if self.shard_tokens < self.sequence_length:
            raise ValueError(f"has shard_tokens {self.shard_tokens} < sequence_length {self.sequence_length}")
        return self


class Run(_Model):
    """How to run; never part of a fingerprint."""

    workers: PositiveInt | Literal["auto"] = "auto"
    engine: Literal["local"] = "local"


Bound: TypeAlias = float | int | bool | None


class Config(_Model):
    """Everything a run depends on. `folder` is where the file lies: relative paths start there, then at the working
    directory."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    seed: int = 0
    source: str | Annotated[list[str], Field(min_length=1)]
    sources: Annotated[dict[str, Source], Field(min_length=1)]
    language: Language | None = None
    rules: dict[str, dict[str, Bound]] = {}
    domain: Domain | None = None
    redact: list[Literal["email", "ip"]] = []
    dedup: Dedup = Dedup()
    pack: Pack = Pack()
    run: Run = Run()
    folder: Path = Path()

    @property
    def source_names(self) -> list[str]:
        """The sources this run reads, in order."""
        return [self.source] if isinstance(self.source, str) else list(self.source)

    @field_validator("rules")
    @classmethod
    def _check_rules(cls, rules: dict[str, dict[str, Bound]]) -> dict[str, dict[str, Bound]]:
        for recipe, bounds in rules.items():
            if recipe not in RECIPES:
                raise ValueError(f"unknown recipe {recipe!r}{_suggest(recipe, RECIPES)}")
            known = {**RECIPES[recipe], **(LINE_RULES if recipe == "c4" else {})}
            for key, bound in bounds.items():
                if key not in known:
                    raise ValueError(f"unknown rule {recipe}.{key}{_suggest(key, known)}")
                if isinstance(known[key], bool) != isinstance(bound, bool) and bound is not None:
                    raise ValueError(f"{recipe}.{key} is {bound!r}; the published value is {known[key]!r}")
                if key in LINE_RULES and not isinstance(bound, int):
                    raise ValueError(f"{recipe}.{key} is {bound!r}; give a whole number, or true or false")
            _check_order(recipe, {**known, **bounds})
        return rules

    @model_validator(mode="after")
    def _check_sources(self) -> Config:
        for name in self.source_names:
            if name not in self.sources:
                raise ValueError(f"source is {name!r}{_suggest(name, self.sources)}")
        if len(set(self.source_names)) != len(self.source_names):
            raise ValueError(f"source names one source twice: {self.source_names}")
        if self.dedup.index == "bloom" and self.pack.repeat:
            raise ValueError("pack.repeat needs the number of copies, which dedup.index: bloom does not know")
        for name in self.dedup.prefer:
            if name not in self.sources:
                raise ValueError(f"dedup.prefer names {name!r}{_suggest(name, self.sources)}")
        return self

    def find_file(self, path: str, key: str) -> Path:
        """The file at `path`: relative to the config's folder first, then to the working directory; or ConfigError."""
        for base in (self.folder, Path()):
            if (base / path).is_file():
                return base / path
        raise ConfigError(f"{key}: no file {path!r} in {self.folder.resolve()} or {Path().resolve()}")

    def recipe_bounds(self, recipe: str) -> dict[str, Bound]:
        """The recipe's published rules with the config's bounds over them, in recipe order."""
        return {key: self.rules[recipe].get(key, bound) for key, bound in RECIPES[recipe].items()}

    def line_rules(self) -> dict[str, Any]:
        """The published line rules of `c4` with the config's values over them."""
        return {key: self.rules["c4"].get(key, value) for key, value in LINE_RULES.items()}


def _check_order(recipe: str, bounds: Mapping[str, Bound]) -> None:
    for key, low in bounds.items():
        high = bounds.get(f"{key[:-4]}_max")
        if key.endswith("_min") and low is not None and high is not None and low > high:
            raise ValueError(f"{key} {low} > {key[:-4]}_max {high} in {recipe}; no document can pass")


def _suggest(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(map(str, known))}"


def load_config(path: Path, overrides: Sequence[str] = (), folder: Path | None = None) -> Config:
    """Read the YAML file, put `a.b=value` overrides (values in YAML) over it, and check the whole.

    `folder`: where its relative paths start, if not beside the file (a run's copy of its config).
    """
    if path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"{path}: the config is a .yaml file")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.yaml")], n=1)
        raise ConfigError(f"{path}: no such config file" + (f"; did you mean {near[0]}?" if near else "")) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot read the config: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a config is a mapping of keys, seen {type(raw).__name__}")
    for override in overrides:
        _put_override(raw, override)
    if "folder" in raw:
        raise ConfigError(f"{path}: unknown key folder")
    try:
        return Config.model_validate({**raw, "folder": folder or path.parent})
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


_TAGS = {"sample", "parquet", "jsonl", "hub"}
_BRANCHES = {
    "str",
    "int",
    "float",
    "bool",
    "list[str]",
    "list[int]",
    "literal['auto']",
    "literal['first','longest']",
    "keepmetric",
}


def _explain_error(error: Any) -> str:
    """One sentence from one pydantic error: key, value seen, what to do."""
    kinds = error["type"]
    location = [str(part) for part in error["loc"]]
    location = [part for i, part in enumerate(location) if not (part in _TAGS and i == 2 and location[0] == "sources")]
    key = ".".join(part for part in location if part.lower() not in _BRANCHES and not part.startswith("constrained"))
    message = error["msg"].removeprefix("Value error, ")
    if kinds == "extra_forbidden":
        return f"unknown key {key}{_suggest(location[-1], _known_keys(location))}"
    if kinds == "missing":
        return f"{key} is missing"
    if kinds == "union_tag_invalid":
        return f"{key}.kind is {error['input'].get('kind')!r}; known are sample, parquet, jsonl, hub"
    if kinds == "union_tag_not_found":
        return f"{key}.kind is missing; known are sample, parquet, jsonl, hub"
    if kinds == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key} is {error['input']!r}: {message[0].lower()}{message[1:]}"


def _known_keys(location: list[str]) -> list[str]:
    """The keys that may stand where `location` ends."""
    sections: dict[str, type[BaseModel]] = {
        "language": Language, "domain": Domain, "dedup": Dedup, "minhash": MinHash, "keep": KeepMetric, "lines": Lines,
        "pack": Pack, "run": Run,
    }  # fmt: skip
    if len(location) == 1:
        return [name for name in Config.model_fields if name != "folder"]
    if location[0] == "sources":
        models: list[type[BaseModel]] = [FileSource, HubSource, SampleSource]
        return sorted({name for model in models for name in model.model_fields})
    section = sections.get(location[-2])
    return list(section.model_fields) if section else []
