"""The config as typed values: unknown keys, wrong types and impossible values are errors with the key in them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.errors import ConfigError
from tamiz.objects import check_url

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Condition(_Model):
    """A condition on a column of the source: `{min: 3}`, `{max: 5}`, `{min: 1, max: 2}` or `{in: [en, de]}`."""

    min: float | None = None
    """smallest value selected"""
    max: float | None = None
    """largest value selected"""
    in_: Annotated[list[str] | list[int] | None, Field(alias="in")] = None
    """the values selected, instead of min and max"""

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
    """for the dataset card, as the Hub spells it, e.g. odc-by"""
    where: dict[str, Condition] = {}
    """conditions by column; only documents that satisfy all are read, a null satisfies none"""
    limit: PositiveInt | None = None
    """documents to read, of those that `where` selects, in the order of the files"""


class SampleSource(_Source):
    """The sample shipped with tamiz."""

    kind: Literal["sample"]


class FileSource(_Source):
    """Files: Parquet, or JSON lines (plain, .gz, .zst)."""

    kind: Literal["parquet", "jsonl"]
    paths: Annotated[list[str], Field(min_length=1)]
    """files, folders, or patterns with `*`, `?`, `**`; local, or URLs such as s3://bucket/crawl/*.parquet"""
    text_column: str = "text"
    """the column, or JSON key, that holds the text"""

    @field_validator("paths")
    @classmethod
    def _check_urls(cls, paths: list[str]) -> list[str]:
        for path in paths:
            check_url(path, "paths")
        return paths


class HubSource(_Source):
    """A dataset on the Hugging Face Hub."""

    kind: Literal["hub"]
    dataset: str
    """owner/name"""
    subset: str | None = None
    """config of the dataset, e.g. sample-10BT; null is its default one"""
    split: str = "train"
    """split of the dataset"""
    revision: str | None = None
    """branch, tag or commit; pinned to a commit when the plan is made"""
    text_column: str = "text"
    """the column, or JSON key, that holds the text"""


Source: TypeAlias = Annotated[SampleSource | FileSource | HubSource, Field(discriminator="kind")]


class Language(_Model):
    """Keep documents whose language is in `keep` with a score strictly above `min_score`."""

    keep: Annotated[list[str], Field(min_length=1)]
    """fastText labels, e.g. [en]"""
    min_score: Fraction = 0.65
    """FineWeb's bound"""
    recompute: bool = False
    """identify every document, also where the source has `language` and `language_score`"""
    model: str | None = None
    """path of lid.176.ftz; null looks in the installed packages, then downloads it once"""


class Domain(_Model):
    """Keep documents whose weighted lexicon hits per 1,000 words and distinct terms reach the bounds."""

    lexicon: str
    """path of a .tsv with term, weight, area (lexicons/cyber.tsv explains the format)"""
    score_min: Annotated[float, Field(ge=0)] | None = None
    """bound on `domain_score`, weighted hits per 1,000 words, each term counted three times at most"""
    terms_min: Annotated[int, Field(ge=0)] | None = None
    """bound on `domain_terms`, distinct terms found"""


class MinHash(_Model):
    """Near copies: `bands` x `rows` out of `hashes`, or a `similarity` for which they are chosen."""

    ngram: PositiveInt = 5
    """words per shingle"""
    hashes: PositiveInt = 112
    """hash functions there may be"""
    bands: PositiveInt = 14
    """bands; two documents that agree in one are near copies"""
    rows: PositiveInt = 8
    """hashes per band"""
    similarity: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Jaccard similarity to find, instead of bands and rows"""

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


class Dedup(_Model):
    """Exact copies, near copies, or both; `minhash: null` is off."""

    exact: bool = True
    """remove documents whose normalised text occurred before"""
    minhash: MinHash | None = MinHash()
    """remove documents that resemble an earlier one; null is off"""


class Pack(_Model):
    """Tokens and sequences."""

    tokenizer: str = "tekken"
    """tekken (Mistral's), the path of a tokenizer.json, or a Hub repository (owner/name)"""
    sequence_length: Annotated[int, Field(ge=2)] = 4096
    """tokens per row"""
    strategy: Literal["best_fit", "concat"] = "best_fit"
    """best_fit cuts only documents longer than a row; concat lays documents end to end and cuts anywhere"""
    shard_tokens: PositiveInt = 100_000_000
    """tokens per file, about"""
    holdout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.002
    """share of documents that goes to validation-*.parquet, chosen by a hash of doc_id and the seed"""
    bos: bool = False
    """begin each document with the tokenizer's BOS; EOS always ends one"""
    eos: str | None = None
    """the end-of-document token of a tokenizer.json that has none of the well-known names"""
    dtype: Literal["auto", "uint16", "int32"] = "auto"
    """type of the ids; auto is uint16 where the vocabulary fits"""

    @model_validator(mode="after")
    def _check(self) -> Pack:
        if self.shard_tokens < self.sequence_length:
            raise ValueError(f"has shard_tokens {self.shard_tokens} < sequence_length {self.sequence_length}")
        return self


class Run(_Model):
    """How to run; never part of a fingerprint."""

    workers: PositiveInt | Literal["auto"] = "auto"
    """units at once; auto is the number of cores, of the whole cluster with Ray"""
    engine: Literal["local", "ray"] = "local"
    """where units run: processes of this machine, or a Ray cluster"""
    address: str = "auto"
    """of the Ray cluster: auto (the one this machine belongs to), ray://host:10001, host:6379, or local (started for
    this run)"""


Bound: TypeAlias = float | int | bool | None


class Config(_Model):
    """Everything a run depends on. `folder` is where the file lies: relative paths start there, then at the working
    directory."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """names the run directory, runs/<name>"""
    seed: int = 0
    """of every random choice"""
    source: str | Annotated[list[str], Field(min_length=1)]
    """which of `sources` to read; a list reads several, in this order"""
    sources: Annotated[dict[str, Source], Field(min_length=1)]
    """by name"""
    language: Language | None = None
    """null keeps every language"""
    rules: dict[str, dict[str, Bound]] = {}
    """bounds by recipe"""
    domain: Domain | None = None
    """null keeps every domain"""
    redact: list[Literal["email", "ip"]] = []
    """what to replace in kept texts: e-mail addresses, public IPv4 addresses"""
    dedup: Dedup = Dedup()
    """exact and near copies"""
    pack: Pack = Pack()
    """tokens and sequences"""
    run: Run = Run()
    """how to run"""
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
                raise ValueError(f"unknown recipe {recipe!r}{suggest(recipe, RECIPES)}")
            known = {**RECIPES[recipe], **(LINE_RULES if recipe == "c4" else {})}
            for key, bound in bounds.items():
                if key not in known:
                    raise ValueError(f"unknown rule {recipe}.{key}{suggest(key, known)}")
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
                raise ValueError(f"source is {name!r}{suggest(name, self.sources)}")
        if len(set(self.source_names)) != len(self.source_names):
            raise ValueError(f"source names one source twice: {self.source_names}")
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


def suggest(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """What to say after an unknown word: the nearest known one, or all of them."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(map(str, known))}"
