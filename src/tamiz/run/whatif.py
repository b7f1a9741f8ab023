"""What if the rules were others? Answered from the verdicts of all documents, without reading a text.

The documents and bytes that the rules would keep are exact: every metric of every document is there. What comes behind
the rules is not: which documents are duplicates depends on which are kept, and a rejected document has no band keys, so
tokens and documents packed are estimated at the run's own rates. Three things cannot be asked, because they change the
text or were never measured: line rules of c4, c4 or fineweb_quality where the run had no c4, and a lexicon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tamiz.config import Config
from tamiz.decide.rules import Rule, count_failures, find_failures
from tamiz.errors import ConfigError
from tamiz.report.answer import Answer, Changed
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.question import Question, make_new_rules, make_overrides
from tamiz.run.sift import count_splits
from tamiz.run.texts import open_library, parse_origin, read_texts
from tamiz.run.verdicts import BOOL, Verdicts, find_kept, map_parts, open_verdicts, read_failures, read_keys
from tamiz.store import Folder
from tamiz.tally import Tally, merge_tallies

_NAMES = ("doc_id", "source", "origin", "url")


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
    packed = count_packed(folder)
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


def count_packed(folder: Folder) -> dict[str, int] | None:
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
        is_read = find_readable(batch)
        n_bytes = batch.column("n_bytes").to_numpy()
        before = read_failures(batch.column("failed"), verdicts.rules)
        after = find_new_failures(batch, before, verdicts.rules, new, changed, is_read)
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


def find_readable(batch: pa.RecordBatch) -> BOOL:
    """bool[n]: not quarantined."""
    outcome = batch.column("outcome")
    readable: BOOL = np.asarray(pa.compute.not_equal(outcome, "quarantined").to_numpy(zero_copy_only=False))
    return readable


def find_new_failures(
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
