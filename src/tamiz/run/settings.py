"""From Config to the plain values of the rooms."""

from __future__ import annotations

import difflib
import glob
import hashlib
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from tamiz.clean.line_rules import LineRules
from tamiz.config import Condition, Config, FileSource, HubSource, WarcSource
from tamiz.decide.rules import Rule, make_rules
from tamiz.dedup.signature import MinHashShape, choose_shape
from tamiz.errors import ConfigError
from tamiz.measure.domain import read_lexicon
from tamiz.measure.table import VERSIONS, find_group, list_metrics
from tamiz.objects import is_url
from tamiz.run.against import OlderRun
from tamiz.run.dedup import DedupSettings
from tamiz.run.fingerprint import make_fingerprint, to_plain
from tamiz.run.language_model import find_language_model, fingerprint_model
from tamiz.run.measuring import SiftSettings
from tamiz.run.pack import PackSettings
from tamiz.run.partition import Preference
from tamiz.run.tokens import TokenSettings
from tamiz.sources.access import HubAccess
from tamiz.sources.split import Bound
from tamiz.sources.split import HubSource as HubSpec
from tamiz.sources.split import JsonlSource as JsonlSpec
from tamiz.sources.split import ParquetSource as ParquetSpec
from tamiz.sources.split import Source as SourceSpec
from tamiz.sources.split import WarcSource as WarcSpec

_EXTRACTION = ("trafilatura", "lxml", "resiliparse", "charset-normalizer")  # the text of a page depends on them
RECIPE_ORDER = ("gopher_repetition", "gopher_quality", "c4", "fineweb_quality")


def make_sift_settings(config: Config, cache_dir: Path) -> SiftSettings:
    """What sift needs; reads the lexicon, finds the language model."""
    rules = make_all_rules(config)
    groups = {find_group(rule.metric) for rule in rules}
    if "c4" in config.rules:
        groups.add("line_rules")
    _add_keep_group(config, groups)
    model = find_language_model(config, cache_dir)
    has_pages = any(isinstance(config.sources[name], WarcSource) for name in config.source_names)
    return SiftSettings(
        engine=config.extract.engine if has_pages else None,
        groups=frozenset(groups),
        rules=tuple(rules),
        language_model=str(model) if model else None,
        recompute_language=config.language is not None and config.language.recompute,
        line_rules=LineRules(**config.line_rules()) if "c4" in config.rules else None,
        lexicon=_read_lexicon(config),
        redact=tuple(sorted(config.redact)),
        shape=_choose_shape(config),
    )


def make_all_rules(config: Config) -> list[Rule]:
    """All rules in recipe order: language, the published recipes in FineWeb's order, domain."""
    rules: list[Rule] = []
    if config.language:
        language = config.language
        rules.append(Rule("language.keep", "language", "not_in", labels=tuple(language.keep)))
        rules.append(Rule("language.min_score", "language_score", "not_above", language.min_score))
    for recipe in RECIPE_ORDER:
        if recipe in config.rules:
            rules += make_rules(recipe, config.recipe_bounds(recipe))
    if config.domain:
        bounds = {"score_min": config.domain.score_min, "terms_min": config.domain.terms_min}
        for key, bound in bounds.items():
            if bound is not None:
                rules.append(Rule(f"domain.{key}", f"domain_{key.removesuffix('_min')}", "below", float(bound)))
    return rules


def _read_lexicon(config: Config) -> tuple[str, str] | None:
    if config.domain is None:
        return None
    path = config.find_file(config.domain.lexicon, "domain.lexicon")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"domain.lexicon: cannot read {path}: {error}") from None
    read_lexicon(text, config.domain.lexicon)  # a bad line is an error now, not in a worker
    return config.domain.lexicon, text


def _choose_shape(config: Config) -> MinHashShape | None:
    minhash = config.dedup.minhash
    if minhash is None:
        return None
    if minhash.similarity is not None:
        return choose_shape(minhash.ngram, minhash.hashes, minhash.similarity)
    return MinHashShape(minhash.ngram, minhash.bands, minhash.rows)


def make_dedup_settings(config: Config, shape: MinHashShape | None, against: Sequence[OlderRun]) -> DedupSettings:
    """What dedup needs."""
    dedup = config.dedup
    metric = {"first": None, "longest": "n_bytes"}[dedup.keep] if isinstance(dedup.keep, str) else dedup.keep.metric
    descending = isinstance(dedup.keep, str) or dedup.keep.order == "desc"
    threshold = shape.threshold if shape else 0.0
    if dedup.minhash and dedup.minhash.similarity is not None:
        threshold = dedup.minhash.similarity
    return DedupSettings(
        exact=dedup.exact,
        shape=shape,
        scope=dedup.scope,
        preference=Preference(tuple(dedup.prefer), metric, descending),
        against=tuple((older.run, older.place) for older in against),
        is_verified=dedup.verify,
        false_positives=dedup.false_positives if dedup.index == "bloom" else None,
        threshold=threshold,
        memory=dedup.memory_bytes,
        sample=dedup.sample,
        seed=config.seed,
    )


def describe_dedup(settings: DedupSettings, against: Sequence[OlderRun]) -> dict[str, Any]:
    """The fingerprint inputs of dedup, next to those of the stage before."""
    return {
        "exact": settings.exact,
        "scope": settings.scope,
        "preference": to_plain(settings.preference),
        "against": [older.fingerprint for older in against],
        "bloom": settings.false_positives,
        "verify": settings.threshold if settings.is_verified else None,
    }


def _add_keep_group(config: Config, groups: set[str]) -> None:
    """`dedup.keep: {metric: ...}` needs its metric measured; ConfigError when this config cannot."""
    if isinstance(config.dedup.keep, str):
        return
    metric = config.dedup.keep.metric
    kinds = list_metrics(VERSIONS.keys())
    if metric not in kinds or kinds[metric] == pa.string():
        near = difflib.get_close_matches(metric, kinds, n=1)
        raise ConfigError(
            f"dedup.keep.metric is {metric!r}; "
            + (f"did you mean {near[0]!r}?" if near else f"known are {', '.join(kinds)}")
        )
    group = find_group(metric)
    needs = {"language": "a language section", "domain": "a domain section", "line_rules": "the recipe c4"}
    if group in needs and group not in groups:
        raise ConfigError(f"dedup.keep.metric is {metric!r}, which is measured only with {needs[group]}")
    groups.add(group)


def describe_sift(settings: SiftSettings) -> dict[str, Any]:
    """The fingerprint inputs of sift, as a user would name them."""
    lexicon = hashlib.sha256(settings.lexicon[1].encode()).hexdigest() if settings.lexicon else None
    model = fingerprint_model(Path(settings.language_model)) if settings.language_model else None
    return {
        "extract": {name: version(name) for name in _EXTRACTION} | {"engine": settings.engine}
        if settings.engine
        else None,
        "versions": {group: VERSIONS[group] for group in sorted(settings.groups)},
        "rules": {rule.name: list(rule.labels) or rule.bound for rule in settings.rules},
        "language": {"model": model, "recompute": settings.recompute_language},
        "line_rules": to_plain(settings.line_rules),
        "lexicon": lexicon,
        "redact": list(settings.redact),
        "minhash": to_plain(settings.shape),
    }


def make_token_settings(config: Config, cache_dir: Path) -> TokenSettings:
    """What the tokens half of pack needs."""
    pack = config.pack
    tokenizer = pack.tokenizer
    if tokenizer.endswith(".json"):
        tokenizer = str(config.find_file(tokenizer, "pack.tokenizer").resolve())
    return TokenSettings(tokenizer, pack.eos, pack.bos, pack.holdout, config.seed, str(cache_dir))


def make_pack_settings(config: Config) -> PackSettings:
    """What the shards half of pack needs."""
    pack = config.pack
    return PackSettings(pack.sequence_length, pack.strategy, pack.shard_tokens, pack.dtype, fingerprint_config(config))


_NO_MATTER: Any = {"folder": True, "quarantine": True, "run": True, "dedup": {"memory", "sample"}}
_PLACE = ("kind", "paths", "dataset", "subset", "split", "revision")


def fingerprint_config(config: Config) -> str:
    """Of everything in the config that can change the corpus; not of where it lies or how it runs.

    Nor of where its sources lie: a dataset on the Hub and a copy of its files make the same shards. Which data it was
    stands in the manifest (`sources`), and in the fingerprints of the stages.
    """
    dump = config.model_dump(mode="json", exclude=_NO_MATTER)
    dump["sources"] = {
        name: {key: value for key, value in dump["sources"][name].items() if key not in _PLACE}
        for name in config.source_names
    }
    return make_fingerprint(dump)


def make_hub_access(config: Config, cache_dir: Path) -> HubAccess:
    """How the processes of this run reach the Hub: paced together, with a cache if the config asks for one."""
    pace, cache = str(cache_dir / "hub"), config.run.hub_cache
    if cache is None:
        return HubAccess(pace)
    folder = Path(cache.path).expanduser().absolute() if cache.path else cache_dir / "hub" / "ranges"
    return HubAccess(pace, str(folder), round(cache.quota_gb * 1e9))


def make_source_specs(config: Config) -> list[SourceSpec]:
    """The sources to read, in order, their patterns resolved."""
    return [_make_spec(config, name) for name in config.source_names]


def _make_spec(config: Config, name: str) -> SourceSpec:
    source = config.sources[name]
    if isinstance(source, WarcSource):
        return WarcSpec(name, tuple(_resolve_pattern(config, pattern) for pattern in source.paths), source.limit)
    where = {column: _make_bound(condition) for column, condition in source.where.items()}
    if isinstance(source, HubSource):
        return HubSpec(
            name, source.dataset, source.subset, source.split, source.revision, source.text_column, where, source.limit
        )
    if isinstance(source, FileSource):
        paths = tuple(_resolve_pattern(config, pattern) for pattern in source.paths)
        spec = ParquetSpec if source.kind == "parquet" else JsonlSpec
        return spec(name, paths, source.text_column, where, source.limit)
    sample = str(resources.files("tamiz.sample"))
    return ParquetSpec(name, (f"{sample}/*.parquet",), "text", where, source.limit)


def _make_bound(condition: Condition) -> Bound:
    return Bound(condition.min, condition.max, tuple(condition.in_) if condition.in_ is not None else None)


def _resolve_pattern(config: Config, pattern: str) -> str:
    """Relative to the config's folder if that matches anything, else to the working directory."""
    if is_url(pattern):
        return pattern
    path = Path(pattern).expanduser()
    if path.is_absolute():
        return str(path)
    if glob.glob(pattern, root_dir=config.folder, recursive=True):
        return str(config.folder.resolve() / pattern)
    return str(Path.cwd() / pattern)
