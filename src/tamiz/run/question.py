"""What is asked of a run's verdicts: other rules, as overrides of its config."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from tamiz.config import Config
from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.decide.rules import Rule
from tamiz.errors import ConfigError
from tamiz.run.plan import read_run_config
from tamiz.run.settings import make_all_rules
from tamiz.run.verdicts import Verdicts
from tamiz.store import Folder

_OTHERS = ("language.keep", "language.min_score", "domain.score_min", "domain.terms_min")


@dataclass(frozen=True)
class Question:
    """`sets`: rule=value; `offs`: rules or recipes to switch off; `recipes`: those to put at their published bounds."""

    sets: Sequence[str] = ()
    offs: Sequence[str] = ()
    recipes: Sequence[str] = ()


def list_rule_names() -> list[str]:
    """Every rule there is, as the config names it."""
    return [f"{recipe}.{key}" for recipe, bounds in RECIPES.items() for key in bounds] + list(_OTHERS)


def make_overrides(question: Question, config: Config) -> list[str]:
    """The question as overrides of the config, so that a build with them gives the corpus the answer speaks of."""
    overrides = []
    for recipe in question.recipes:
        if recipe not in RECIPES:
            raise ConfigError(f"--recipe {recipe}: no such recipe; known are {', '.join(RECIPES)}")
        overrides += [f"rules.{recipe}.{key}={bound:g}" for key, bound in RECIPES[recipe].items()]
    for name in question.offs:
        overrides += _switch_off(name, config)
    for pair in question.sets:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"--set {pair!r}: write rule=value, for instance gopher_quality.n_words_min=40")
        overrides.append(f"{find_key(name, '--set')}={value}")
    return overrides


def _switch_off(name: str, config: Config) -> list[str]:
    if name in RECIPES:
        return [f"rules.{name}.{key}=null" for key in RECIPES[name]] if name in config.rules else []
    if name in {"language", "domain"}:
        return [f"{name}=null"]
    if name in {"language.keep", "language.min_score"}:
        raise ConfigError(f"--off {name}: not a rule that can be off alone; --off language, or --set {name}=...")
    return [f"{find_key(name, '--off')}=null"]


def find_key(name: str, option: str) -> str:
    """The config's key of a rule; ConfigError when it is none, or one that verdicts cannot answer."""
    name = name.strip().removeprefix("rules.")
    known = list_rule_names()
    if name in known:
        return name if name in _OTHERS else f"rules.{name}"
    if name.removeprefix("c4.") in LINE_RULES:
        raise ConfigError(
            f"{option} {name}: this rule rewrites texts line by line, so other metrics would change with it; verdicts "
            f"cannot answer. Build with --set rules.{name}=... into another --run-dir and `tamiz compare` the two"
        )
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    raise ConfigError(f"{option} {name}: not a rule" + (f"; did you mean {near[0]}?" if near else ""))


def make_new_rules(verdicts: Verdicts, folder: Folder, overrides: Sequence[str]) -> list[Rule]:
    """The rules the question asks about, checked as a config is; ConfigError when a metric was not measured."""
    new = read_run_config(folder, overrides)
    rules = make_all_rules(new)
    for rule in rules:
        if verdicts.columns and rule.metric not in verdicts.columns:
            raise ConfigError(
                f"{rule.name}: {rule.metric} was not measured in this run, because nothing asked for it; build with "
                f"{rule.recipe} on into another --run-dir (its rules may all be null)"
            )
    return rules
