"""The domain filter: hand-counted documents, a regular-expression oracle, and the lexicon that is shipped."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.errors import ConfigError
from tamiz.measure.domain import DomainMetrics, Lexicon, Term, build_matcher, read_lexicon, score_domain
from tamiz.schema import view_text

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "fineweb-like"
SHIPPED = ROOT / "lexicons" / "cyber.tsv"

SMALL = """# a lexicon
ransomware\t4\tmalware
sql injection\t4\toffence
injection\t1\toffence
RAT\t3\tmalware
rat\t0.5\tmalware
zero-day\t4\tvulnerability

vulnerability\t2\tvulnerability
injection attack\t2.5\toffence
C&C server\t4\tmalware
"""


def score(texts: list[str], n_words: list[int] | None = None, lexicon: str = SMALL) -> DomainMetrics:
    matcher = build_matcher(read_lexicon(lexicon, "small.tsv"))
    offsets, data = view_text(pa.array(texts, type=pa.large_string()))
    counts = [1000] * len(texts) if n_words is None else n_words  # at 1,000 words the score is the sum of the weights
    return score_domain(matcher, offsets, data, np.array(counts, dtype=np.int32))


def test_read_lexicon() -> None:
    assert read_lexicon("# note\r\n\r\nCVE\t4\tvulnerability\r\nzero-day \t .5\toffence", "a.tsv") == Lexicon(
        "a.tsv", (Term("CVE", 4.0, "vulnerability"), Term("zero-day", 0.5, "offence"))
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ["no terms"]),
        ("# only a comment\n", ["no terms"]),
        ("virus\t1\tmalware\nworm 1 malware", ["line 2", "'worm 1 malware'"]),
        ("worm\t1\tmalware\tx", ["line 1", "4 fields"]),
        ("worm\tmuch\tmalware", ["line 1", "'much'"]),
        ("worm\t0\tmalware", ["line 1", "'0'"]),
        ("worm\t-1\tmalware", ["line 1", "'-1'"]),
        ("worm\tnan\tmalware", ["line 1", "'nan'"]),
        ("worm\tinf\tmalware", ["line 1", "'inf'"]),
        ("worm\t1\t ", ["line 1", "area"]),
        ("--\t1\ttool", ["line 1", "'--'"]),
        ("worm\t1\tmalware\n# x\nworm\t2\tmalware", ["line 3", "'worm'", "line 1"]),
        ("zero-day\t1\toffence\nzero day\t1\toffence", ["line 2", "'zero day'", "line 1"]),
        ("exploit\t1\toffence\nexploits\t1\toffence", ["line 2", "'exploits'", "line 1"]),
        ("policies\t1\toffence\npolicy\t1\toffence", ["line 2", "'policy'", "line 1"]),
    ],
)
def test_read_lexicon_refuses(text: str, told: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_lexicon(text, "mine.tsv")
    for part in ["mine.tsv", *told]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "weight", "terms"),
    [
        ("", 0, 0),
        ("nothing of the kind", 0, 0),
        ("Ransomware, RANSOMWARE", 8, 1),
        ("ransomware " * 7, 12, 1),  # a term counts three times at most
        ("ransomwarehouse antiransomware my_ransomware ransomware2 éransomware ransomwareж", 0, 0),
        ("“ransomware” ransomware—ransomware", 12, 1),
        ("SQL injection", 4, 1),  # not 5: the longer phrase silences the shorter
        ("SQL injection, then an injection", 5, 2),
        ("sql-injection sql\ninjections", 8, 1),
        ("sql  injection sql_injection", 1, 1),  # two spaces are two separators; "_" makes one word of it
        ("sql injection attack", 6.5, 2),  # partial overlap: both count, only "injection" is inside
        ("an injection attack", 2.5, 1),
        ("a RAT and two rats, RATs and a Rat", 7, 2),  # RAT and RATs 3 each, rats and Rat 0.5 each
        ("zero day, Zero-Days", 8, 1),
        ("vulnerability, vulnerabilities", 4, 1),
        ("vulnerabilitys", 2, 1),  # the plural rule is simple
        ("C&C server, C&C-servers, c&c server", 8, 1),
    ],
)
def test_hand_counted(text: str, weight: float, terms: int) -> None:
    found = score([text])
    assert found.score.tolist() == [weight]
    assert found.terms.tolist() == [terms]


def test_score_is_per_thousand_words() -> None:
    found = score(["ransomware", "ransomware", "ransomware", ""], n_words=[1, 500, 0, 0])
    assert found.score[:2].tolist() == [4000.0, 8.0]
    assert np.isnan(found.score[2:]).all()  # nothing to divide by: not measurable
    assert found.terms.tolist() == [1, 1, 1, 0]
    assert found.score.dtype == np.float64
    assert found.terms.dtype == np.int32


def test_no_match_across_documents() -> None:
    assert score(["sql ", "injection", "", "ransom", "ware", "ransomware"]).terms.tolist() == [0, 1, 0, 0, 0, 1]
    assert score([".", "sql ", "injection"]).score.tolist() == [0, 0, 1]
    # a neighbour's letters are not part of this document's word
    assert score(["my", "ransomware", "house"]).terms.tolist() == [0, 1, 0]


def test_empty_batch() -> None:
    found = score([])
    assert (len(found.score), len(found.terms)) == (0, 0)


WORDS = ["sql injection", "injection attack", "sql", "injection", "attack", "RAT", "rat", "Rat", "s", "ransomware"]
WORDS += ["ZERO", "day", "vulnerabilit", "ies", "y", "C&C", "server"]
GLUE = [" ", " ", " ", "-", "\n", "\t", "  ", "", "_", ".", "é", "”", "日"]
texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GLUE)).map("".join), max_size=15).map("".join)


def count_with_regex(text: str) -> tuple[float, int]:
    """The same rules, written as regular expressions over one document."""
    spans: dict[tuple[int, int], int] = {}
    terms = read_lexicon(SMALL, "small.tsv").terms
    exact_first = sorted(range(len(terms)), key=lambda k: terms[k].text == terms[k].text.lower())
    for index in exact_first:
        term = terms[index].text
        forms = [term, term + "s", *([term[:-1] + "ies"] if term.endswith("y") else [])]
        for form in forms:
            pattern = "".join("[- \t\n\r]" if c in " -" else re.escape(c) for c in form)
            flags = re.IGNORECASE if term == term.lower() else re.NOFLAG
            for match in re.finditer(rf"(?<!\w)(?=({pattern})(?!\w))", text, flags):
                spans.setdefault(match.span(1), index)
    counts: dict[int, int] = {}
    for (start, end), index in spans.items():
        if not any(a <= start and end <= b and (a, b) != (start, end) for a, b in spans):
            counts[index] = counts.get(index, 0) + 1
    return sum(terms[k].weight * min(n, 3) for k, n in counts.items()), len(counts)


@given(st.lists(texts, max_size=6))
def test_matches_regex(documents: list[str]) -> None:
    found = score(documents)
    expected = [count_with_regex(document) for document in documents]
    assert found.score.tolist() == pytest.approx([weight for weight, _ in expected])
    assert found.terms.tolist() == [n for _, n in expected]


@given(st.lists(texts, min_size=1, max_size=8), st.data())
def test_result_does_not_depend_on_the_batch(documents: list[str], data: st.DataObject) -> None:
    matcher = build_matcher(read_lexicon(SMALL, "small.tsv"))
    array = pa.array(documents, type=pa.large_string())
    n_words = np.arange(len(documents), dtype=np.int64)
    together = score_domain(matcher, *view_text(array), n_words)
    low = data.draw(st.integers(0, len(documents) - 1))
    high = data.draw(st.integers(low, len(documents)))
    piece = score_domain(matcher, *view_text(array[low:high]), n_words[low:high])
    assert piece.score.tobytes() == together.score[low:high].tobytes()
    assert piece.terms.tobytes() == together.terms[low:high].tobytes()


def test_shipped_lexicon_weighs_words_by_what_they_tell() -> None:
    lexicon = read_lexicon(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name)
    weight = {term.text: term.weight for term in lexicon.terms}
    assert len(weight) >= 450
    assert {term.area for term in lexicon.terms} == {
        *("offence", "defence", "vulnerability", "malware", "cryptography", "forensics", "governance", "tool"),
        "protocol",
    }
    for everyday in ("attack", "key", "virus", "security", "network", "patch"):
        assert weight[everyday] < 1
    for telling in ("ransomware", "cross-site scripting", "privilege escalation", "CVE", "YARA", "heap overflow"):
        assert weight[telling] == 4


@pytest.mark.skipif(not DATA.is_dir(), reason="the labelled documents of ../shared/data are not present")
def test_shipped_lexicon_separates_labelled_documents() -> None:
    table = pa.concat_tables(pq.read_table(path, columns=["id", "text"]) for path in DATA.glob("data/*/*.parquet"))
    truth = pq.read_table(DATA / "provenance.parquet", columns=["id", "group"])
    group_of = dict(zip(truth["id"].to_pylist(), truth["group"].to_pylist(), strict=True))
    group = np.array([group_of[id_] for id_ in table["id"].to_pylist()])
    text = pa.concat_arrays(table["text"].cast(pa.large_string()).chunks)
    n_words = np.array([len(document.split()) for document in text.to_pylist()])
    matcher = build_matcher(read_lexicon(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name))
    found = score_domain(matcher, *view_text(text), n_words)
    kept = (found.score >= 20) & (found.terms >= 2)
    hits, misses = (kept & (group == "cyber")).sum(), (kept & (group == "web")).sum()
    assert hits / (group == "cyber").sum() >= 0.85
    assert hits / (hits + misses) >= 0.90
