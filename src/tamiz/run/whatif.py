"""What if the rules were others? Answered from the verdicts of all documents, without reading a text.

The documents and bytes that the rules would keep are exact: every metric of every document is there. What comes behind
the rules is not: which documents are duplicates depends on which are kept, and a rejected document has no band keys, so
tokens and documents packed are estimated at the run's own rates. Three things cannot be asked, because they change the
text or were never measured: line rules of c4, c4 or fineweb_quality where the run had no c4, and a lexicon.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tamiz.config import Config
from tamiz.decide.recipes import LINE_RULES, RECIPES
from tamiz.decide.rules import Rule, count_failures, find_failures
from tamiz.errors import ConfigError
from tamiz.report.answer import Answer, Changed, Sweep
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record, read_run_config
from tamiz.run.settings import make_all_rules
from tamiz.run.sift import count_splits
from tamiz.run.texts import open_library, parse_origin, read_texts
from tamiz.run.verdicts import BOOL, Verdicts, find_kept, map_parts, open_verdicts, read_failures, read_keys
from tamiz.schema import F64, I64
from tamiz.store import Folder
from tamiz.tally import Tally, merge_tallies

_OTHERS = ("language.keep", "language.min_score", "domain.score_min", "domain.terms_min")
_NAMES = ("doc_id", "source", "origin", "url")
_MOST_STEPS = 2000


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
        overrides.append(f"{_find_key(name, '--set')}={value}")
    return overrides


def _switch_off(name: str, config: Config) -> list[str]:
    if name in RECIPES:
        return [f"rules.{name}.{key}=null" for key in RECIPES[name]] if name in config.rules else []
    if name in {"language", "domain"}:
        return [f"{name}=null"]
    if name in {"language.keep", "language.min_score"}:
        raise ConfigError(f"--off {name}: not a rule that can be off alone; --off language, or --set {name}=...")
    return [f"{_find_key(name, '--off')}=null"]


def _find_key(name: str, option: str) -> str:
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


def ask(folder: Folder, question: Question, n_examples: int = 0) -> Answer:
    """The answer from all verdicts there are; of examples the text is read from the source again."""
    config, verdicts = open_verdicts(folder)
    if not verdicts.parts:
        raise ConfigError(f"{folder.url}: no verdicts yet; sift has not finished a part")
    new = make_new_rules(verdicts, folder, make_overrides(question, config))
    old_by_name = {rule.name: rule for rule in verdicts.rules}
    changed = [rule for rule in new if old_by_name.get(rule.name) != rule]
    work = partial(_answer_part, verdicts, new, changed, n_examples)
    tallies, examples = zip(*map_parts(verdicts.parts, work), strict=True)
    tally = merge_tallies(tallies)
    packed = _count_packed(folder)
    kept_bytes = tally.get("bytes/before", 0)
    record = read_plan_record(folder) or {}
    found = sorted(found for part in examples for found in part)
    picked = [pick for side in ("gained", "lost") for pick in [f for f in found if f.side == side][:n_examples]]
    return Answer(
        tally=tally,
        changes=_list_changes(verdicts.rules, new),
        n_parts=len(verdicts.parts),
        is_complete=_has_all_parts(record, verdicts.parts),
        tokens_per_byte=packed["tokens"] / kept_bytes if packed and kept_bytes else None,
        share_unique=packed["documents"] / tally["documents/before"] if packed and tally["documents/before"] else None,
        examples=_describe_examples(folder, config, verdicts, new, picked),
    )


def _describe_examples(
    folder: Folder, config: Config, verdicts: Verdicts, new: Sequence[Rule], picked: Sequence[_Found]
) -> list[Changed]:
    metrics = sorted({rule.metric for rule in set(verdicts.rules) ^ set(new)} & verdicts.columns)
    values = [verdicts.read_row(verdicts.parts[pick.part], pick.row, [*_NAMES, *metrics]) for pick in picked]
    origins = [parse_origin(value["source"], value["origin"]) for value in values]
    texts = read_texts(open_library(folder, config), origins)
    return [
        Changed(
            doc_id=value["doc_id"].hex(),
            source=value["source"],
            origin=value["origin"],
            url=value["url"],
            side=pick.side,
            values={name: value[name] for name in metrics},
            rules=pick.rules,
            text=texts[origin],
        )
        for pick, value, origin in zip(picked, values, origins, strict=True)
    ]


def _has_all_parts(record: dict[str, Any], parts: Sequence[Done]) -> bool:
    n_splits = sum(len(source["splits"]) for source in record["sources"])
    return count_splits(parts) == n_splits


def _count_packed(folder: Folder) -> dict[str, int] | None:
    """Documents and tokens that the run's tokens stage made of what it kept; None until it is complete."""
    record = read_plan_record(folder) or {}
    sift = read_done(folder, record["places"]["sift"])
    tokens = read_done(folder, record["places"]["tokens"])
    if not tokens or tokens.keys() != sift.keys():
        return None
    tally = merge_tallies(done.tally for done in tokens.values())
    return {what: tally[f"{what}/train"] + tally[f"{what}/validation"] for what in ("documents", "tokens")}


def _list_changes(old: Sequence[Rule], new: Sequence[Rule]) -> list[tuple[str, str, str]]:
    before, after = {rule.name: rule for rule in old}, {rule.name: rule for rule in new}
    names = [rule.name for rule in old] + [rule.name for rule in new if rule.name not in before]
    return [
        (name, _show_bound(before.get(name)), _show_bound(after.get(name)))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _show_bound(rule: Rule | None) -> str:
    if rule is None:
        return "off"
    return " ".join(rule.labels) if rule.labels else f"{rule.bound:g}"


class _Found(NamedTuple):
    """A document that changes sides, by its row in a part; `key` orders the sample."""

    key: int
    side: str
    part: int
    row: int
    rules: tuple[str, ...]


def _answer_part(
    verdicts: Verdicts, new: Sequence[Rule], changed: Sequence[Rule], n_examples: int, part: Done
) -> tuple[Tally, list[_Found]]:
    """One part's counters and its `n_examples` first documents on each side. Only changed rules are compared again."""
    metrics = sorted({rule.metric for rule in changed})
    columns = ["n_bytes", "outcome", "failed", *metrics, *(["doc_id"] if n_examples else [])]
    number, first = verdicts.parts.index(part), 0
    tally: Counter[str] = Counter()
    found: list[_Found] = []
    for batch in verdicts.read(part, columns):
        is_read = _find_readable(batch)
        n_bytes = batch.column("n_bytes").to_numpy()
        before = read_failures(batch.column("failed"), verdicts.rules)
        after = _find_new_failures(batch, before, verdicts.rules, new, changed, is_read)
        was, will = is_read & find_kept(before), is_read & find_kept(after)
        tally.update({"documents/read": len(batch), "bytes/read": int(n_bytes.sum())})
        sides = {"before": was, "after": will, "gained": will & ~was, "lost": was & ~will}
        for side, mask in sides.items():
            tally[f"documents/{side}"] += int(mask.sum())
            tally[f"bytes/{side}"] += int(n_bytes[mask].sum())
        for side, rules, failures in (("before", verdicts.rules, before), ("after", new, after)):
            counts = count_failures(failures, rules)
            tally.update({f"rules/{side}/{name.removeprefix('rules/')}": n for name, n in counts.items()})
        for side in ("gained", "lost"):
            if n_examples and sides[side].any():
                keys = read_keys(batch.column("doc_id"))
                rows = np.flatnonzero(sides[side])
                for row in map(int, rows[np.argsort(keys[rows])[:n_examples]]):
                    failures, rules = (before, verdicts.rules) if side == "gained" else (after, new)
                    failed = tuple(rule.name for rule, fails in zip(rules, failures[row], strict=True) if fails)
                    found.append(_Found(int(keys[row]), side, number, first + row, failed))
        first += len(batch)
    return tally, found


def _find_readable(batch: pa.RecordBatch) -> BOOL:
    """bool[n]: not quarantined."""
    outcome = batch.column("outcome")
    readable: BOOL = np.asarray(pa.compute.not_equal(outcome, "quarantined").to_numpy(zero_copy_only=False))
    return readable


def _find_new_failures(
    batch: pa.RecordBatch,
    before: BOOL,
    old: Sequence[Rule],
    new: Sequence[Rule],
    changed: Sequence[Rule],
    is_readable: BOOL,
) -> BOOL:
    """bool[n, n_new]: unchanged rules as they were decided, changed ones decided again; nothing fails in quarantine."""
    place = {rule: i for i, rule in enumerate(old)}
    after = np.zeros((len(batch), len(new)), dtype=np.bool_, order="F")
    for i, rule in enumerate(new):
        if rule in place:
            after[:, i] = before[:, place[rule]]
        else:
            after[:, i] = find_failures({rule.metric: batch.column(rule.metric)}, [rule])[:, 0] & is_readable
    return after


def sweep_rule(folder: Folder, question: Question, spec: str) -> Sweep:
    """The curve of `rule=a:b:step`, with the question's other changes in force."""
    name, bounds = parse_sweep(spec)
    config, verdicts = open_verdicts(folder)
    if not verdicts.parts:
        raise ConfigError(f"{folder.url}: no verdicts yet; sift has not finished a part")
    overrides = make_overrides(question, config)
    key = _find_key(name, "--sweep")
    name = key.removeprefix("rules.")
    new = make_new_rules(verdicts, folder, [*overrides, f"{key}={bounds[0]!r}"])
    swept = next((rule for rule in new if rule.name == name), None)
    if swept is None or swept.fails == "not_in":
        raise ConfigError(f"--sweep {name}: not a rule with a number")
    others = [rule for rule in new if rule.name != name]
    grid = np.array(bounds, dtype=np.float64)
    curves = list(map_parts(verdicts.parts, partial(_sweep_part, verdicts, others, swept, grid)))
    documents, n_bytes = (np.sum([curve[i] for curve in curves], axis=0) for i in (0, 1))
    packed = _count_packed(folder)
    kept = sum(part.tally["bytes/read"] - part.tally["bytes/rejected"] for part in verdicts.parts)
    now = next((rule.bound for rule in verdicts.rules if rule.name == name), None)
    per_byte = packed["tokens"] / kept if packed and kept else None
    return Sweep(name, bounds, documents.tolist(), n_bytes.tolist(), now, per_byte)


def parse_sweep(spec: str) -> tuple[str, list[float]]:
    """`rule=a:b:step` -> the rule and its bounds, decimal arithmetic so that 0.1:0.3:0.1 ends at 0.3."""
    name, _, span = spec.partition("=")
    try:
        first, last, step = (Decimal(part) for part in span.split(":"))
        count = int((last - first) / step) + 1
    except (InvalidOperation, ValueError, ZeroDivisionError, OverflowError):
        count = 0
    if not 2 <= count <= _MOST_STEPS:
        raise ConfigError(
            f"--sweep {spec!r}: write rule=from:to:step with 2 to {_MOST_STEPS} steps, for instance "
            "gopher_quality.n_words_min=20:100:10"
        )
    return name, [float(first + i * step) for i in range(count)]


def _sweep_part(verdicts: Verdicts, others: Sequence[Rule], swept: Rule, grid: F64, part: Done) -> tuple[I64, I64]:
    """Documents and bytes kept at each bound of the ascending grid: values counted between bounds, then summed."""
    changed = [rule for rule in others if rule not in set(verdicts.rules)]
    columns = ["n_bytes", "outcome", "failed", *sorted({swept.metric, *(rule.metric for rule in changed)})]
    documents, n_bytes = (np.zeros(len(grid), dtype=np.int64) for _ in range(2))
    for batch in verdicts.read(part, columns):
        is_read = _find_readable(batch)
        before = read_failures(batch.column("failed"), verdicts.rules)
        after = _find_new_failures(batch, before, verdicts.rules, others, changed, is_read)
        rest = is_read & find_kept(after)
        values = batch.column(swept.metric).cast(pa.float64()).to_numpy(zero_copy_only=False)[rest]
        sizes = batch.column("n_bytes").to_numpy()[rest]
        documents += _count_kept(values, np.ones_like(sizes), swept, grid)
        n_bytes += _count_kept(values, sizes, swept, grid)
    return documents, n_bytes


def _count_kept(values: F64, weights: I64, rule: Rule, grid: F64) -> I64:
    """int64[len(grid)]: the weight of values that pass the rule at each bound; NaN passes all."""
    is_null = np.isnan(values)
    side: Any = "right" if rule.fails == "below" else "left"
    place = np.searchsorted(grid, values[~is_null], side=side)
    sums = np.zeros(len(grid) + 1, dtype=np.int64)
    np.add.at(sums, place, weights[~is_null])
    free = int(weights[is_null].sum())
    if rule.fails == "above":  # kept where value <= bound: at place and beyond
        return np.asarray(np.cumsum(sums)[:-1] + free)
    return np.asarray(np.cumsum(sums[::-1])[::-1][1:] + free)  # kept where the bound is before place
