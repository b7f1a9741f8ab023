"""One document's whole story, as values and as text for the console."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tamiz.report.answer_console import WIDTH, make_plain


class Measured(NamedTuple):
    """A metric beside the rules that look at it: (name, sense and bound, fails), none for a metric without a rule."""

    metric: str
    value: float | str | None
    rules: Sequence[tuple[str, str, bool]]


class Duplicate(NamedTuple):
    """What the document lost to: exact or near, bands in common, the other's id (None: a Bloom index does not know it),
    the older run it is in (None: this one), its origin, URL and text as kept (None: not there any more)."""

    kind: str
    n_bands: int
    similarity: float | None
    doc_id: str | None
    run: str | None
    origin: str | None
    url: str | None
    text: str | None


class Piece(NamedTuple):
    """Where some of its tokens are: `row` of the shard, columns [first, past) of its input_ids."""

    shard: str
    row: int
    first: int
    past: int


class Found(NamedTuple):
    """A document that resembles a text: the share of the text's 3-word sequences that it has, and how it begins."""

    share: float
    doc_id: str
    origin: str
    url: str | None
    text: str


_MARKED_WORDS = 2000  # compared of each text: the comparison grows with the square
_CONTEXT_WORDS = 8  # shown around a difference


@dataclass(frozen=True)
class Story:
    """A document from its source to its tokens; what it did not reach is None or empty.

    `read` is the text as read, `kept` after line rules and redaction, `decoded` what its tokens spell.
    """

    doc_id: str
    source: str
    origin: str
    url: str | None
    n_bytes: int
    outcome: str  # packed, duplicate, kept (not packed yet), rejected or quarantined
    quarantine: str | None
    measured: Sequence[Measured]
    failed: Sequence[str]
    read: str | None
    kept: str | None
    duplicate: Duplicate | None
    pieces: Sequence[Piece]
    n_tokens: int | None
    is_holdout: bool
    decoded: str | None


def format_story(story: Story) -> str:
    """At most 80 columns but for what a text itself has longer, none of which is cut."""
    lines = [f"document {story.doc_id}", f"source   {make_plain(story.source)}: {make_plain(story.origin)}"]
    lines += [f"url      {make_plain(story.url)}"] if story.url else []
    lines += [f"bytes    {story.n_bytes:,} as read", f"outcome  {_tell_outcome(story)}"]
    lines += ["", f"{'metric':26}{'value':>12} {'':6}{'asked for':18}by", *_format_metrics(story)]
    if story.duplicate:
        lines += ["", *_format_duplicate(story.duplicate, story.kept)]
    if story.read is not None and story.kept is not None:
        lines += ["", *_format_diff(story.read, story.kept)]
    elif story.read is not None:
        lines += ["", "text as read, its beginning", *_quote(story.read[:1200])]
    if story.pieces:
        lines += ["", f"{story.n_tokens:,} tokens" + (", held out for validation" if story.is_holdout else "")]
        lines += [f"  {p.shard} row {p.row}, input_ids[{p.first}:{p.past}]" for p in story.pieces]
    if story.decoded is not None:
        same = "exactly the text as kept" if story.decoded == story.kept else "NOT the text as kept"
        lines += ["", f"decoded: {same}; it begins", *_quote(story.decoded[:600])]
    return "\n".join(lines)


def format_found(found: Sequence[Found]) -> str:
    """A line or two for each, best first; the story of the first follows."""
    lines = []
    for document in found:
        lines.append(f"{document.share:>4.0%} {document.doc_id}  {make_plain(document.url or document.origin)}"[:WIDTH])
        lines.append(f"       {make_plain(document.text)}"[:WIDTH])
    return "\n".join([*lines, ""]) if lines else "no document that can be read here shares words in a row with it"


def _tell_outcome(story: Story) -> str:
    if story.outcome == "rejected":
        return f"rejected by {len(story.failed)} rule{'s' if len(story.failed) > 1 else ''}: " + ", ".join(story.failed)
    if story.outcome == "quarantined":
        return f"quarantined: {story.quarantine}"
    if story.outcome == "duplicate" and story.duplicate:
        return f"{story.duplicate.kind} duplicate of {story.duplicate.doc_id}"
    return {"kept": "kept by the rules; the run has not packed it (yet)", "packed": "packed"}[story.outcome]


def _format_metrics(story: Story) -> list[str]:
    lines = []
    for measured in story.measured:
        value = measured.value
        shown = "-" if value is None else f"{value:.5g}" if isinstance(value, float) else make_plain(str(value))
        first = f"{measured.metric:26}{shown:>12} "
        for name, bound, fails in measured.rules or [("", "", False)]:
            mark = "FAILS" if fails else "ok" if bound else ""
            lines.append(f"{first}{mark:6}{bound:18}{name.partition('.')[0]}".rstrip())
            first = " " * 39
    return lines


def _format_duplicate(duplicate: Duplicate, kept: str | None) -> list[str]:
    if duplicate.doc_id is None:
        return [f"lost to  an earlier document ({duplicate.kind}); a Bloom index does not know which"]
    how = "exact: the same words" if duplicate.kind == "exact" else f"near: {duplicate.n_bands} bands in common"
    how += "" if duplicate.similarity is None else f", similarity about {duplicate.similarity:.2f}"
    lines = [f"lost to  {duplicate.doc_id} ({how})"]
    where = (duplicate.run and f"of the older run {duplicate.run}", duplicate.origin, duplicate.url)
    lines += [f"         {make_plain(line)}" for line in where if line]
    if duplicate.text is None:
        return [*lines, "         its text is not there any more"]
    if kept is None or kept == duplicate.text:
        return [*lines, *_quote(duplicate.text[:600])]
    return [
        *lines,
        "its words beside this document's: [-only there-] {+only here+}",
        *_mark_words(duplicate.text, kept),
    ]


def _mark_words(theirs: str, ours: str) -> list[str]:
    """The two texts as one, with the words that only one has marked, and long stretches that both have left out."""
    a, b = theirs.split()[:_MARKED_WORDS], ours.split()[:_MARKED_WORDS]
    words: list[str] = []
    for change, i, j, k, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if change == "equal":
            same = a[i:j]
            words += (
                same if len(same) <= 2 * _CONTEXT_WORDS else [*same[:_CONTEXT_WORDS], "...", *same[-_CONTEXT_WORDS:]]
            )
            continue
        words += [f"[-{' '.join(a[i:j])}-]"] if j > i else []
        words += [f"{{+{' '.join(b[k:m])}+}}"] if m > k else []
    return _quote(" ".join(words))


def _format_diff(read: str, kept: str) -> list[str]:
    if read == kept:
        return ["line rules and redaction changed nothing; the text, its beginning", *_quote(read[:1200])]
    diff = difflib.unified_diff(read.splitlines(), kept.splitlines(), "as read", "as kept", n=1, lineterm="")
    return ["what line rules and redaction changed", *(f"  {make_plain(line)}" for line in diff)]


def _quote(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        lines += textwrap.wrap(make_plain(line), WIDTH - 4, break_on_hyphens=False) or [""]
    return [f"  | {line}".rstrip() for line in lines]
