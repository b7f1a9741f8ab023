"""What is done to documents and how, as typed values of the config: one class for each of its sections."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, field_validator, model_validator

from tamiz.config.sources import Model, check_urls

MEMORY_MIN = 600_000_000  # a worker of dedup before its first document takes 400 MB

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


class Extract(Model):
    """How the main text of a page is found, for sources of pages."""

    engine: Literal["trafilatura", "resiliparse"] = "trafilatura"
    """trafilatura is the better (F1 0.965 against 0.937), resiliparse eight times as fast"""


class Language(Model):
    """Keep documents whose language is in `keep` with a score strictly above `min_score`."""

    keep: Annotated[list[str], Field(min_length=1)]
    """fastText labels, e.g. [en]"""
    min_score: Fraction = 0.65
    """FineWeb's bound"""
    recompute: bool = False
    """identify every document, also where the source has `language` and `language_score`"""
    model: str | None = None
    """path of lid.176.ftz; null looks in the installed packages, then downloads it once"""


class Domain(Model):
    """Keep documents whose weighted lexicon hits per 1,000 words and distinct terms reach the bounds."""

    lexicon: str
    """path of a .tsv with term, weight, area (lexicons/cyber.tsv explains the format)"""
    score_min: Annotated[float, Field(ge=0)] | None = None
    """bound on `domain_score`, weighted hits per 1,000 words, each term counted three times at most"""
    terms_min: Annotated[int, Field(ge=0)] | None = None
    """bound on `domain_terms`, distinct terms found"""


class MinHash(Model):
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


class KeepMetric(Model):
    """Of copies, the one with the most (`desc`) or least (`asc`) of a metric stays; one that has no value loses."""

    metric: str
    """a column of the verdicts"""
    order: Literal["asc", "desc"] = "desc"
    """desc keeps the document with the most"""


class Lines(Model):
    """Take out the lines that at least `min_copies` documents of a dump have."""

    min_copies: Annotated[int, Field(ge=2)] = 10
    """documents of a dump that have the line"""


_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Dedup(Model):
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
    against: Annotated[list[str], AfterValidator(check_urls)] = []
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


class Pack(Model):
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


class Quarantine(Model):
    """When too much of a source cannot be read, the run stops instead of leaving it out."""

    max_share: Fraction | None = None
    """share of a source's documents, or of its bytes, that may be quarantined; null is 0.01, but 0.03 for the bundled
    sample, which has broken records on purpose"""


class HubCache(Model):
    """What was fetched from the Hub stays on disk: a run with other rules over the same data reads no network."""

    path: str | None = None
    """folder; null is `hub/ranges` in tamiz's own cache. The variable TAMIZ_HUB_CACHE names one too"""
    quota_gb: Annotated[float, Field(gt=0)] = 50.0
    """GB (10^9 bytes) it may hold; what was used longest ago goes first"""


class Run(Model):
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
