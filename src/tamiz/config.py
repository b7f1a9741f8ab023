"""The config as typed values: unknown keys, wrong types and impossible values are errors with the key in them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.errors import ConfigError
from tamiz.objects import check_url

MEMORY_MIN = 600_000_000  # a worker of dedup before its first document takes 400 MB

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
    limit: PositiveInt | None = None
    """documents to read, of those that `where` selects, in the order of the files"""


class _TableSource(_Source):
    where: dict[str, Condition] = {}
    """conditions by column; only documents that satisfy all are read, a null satisfies none"""


class SampleSource(_TableSource):
    """The sample shipped with tamiz."""

    kind: Literal["sample"]


def _check_urls(paths: list[str], info: ValidationInfo) -> list[str]:
    for path in paths:
        check_url(path, str(info.field_name))
    return paths


Paths = Annotated[list[str], Field(min_length=1), AfterValidator(_check_urls)]


class FileSource(_TableSource):
    """Files: Parquet, or JSON lines (plain, .gz, .zst)."""

    kind: Literal["parquet", "jsonl"]
    paths: Paths
    """files, folders, or patterns with `*`, `?`, `**`; local, or URLs such as s3://bucket/crawl/*.parquet"""
    text_column: str = "text"
    """the column, or JSON key, that holds the text"""


class HubSource(_TableSource):
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


class WarcSource(_Source):
    """Crawls: the HTML pages of WARC files, the texts of WET files, plain or with .gz or .zst."""

    kind: Literal["warc"]
    paths: Paths
    """files, folders, or patterns with `*`, `?`, `**`; local, or URLs such as s3://bucket/crawl/*.warc.gz"""


Source: TypeAlias = Annotated[SampleSource | FileSource | HubSource | WarcSource, Field(discriminator="kind")]


class Extract(_Model):
    """How the main text of a page is found, for sources of pages."""

    engine: Literal["trafilatura", "resiliparse"] = "trafilatura"
    """trafilatura is the better (F1 0.965 against 0.937), resiliparse eight times as fast"""


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


class KeepMetric(_Model):
    """Of copies, the one with the most (`desc`) or least (`asc`) of a metric stays; one that has no value loses."""

    metric: str
    """a column of the verdicts"""
    order: Literal["asc", "desc"] = "desc"
    """desc keeps the document with the most"""


class Lines(_Model):
    """Take out the lines that at least `min_copies` documents of a dump have."""

    min_copies: Annotated[int, Field(ge=2)] = 10
    """documents of a dump that have the line"""


_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Dedup(_Model):
    """Exact copies, near copies, or both; `minhash: null` is off. Keys are explained in docs/deduplication.md."""

    exact: bool = True
    """remove documents whose normalised text occurred before"""
    minhash: MinHash | None = MinHash()
    """remove documents that resemble an earlier one; null is off"""
    scope: Literal["run", "source", "dump"] = "run"
    """where a copy counts: in the whole run, in its source, or in its dump"""
    keep: Literal["first", "longest"] | KeepMetric = "first"
    """which of several copies stays: the first, the longest, or by a metric"""
    prefer: Annotated[list[str], Field(max_length=200)] = []
    """sources whose documents win over those of others, best first"""
    against: Annotated[list[str], AfterValidator(_check_urls)] = []
    """run directories of older runs, whose documents win"""
    memory: int | str = "2GB"
    """what a worker of dedup may use"""
    verify: bool = False
    """remove only near copies whose true similarity reaches the threshold"""
    lines: Lines | None = None
    """remove lines that stand in many documents of a dump, before copies are looked for"""
    index: Literal["sorted", "bloom"] = "sorted"
    """how keys are compared; bloom where sorted ones would not fit the disk"""
    false_positives: Annotated[float, Field(gt=0.0, le=0.01)] = 0.0001
    """share of documents that a Bloom filter may take for copies by chance"""
    sample: Annotated[int, Field(ge=0, le=100_000)] = 1000
    """removed near copies whose true similarity is measured"""

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
    repeat: dict[PositiveInt, PositiveInt] = {}
    """copies a document has at least: times it is packed, e.g. {2: 2, 5: 5}"""

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


class Quarantine(_Model):
    """When too much of a source cannot be read, the run stops instead of leaving it out."""

    max_share: Fraction | None = None
    """share of a source's documents, or of its bytes, that may be quarantined; null is 0.01, but 0.03 for the bundled
    sample, which has broken records on purpose"""


class HubCache(_Model):
    """What was fetched from the Hub stays on disk: a run with other rules over the same data reads no network."""

    path: str | None = None
    """folder; null is `hub/ranges` in tamiz's own cache. The variable TAMIZ_HUB_CACHE names one too"""
    quota_gb: Annotated[float, Field(gt=0)] = 50.0
    """GB (10^9 bytes) it may hold; what was used longest ago goes first"""


class Run(_Model):
    """How to run; never part of a fingerprint."""

    workers: PositiveInt | Literal["auto"] = "auto"
    """units at once; auto is the number of cores, of the whole cluster with Ray"""
    engine: Literal["local", "ray"] = "local"
    """where units run: processes of this machine, or a Ray cluster"""
    address: str = "auto"
    """of the Ray cluster: auto (the one this machine belongs to), ray://host:10001, host:6379, or local (started for
    this run)"""
    hub_cache: HubCache | None = None
    """keep what is fetched from the Hub; null keeps nothing"""


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
    extract: Extract = Extract()
    """main text of pages"""
    language: Language | None = None
    """null keeps every language"""
    rules: dict[str, dict[str, Bound]] = {}
    """bounds by recipe; a recipe left out or null is off"""
    domain: Domain | None = None
    """null keeps every domain"""
    redact: list[Literal["email", "ip"]] = []
    """what to replace in kept texts: e-mail addresses, public IPv4 addresses"""
    dedup: Dedup = Dedup()
    """exact and near copies"""
    pack: Pack = Pack()
    """tokens and sequences"""
    quarantine: Quarantine = Quarantine()
    """how much may be unreadable"""
    run: Run = Run()
    """how to run"""
    folder: Path = Path()

    @property
    def source_names(self) -> list[str]:
        """The sources this run reads, in order."""
        return [self.source] if isinstance(self.source, str) else list(self.source)

    @field_validator("rules", mode="before")
    @classmethod
    def _leave_out(cls, rules: Any) -> Any:
        """A recipe set to null is left out: how an override switches one off."""
        return {k: v for k, v in rules.items() if v is not None} if isinstance(rules, dict) else rules

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
        if self.dedup.index == "bloom" and self.pack.repeat:
            raise ValueError("pack.repeat needs the number of copies, which dedup.index: bloom does not know")
        for name in self.dedup.prefer:
            if name not in self.sources:
                raise ValueError(f"dedup.prefer names {name!r}{suggest(name, self.sources)}")
        return self

    def find_file(self, path: str, key: str) -> Path:
        """The file at `path`: relative to the config's folder first, then to the working directory; or ConfigError."""
        for base in (self.folder, Path()):
            if (base / path).is_file():
                return base / path
        raise ConfigError(f"{key}: no file {path!r} in {self.folder.resolve()} or {Path().resolve()}")

    def max_quarantined(self, source: str) -> float:
        """The share of a source that may be quarantined."""
        if self.quarantine.max_share is not None:
            return self.quarantine.max_share
        return 0.03 if self.sources[source].kind == "sample" else 0.01

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
