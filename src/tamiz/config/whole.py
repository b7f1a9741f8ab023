"""The whole config: what its sections say of each other."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from tamiz.config.sources import Model, Source
from tamiz.config.stages import Dedup, Domain, Extract, Language, Pack, Quarantine, Run
from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.errors import ConfigError

Bound: TypeAlias = float | int | bool | None


class Config(Model):
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
