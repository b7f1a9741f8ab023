"""What `tamiz whatif` answers is what a build with those rules does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamiz.errors import ConfigError
from tamiz.run.question import Question
from tamiz.run.sweep import parse_sweep, sweep_rule
from tamiz.run.whatif import ask
from tamiz.store import Folder
from tests.run.test_build import build, run_tamiz

QUESTIONS = {
    "tighter": (Question(sets=["domain.score_min=40", "gopher_quality.n_words_min=120"]), []),
    "looser": (
        Question(sets=["domain.score_min=3.5"], offs=["domain.terms_min", "gopher_quality.frac_alpha_words_min"]),
        ["domain.score_min=3.5", "domain.terms_min=null", "rules.gopher_quality.frac_alpha_words_min=null"],
    ),
    "published": (
        Question(recipes=["gopher_quality", "fineweb_quality"], sets=["language.keep=[en, de]"]),
        ["rules.gopher_quality={}", "rules.fineweb_quality={}", "language.keep=[en, de]"],
    ),
    "recipe off": (Question(offs=["gopher_repetition", "domain"]), ["rules.gopher_repetition=null", "domain=null"]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_what_a_build_with_these_rules_does(cyber: Path, tmp_path: Path, name: str) -> None:
    question, overrides = QUESTIONS[name]
    if name == "tighter":
        overrides = ["domain.score_min=40", "rules.gopher_quality.n_words_min=120"]
    if name == "recipe off":  # a recipe cannot be null in a config: it is left out, or its rules are null
        from tamiz.decide.recipes import RECIPES

        overrides = [f"rules.gopher_repetition.{key}=null" for key in RECIPES["gopher_repetition"]] + ["domain=null"]
    answer = ask(Folder(cyber), question)
    built = build(tmp_path / "run", *(part for pair in overrides for part in ("--set", pair)))
    assert built.returncode == 0, built.stderr
    before = json.loads((cyber / "report" / "summary.json").read_text())
    after = json.loads((tmp_path / "run" / "report" / "summary.json").read_text())
    tally = answer.tally
    for side, summary in (("before", before), ("after", after)):
        documents, n_bytes = summary["documents"], summary["bytes"]
        assert tally[f"documents/{side}"] == documents["packed"] + documents["duplicate"]
        assert tally[f"bytes/{side}"] == n_bytes["read"] - n_bytes["rejected"]
        for rule, counts in summary["rules"].items():
            assert counts == {count: tally[f"rules/{side}/{rule}/{count}"] for count in counts}, rule
    assert tally["documents/after"] - tally["documents/before"] == tally["documents/gained"] - tally["documents/lost"]
    assert tally["documents/gained"] + tally["documents/lost"] > 0
    assert answer.is_complete
    assert answer.estimate_tokens("before") == before["tokens"]["packed"]


@pytest.mark.parametrize(
    ("rule", "first", "step"),
    [
        ("domain.score_min", 5, 5),
        ("gopher_repetition.frac_dup_5gram_chars_max", 0, 0.05),
        ("language.min_score", 0, 0.2),
    ],
)
def test_every_point_of_a_sweep_is_the_answer_to_its_question(
    cyber: Path, rule: str, first: float, step: float
) -> None:
    folder = Folder(cyber)
    spec = f"{rule}={first}:{first + 4 * step}:{step}"
    curve = sweep_rule(folder, Question(sets=["gopher_quality.n_words_min=80"]), spec)
    assert len(curve.bounds) == 5
    for bound, documents, n_bytes in zip(curve.bounds, curve.documents, curve.n_bytes, strict=True):
        answer = ask(folder, Question(sets=["gopher_quality.n_words_min=80", f"{rule}={bound}"]))
        assert (answer.tally["documents/after"], answer.tally["bytes/after"]) == (documents, n_bytes)


def test_a_sweep_counts_in_decimals() -> None:
    assert parse_sweep("a.b_max=0.1:0.3:0.1") == ("a.b_max", [0.1, 0.2, 0.3])
    for wrong in ("a.b_max", "a.b_max=1:2", "a.b_max=1:2:0", "a.b_max=2:1:1", "a.b_max=0:1:0.00001", "a.b_max=x:1:1"):
        with pytest.raises(ConfigError, match="from:to:step"):
            parse_sweep(wrong)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(sets=["c4.line_words_min=5"]), "rewrites texts line by line"),
        (Question(sets=["gopher_quality.n_word_min=5"]), r"did you mean gopher_quality\.n_words_min"),
        (Question(sets=["gopher_quality.n_words_min"]), "rule=value"),
        (Question(sets=["gopher_quality.n_words_min=many"]), "many"),
        (Question(sets=["pack.sequence_length=512"]), "not a rule"),
        (Question(offs=["language.keep"]), "--off language"),
        (Question(recipes=["gopher"]), "known are"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(cyber: Path, question: Question, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ask(Folder(cyber), question)


def test_a_recipe_that_was_not_measured_cannot_be_asked_about(tmp_path: Path) -> None:
    made = build(tmp_path / "run", "--set", "rules={gopher_quality: {}}", "--set", "domain=null")
    assert made.returncode == 0, made.stderr
    with pytest.raises(ConfigError, match="n_chars was not measured"):
        ask(Folder(tmp_path / "run"), Question(recipes=["gopher_repetition"]))


def test_the_command_prints_within_80_columns_and_shows_examples(cyber: Path) -> None:
    asked = run_tamiz("whatif", str(cyber), "--set", "domain.score_min=40", "--examples", "3")
    assert asked.returncode == 0, asked.stderr
    assert max(map(len, asked.stdout.splitlines())) <= 80
    assert asked.stdout.count("  | ") > 3
    assert "fails domain.score_min" in asked.stdout
    swept = run_tamiz("whatif", str(cyber), "--sweep", "domain.score_min=5:25:5")
    assert swept.returncode == 0, swept.stderr
    assert max(map(len, swept.stdout.splitlines())) <= 80
    assert "15*" in swept.stdout
    wrong = run_tamiz("whatif", str(cyber), "--set", "c4.line_words_min=5")
    assert wrong.returncode == 2
    assert "tamiz compare" in wrong.stderr
