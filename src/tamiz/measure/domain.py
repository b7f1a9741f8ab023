"""Domain filter: how densely a document uses the terms of a weighted lexicon.

A lexicon is a text of lines "term TAB weight TAB area". Matching rules, also told at the top of lexicons/cyber.tsv:

- A term with an upper-case letter is matched as written (RAT, CVE), any other without regard to case (ASCII only).
- A space or hyphen in a term matches one space, hyphen, tab or line break in the text: "zero-day" is "zero day".
- A term also matches in its plural: with an "s" appended, or with its last "y" made "ies".
- A match has word boundaries: the character on either side is not a letter or digit of any script nor underscore.
- A match inside a longer match does not count: "injection" is silent in "sql injection", so a phrase weighs what its
  own line says. Matches that overlap only in part both count.

One Aho-Corasick pass finds the candidates of a whole batch; a kernel checks them and adds them up per document.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import ahocorasick_rs
import numpy as np
import numpy.typing as npt
from numba import njit

from tamiz.errors import ConfigError
from tamiz.measure.chars import WORD, Chars, decode, flags_of, load_chars
from tamiz.schema import F64, I32, I64, U8

HITS_MAX = 3
"""A term's hits beyond this weigh nothing, so that one word repeated cannot carry a page. On 6,256 documents any cap
from 1 to 5, a logarithm and a square root reach the same recall within 0.005 at equal precision: 3 is easy to explain.
"""


class Term(NamedTuple):
    """One line of a lexicon: weight > 0, and the area it belongs to (for the reader; scoring ignores it)."""

    text: str
    weight: float
    area: str


@dataclass(frozen=True)
class Lexicon:
    """The terms of one file, in its order: at least one; two may share a spelling only if one fixes its case."""

    name: str
    terms: tuple[Term, ...]


class DomainMetrics(NamedTuple):
    """Domain metrics of n documents.

    `score` float64[n]: weighted hits per 1,000 words, NaN where the document has no words. A term's hits beyond
    HITS_MAX weigh nothing. `terms` int32[n]: distinct terms found.
    """

    score: F64
    terms: I32


@dataclass(frozen=True)
class Matcher:
    """A lexicon made ready to search; build it once per process.

    Pattern p of `automaton` is a folded spelling. Its variants, the terms that have this spelling, are rows
    `first[p]` to `first[p + 1]` of `variant_term` (index of the term) and `variant_at`: where the letters it must equal
    begin in `letters`, or -1 for a term matched without regard to case. `weight` is per term.
    """

    automaton: ahocorasick_rs.BytesAhoCorasick
    first: I64
    variant_term: I32
    variant_at: I64
    letters: U8
    weight: F64


def _make_fold() -> U8:
    fold = np.arange(256, dtype=np.uint8)
    fold[ord("A") : ord("Z") + 1] += 32
    fold[[ord(separator) for separator in "\t\n\r-"]] = ord(" ")
    return fold


_FOLD = _make_fold()


def read_lexicon(text: str, name: str) -> Lexicon:
    """The lexicon in `text`, the content of the file called `name`; lines that begin with '#' are comments.

    Raises ConfigError for a line that is not three fields, a weight that is not a finite number above 0, an empty
    area, a term without a letter or digit, a term that an earlier line already matches, or no term.
    """
    terms: list[Term] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        term = _read_term(line, f"{name}, line {number}")
        for form in _spell(term.text):
            if form in line_of:
                raise ConfigError(
                    f"{name}, line {number}: {term.text!r} is a duplicate, line {line_of[form]} matches it already "
                    "(case, hyphens and plurals are explained at the top of lexicons/cyber.tsv)"
                )
        line_of.update(dict.fromkeys(_spell(term.text), number))
        terms.append(term)
    if not terms:
        raise ConfigError(f"{name}: no terms; a line is: term TAB weight TAB area")
    return Lexicon(name, tuple(terms))


def _read_term(line: str, where: str) -> Term:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) != 3:
        raise ConfigError(f"{where}: {line!r} has {len(fields)} fields; a line is: term TAB weight TAB area")
    text, written, area = fields
    try:
        weight = float(written)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise ConfigError(f"{where}: weight {written!r} is not a number above 0")
    if not area:
        raise ConfigError(f"{where}: {line!r} names no area")
    if not text or not any(character.isalnum() for character in text):
        raise ConfigError(f"{where}: term {text!r} has neither a letter nor a digit")
    return Term(text, weight, area)


def _is_exact(term: str) -> bool:
    return any("A" <= letter <= "Z" for letter in term)


def _spell(term: str) -> list[str]:
    """The spellings of a term: itself and its plurals, separators folded to spaces, case kept."""
    folded = "".join(" " if letter in "\t-" else letter for letter in term)
    plurals = [folded + "s"]
    if folded.endswith("y"):
        plurals.append(folded[:-1] + "ies")
    return [folded, *plurals]


def build_matcher(lexicon: Lexicon) -> Matcher:
    """The matcher of a lexicon (0.02 CPU-s for 1,850 terms)."""
    variants: dict[bytes, list[tuple[int, bytes | None]]] = defaultdict(list)
    for index, term in enumerate(lexicon.terms):
        for form in _spell(term.text):
            written = form.encode()
            folded = _FOLD[np.frombuffer(written, dtype=np.uint8)].tobytes()
            variants[folded].append((index, written if _is_exact(term.text) else None))
    first, term_of, at, letters = [0], [], [], bytearray()
    for spelling in variants.values():
        # RAT is preferred to rat where a lexicon has both
        for index, exact in sorted(spelling, key=lambda variant: variant[1] is None):
            term_of.append(index)
            at.append(-1 if exact is None else len(letters))
            letters += exact or b""
        first.append(len(term_of))
    return Matcher(
        automaton=ahocorasick_rs.BytesAhoCorasick(list(variants), implementation=ahocorasick_rs.Implementation.DFA),
        first=np.array(first, dtype=np.int64),
        variant_term=np.array(term_of, dtype=np.int32),
        variant_at=np.array(at, dtype=np.int64),
        letters=np.frombuffer(bytes(letters), dtype=np.uint8),
        weight=np.array([term.weight for term in lexicon.terms], dtype=np.float64),
    )


def score_domain(matcher: Matcher, offsets: I64, data: U8, n_words: npt.NDArray[np.integer]) -> DomainMetrics:
    """The domain metrics of n documents: offsets int64[n + 1] into UTF-8 bytes uint8[], n_words int[n].

    `n_words` counts the words of each document that are not mere symbols. The result for a document does not depend
    on the documents around it.
    """
    n_documents = len(offsets) - 1
    score = np.zeros(n_documents, dtype=np.float64)
    terms = np.zeros(n_documents, dtype=np.int32)
    documents, hits = find_hits(matcher, offsets, data)
    _add_hits(documents, hits, matcher.weight, score, terms)
    score *= 1000.0 / np.where(n_words > 0, n_words, np.nan)
    return DomainMetrics(score, terms)


def find_hits(matcher: Matcher, offsets: I64, data: U8) -> tuple[I64, I32]:
    """Every hit of a batch, last one first: its document int64[] and its term int32[] (an index into the lexicon)."""
    folded = np.empty(int(offsets[-1] - offsets[0]), dtype=np.uint8)
    _fold_bytes(data, int(offsets[0]), _FOLD, folded)
    candidates = matcher.automaton.find_matches_as_indexes(folded.data, overlapping=True)
    found = np.array(candidates, dtype=np.int64).reshape(-1, 3)
    found[:, 1:] += offsets[0]
    documents = np.empty(len(found), dtype=np.int64)
    hits = np.empty(len(found), dtype=np.int32)
    variants = (matcher.first, matcher.variant_term, matcher.variant_at, matcher.letters)
    n_hits = _check_candidates(found, offsets, data, variants, load_chars(), documents, hits)
    return documents[:n_hits], hits[:n_hits]


@njit(cache=True, nogil=True)
def _fold_bytes(data: U8, start: int, fold: U8, folded: U8) -> None:
    for i in range(len(folded)):
        folded[i] = fold[data[start + i]]


@njit(cache=True, nogil=True)
def _is_bounded(data: U8, start: int, end: int, document_start: int, document_end: int, chars: Chars) -> bool:
    """Whether data[start:end] has word boundaries on both sides within its document."""
    if end < document_end and flags_of(chars, decode(data, end)[0]) & WORD:
        return False
    if start == document_start:
        return True
    before = start - 1
    while 0x80 <= data[before] < 0xC0:  # back to the first byte of the character
        before -= 1
    return not flags_of(chars, decode(data, before)[0]) & WORD


@njit(cache=True, nogil=True)
def _find_term(data: U8, pattern: int, start: int, end: int, variants: tuple[I64, I32, I64, U8]) -> int:
    """The first term of this pattern whose letter case data[start:end] has; -1 if none has."""
    first, term, at, letters = variants
    for variant in range(first[pattern], first[pattern + 1]):
        is_equal = True
        if at[variant] >= 0:
            for i in range(end - start):
                letter = letters[at[variant] + i]
                if letter != 0x20 and letter != data[start + i]:
                    is_equal = False
                    break
        if is_equal:
            return int(term[variant])
    return -1


@njit(cache=True, nogil=True)
def _check_candidates(
    found: I64,
    offsets: I64,
    data: U8,
    variants: tuple[I64, I32, I64, U8],
    chars: Chars,
    documents: I64,
    hits: I32,
) -> int:
    """Write the valid candidates of `found`, int64[m, 3] (pattern, start, end) by ascending end; return how many.

    Valid means within one document, at word boundaries, in the right letter case, and not inside a longer valid one.
    Walking backwards, a match lies inside another exactly when one seen before begins no later; of those with the
    same end, the longest is taken.
    """
    n_hits = 0
    document = len(offsets) - 2
    earliest = np.iinfo(np.int64).max
    i = len(found) - 1
    while i >= 0:
        end = found[i, 2]
        start, term = earliest, -1
        while i >= 0 and found[i, 2] == end:
            while offsets[document] >= end:
                document -= 1
            if offsets[document] <= found[i, 1] < start and _is_bounded(
                data, found[i, 1], end, offsets[document], offsets[document + 1], chars
            ):
                candidate = _find_term(data, found[i, 0], found[i, 1], end, variants)
                if candidate >= 0:
                    start, term = found[i, 1], candidate
            i -= 1
        if term >= 0:
            earliest = start
            documents[n_hits] = document
            hits[n_hits] = term
            n_hits += 1
    return n_hits


@njit(cache=True, nogil=True)
def _add_hits(documents: I64, hits: I32, weight: F64, weighted: F64, terms: I32) -> None:
    """Add the hits of each document to `weighted` and `terms`, one entry per document."""
    last_document = np.full(len(weight), -1, dtype=np.int64)  # where a term was met last: resets its count
    counts = np.zeros(len(weight), dtype=np.int32)
    for i in range(len(hits)):
        document, term = documents[i], hits[i]
        if last_document[term] != document:
            last_document[term] = document
            counts[term] = 0
            terms[document] += 1
        if counts[term] < HITS_MAX:
            counts[term] += 1
            weighted[document] += weight[term]
