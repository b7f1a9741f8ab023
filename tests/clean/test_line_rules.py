"""The line rules against a plain Python statement of them, hand-made lines, and the texts of the reference."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamiz.clean.line_rules import DROPS, LineRules, Rewritten, rewrite_lines
from tamiz.clean.phrases import find_phrases
from tamiz.schema import make_text, view_text

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"

POLICIES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")

PIECES = [
    *("a", "it is", "Word", "x" * 20, "é", "e\u0301", "日本語", "😀", "ﬁ", "İ", "ß", "\x00", "\u200b", "\ufeff"),
    *(" ", "  ", "\t", "\u00a0", "\u3000", "\u2003", "\u205f", "\u1680", "\u202f", "\x1f"),
    *("\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"),
    *(".", "?", "!", '"', "'", "...", "…", "”", "。", "{", "}", "[", "]"),
    *("[1]", "[]", "[ 1 ]", "[٣]", "[12", "[edit]", "[Edit]", "[citation needed]", "[edi", "²", "[²]"),
    *("lorem ipsum", "Lorem IPSUM", "JavaScript", "java", "script", "ipsum"),
    *(
        *POLICIES,
        "coo\u212aie policy",
        "uses \u212aookies",
        "COOKIES",
        "cookie",
        " policy",
        "use",
        "of",
        "Terms Of Use",
    ),
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=["Cs"])), max_size=40).map("".join)
RULES = st.builds(
    LineRules,
    require_terminal_punctuation=st.booleans(),
    line_words_min=st.integers(0, 4),
    line_word_chars_max=st.integers(1, 40),
)


def rewrite(texts: list[str], rules: LineRules) -> tuple[list[str], Rewritten]:
    rewritten = rewrite_lines(*view_text(pa.array(texts, pa.large_string())), rules)
    text = make_text(rewritten.offsets, rewritten.data)
    text.validate(full=True)
    return text.to_pylist(), rewritten


def state_rules(text: str, rules: LineRules) -> tuple[str, int, int, list[int]]:
    kept = []
    n_lorem = n_curly = 0
    dropped = dict.fromkeys(DROPS, 0)
    for raw in text.splitlines():
        line = raw.strip()
        words = line.split()
        without = re.sub(r"\[(\d*|edit|citation needed)\]", "", line)
        lower = without.lower()
        if any(len(word) > rules.line_word_chars_max for word in words):
            drop = "long_word"
        elif rules.require_terminal_punctuation and (
            not without.endswith((".", "?", "!", '"', "'")) or without.endswith("...")
        ):
            drop = "terminal_punctuation"
        elif len(words) < rules.line_words_min:
            drop = "too_few_words"
        else:
            n_lorem += "lorem ipsum" in lower
            n_curly += "javascript" not in lower and "{" in without
            is_policy = any(policy in lower for policy in POLICIES)
            drop = "javascript" if "javascript" in lower else "policy" if is_policy else None
        if drop is None:
            kept.append(without)
        elif words:
            dropped[drop] += 1
    return "\n".join(kept).strip(), n_lorem, n_curly, list(dropped.values())


@settings(deadline=None)  # the first call compiles
@given(st.lists(TEXTS, min_size=1, max_size=5), RULES)
@example(["\u3000[1]\u2028[2]", "", "\x85"], LineRules(False, 0, 9))
@example(["a b[1] c\u00a0[1]\r\n[edit] x y z."], LineRules(False, 3, 1000))
def test_every_document_follows_the_statement_of_the_rules(texts: list[str], rules: LineRules) -> None:
    new, rewritten = rewrite(texts, rules)
    expected = [state_rules(text, rules) for text in texts]
    assert new == [text for text, *_ in expected]
    assert rewritten.n_lorem_ipsum_lines.tolist() == [lorem for _, lorem, _, _ in expected]
    assert rewritten.n_curly_bracket_lines.tolist() == [curly for _, _, curly, _ in expected]
    assert rewritten.n_dropped_lines.tolist() == [dropped for *_, dropped in expected]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("It is here.", "It is here."),
        ("It is here", None),
        ("It is here...", None),
        ("It is here…", None),
        ("He said “yes it is.”", None),
        ('He said "yes it is."', 'He said "yes it is."'),
        ("It is known.[12]", "It is known."),
        ("It is known. [12]", None),  # the space that stays is the last character
        ("Only two.", None),
        ("Two [1].", None),
        ("one two [3].", "one two ."),
        ("Please enable javascript now.", None),
        ("We like typed JavaScripts here.", None),
        ("This site uses cookies today.", None),
        ("We bake cookies on demand.", "We bake cookies on demand."),
        ("Mind the {brace} please.", "Mind the {brace} please."),
        ("x" * 1000 + " is fine.", "x" * 1000 + " is fine."),
        ("x" * 1001 + " is not.", None),
        ("é" * 1000 + " counts code points.", "é" * 1000 + " counts code points."),
    ],
)
def test_a_line_is_kept_or_dropped_as_published(line: str, kept: str | None) -> None:
    before, after = "This line stays put.", "So does this one."
    new, _ = rewrite([f"{before}\n{line}\r\n\r\n{after}"], LineRules())
    assert new == ["\n".join([before, *([kept] if kept else []), after])]


def test_lines_that_condemn_a_document_are_counted_only_when_the_rules_reach_them() -> None:
    text = (
        "Lorem ipsum dolor sit.\nAlso {this} one here.\nlorem ipsum {\nThis javascript { goes.\nPrivacy policy { goes."
    )
    new, rewritten = rewrite([text], LineRules())
    assert new == ["Lorem ipsum dolor sit.\nAlso {this} one here."]
    assert rewritten.n_lorem_ipsum_lines.tolist() == [1]
    assert rewritten.n_curly_bracket_lines.tolist() == [2]  # the last line is dropped only after its brace counts
    assert rewritten.n_dropped_lines.tolist() == [[0, 1, 0, 1, 1]]


def test_a_citation_may_have_the_decimal_digits_of_any_script() -> None:
    digits = [chr(cp) for cp in range(0x110000) if chr(cp).isdecimal() and not 0xD800 <= cp < 0xE000]
    numbers = [chr(cp) for cp in range(0x110000) if chr(cp).isnumeric() and not chr(cp).isdecimal()]
    new, _ = rewrite([f"a b c[{digit}]d" for digit in digits], LineRules(False))
    if unicodedata.unidata_version == "14.0.0":  # later ones have more
        assert set(new) == {"a b cd"}
    assert new.count("a b cd") == 660
    assert "a b cd" not in rewrite([f"a b c[{number}]d" for number in numbers], LineRules(False))[0]


def test_no_other_code_point_lowers_to_a_letter_of_a_phrase() -> None:
    for cp in range(0x80, 0x110000):
        lower = chr(cp).lower()
        # LATIN CAPITAL LETTER I WITH DOT ABOVE lowers to i and a combining dot, which stands in no phrase
        assert lower[-1] > "\x7f" or cp == 0x212A, hex(cp)


def test_a_phrase_is_found_at_either_end_of_the_line_and_not_beyond() -> None:
    for policy in POLICIES:
        data = np.frombuffer(f"x{policy.upper()}x".encode(), dtype=np.uint8)
        assert find_phrases(data, 1, len(data) - 1) == (False, False, False, True)
        assert not find_phrases(data, 2, len(data) - 1)[3]
        assert not find_phrases(data, 1, len(data) - 2)[3]


def test_a_slice_of_an_array_is_rewritten_like_a_copy() -> None:
    text = pa.array(["First one is long.", "Second one is longer.", "Third one is last."], pa.large_string())
    rewritten = rewrite_lines(*view_text(text.slice(1, 1)), LineRules())
    assert make_text(rewritten.offsets, rewritten.data).to_pylist() == ["Second one is longer."]
    assert rewrite_lines(*view_text(text.slice(3)), LineRules()).offsets.tolist() == [0]


@pytest.mark.data
@pytest.mark.parametrize("recipe", ["c4", "c4_fineweb"])
def test_the_text_is_the_reference_text_on_real_documents(recipe: str) -> None:
    if not SHARED.is_dir():
        pytest.skip("the reference data is not beside the checkout")
    reference = pq.read_table(SHARED / "reference" / "fineweb_decisions.parquet", columns=["id", f"{recipe}_text_sha1"])
    wanted = dict(zip(*(column.to_pylist() for column in reference.columns), strict=True))
    path = min((SHARED / "fineweb-like" / "data").glob("*/*.parquet"))
    rows = next(pq.ParquetFile(path).iter_batches(600, columns=["id", "text"])).to_pylist()
    kept = [(row["text"], wanted[row["id"]]) for row in rows if wanted[row["id"]]]
    assert len(kept) > 300
    new, _ = rewrite([text for text, _ in kept], LineRules(require_terminal_punctuation=recipe == "c4"))
    assert [hashlib.sha1(text.encode()).hexdigest() for text in new] == [sha1 for _, sha1 in kept]
