"""Pages that a named recipe should reject, each made from what was written for the sample and wrong in one way."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import NamedTuple


class Paragraph(NamedTuple):
    """A paragraph of prose and the name of the page it stands in."""

    origin: str
    text: str


class Draft(NamedTuple):
    """The text of a page, and the names of the pages it is made from."""

    text: str | None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Material:
    """What junk is made from: whole cyber pages, paragraphs about cybersecurity and in other languages, and pieces."""

    pages: dict[str, str]  # name -> text
    paragraphs: list[Paragraph]
    foreign: list[Paragraph]
    pieces: dict[str, list[str]]  # name of a file in sample/pieces -> its lines
    code: list[str]


def split_sentences(text: str) -> list[str]:
    """The text cut after `.`, `!` and `?` where a space and a capital letter follow: good enough for our own prose."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)


def make_truncated(material: Material, dice: Random, n: int) -> list[Draft]:
    """The first 20 to 32 words of a page."""
    names = dice.sample(sorted(material.pages), n)
    return [Draft(" ".join(material.pages[name].split()[: dice.randint(20, 32)]), (name,)) for name in names]


def make_lone_paragraphs(material: Material, dice: Random, n: int) -> list[Draft]:
    """Two consecutive sentences of 46 words or more: too few sentences even where C4's rule is loosened to three."""
    pairs = [(pair, p.origin) for p in material.paragraphs for pair in pairwise(split_sentences(p.text))]
    fit = [(" ".join(pair), origin) for pair, origin in pairs if sum(len(s.split()) for s in pair) >= 46]
    return [Draft(text, (origin,)) for text, origin in dice.sample(fit, n)]


def make_navigation(material: Material, dice: Random, n: int) -> list[Draft]:
    """Menus around a cookie banner and nothing else."""
    menus, banners = material.pieces["menus"], material.pieces["banners"]
    drafts = []
    for _ in range(n):
        entries = dice.sample(menus, dice.randint(20, len(menus)))
        lines = [*entries[:10], *dice.sample(banners, 2), *entries[10:]]
        drafts.append(Draft("\n".join(lines)))
    return drafts


def make_keyword_spam(material: Material, dice: Random, n: int) -> list[Draft]:
    """150 search phrases in a row, drawn from six."""
    phrases = material.pieces["spam_words"]
    return [Draft(" ".join(dice.choices(dice.sample(phrases, 6), k=150))) for _ in range(n)]


def make_doorways(material: Material, dice: Random, n: int) -> list[Draft]:
    """The same three sentences for each of eight towns."""
    template = " ".join(material.pieces["doorway"])
    towns = material.pieces["towns"]
    return [Draft("\n".join(template.format(town=town) for town in dice.sample(towns, 8))) for _ in range(n)]


def make_repeated_lines(material: Material, dice: Random, n: int) -> list[Draft]:
    """Twelve sentences, one per line, and four of them three times more."""
    drafts = []
    for _ in range(n):
        some = dice.sample(material.paragraphs, 4)
        lines = [sentence for p in some for sentence in split_sentences(p.text)][:12]
        lines += lines[:4] * 3
        dice.shuffle(lines)
        drafts.append(Draft("\n".join(lines), _name_origins(some)))
    return drafts


def make_repeated_paragraphs(material: Material, dice: Random, n: int) -> list[Draft]:
    """Three paragraphs, three times over."""
    picks = [dice.sample(material.paragraphs, 3) for _ in range(n)]
    return [Draft("\n\n".join([p.text for p in some] * 3), _name_origins(some)) for some in picks]


def make_pull_quotes(material: Material, dice: Random, n: int) -> list[Draft]:
    """A page with one of its sentences on three lines of its own: about 8 % of its characters repeat a line."""
    drafts = []
    for name in dice.sample(sorted(material.pages), n):
        text = material.pages[name]
        quotes = [s for s in split_sentences(text) if 10 <= len(s.split()) <= 18 and "\n" not in s]
        lines, quote = text.split("\n"), dice.choice(quotes)
        middle = len(lines) // 2
        drafts.append(Draft("\n".join([quote, *lines[:middle], quote, *lines[middle:], quote]), (name,)))
    return drafts


def make_lorem_ipsum(material: Material, dice: Random, n: int) -> list[Draft]:
    """Four paragraphs of pseudo-Latin."""
    return [Draft("\n\n".join(_make_latin(material, dice) for _ in range(4))) for _ in range(n)]


def make_placeholders(material: Material, dice: Random, n: int) -> list[Draft]:
    """Three good paragraphs and one that nobody has replaced yet."""
    drafts = []
    for _ in range(n):
        some = dice.sample(material.paragraphs, 3)
        texts = [p.text for p in some]
        texts.insert(dice.randrange(4), _make_latin(material, dice))
        drafts.append(Draft("\n\n".join(texts), _name_origins(some)))
    return drafts


def make_symbol_soup(material: Material, dice: Random, n: int) -> list[Draft]:
    """Twelve lines of symbols."""
    symbols = "!$%&*+/<=>?@^_|~§¶†‡◊¤¬"
    lines = [[" ".join("".join(dice.choices(symbols, k=4)) for _ in range(8)) for _ in range(12)] for _ in range(n)]
    return [Draft("\n".join(some)) for some in lines]


def make_code_dumps(material: Material, dice: Random, n: int) -> list[Draft]:
    """Two source files, one after the other; neither has to do with security."""
    return [Draft("\n\n".join(dice.sample(material.code, 2))) for _ in range(n)]


def make_tag_clouds(material: Material, dice: Random, n: int) -> list[Draft]:
    """One tag per line, with the number of its entries."""
    tags = material.pieces["tags"]
    picks = [dice.sample(tags, dice.randint(16, len(tags))) for _ in range(n)]
    return [Draft("\n".join(f"{tag} ({dice.randint(2, 340)})" for tag in some)) for some in picks]


def make_number_tables(material: Material, dice: Random, n: int) -> list[Draft]:
    """Thirty rows of five numbers under a header."""
    drafts = []
    for _ in range(n):
        rows = ["Day\tOpen\tHigh\tLow\tVolume"]
        for day in range(1, 31):
            values = [f"{dice.uniform(10, 99):.2f}" for _ in range(3)]
            rows.append("\t".join([str(day), *values, str(dice.randint(1000, 99999))]))
        drafts.append(Draft("\n".join(rows)))
    return drafts


def make_shouting(material: Material, dice: Random, n: int) -> list[Draft]:
    """Two paragraphs in capitals: no stop word is left, for they are counted as written, in small letters."""
    picks = [dice.sample(material.paragraphs, 2) for _ in range(n)]
    return [Draft("\n\n".join(p.text.upper() for p in some), _name_origins(some)) for some in picks]


def make_stubs(material: Material, dice: Random, n: int) -> list[Draft]:
    """Three to six words."""
    return [Draft(line) for line in dice.sample(material.pieces["stubs"], n)]


def make_teasers(material: Material, dice: Random, n: int) -> list[Draft]:
    """The beginnings of 14 paragraphs, each broken off with an ellipsis."""
    drafts = []
    for _ in range(n):
        some = dice.sample(material.paragraphs, 14)
        lines = [" ".join(p.text.split()[: dice.randint(9, 14)]) + "..." for p in some]
        drafts.append(Draft("\n".join(lines), _name_origins(some)))
    return drafts


def make_bullet_lists(material: Material, dice: Random, n: int) -> list[Draft]:
    """The sentences of four paragraphs, each behind a hyphen or a bullet."""
    drafts = []
    for _ in range(n):
        some = dice.sample(material.paragraphs, 4)
        mark = dice.choice("-•")
        lines = [f"{mark} {sentence}" for p in some for sentence in split_sentences(p.text)]
        drafts.append(Draft("\n".join(lines), _name_origins(some)))
    return drafts


def make_hashtags(material: Material, dice: Random, n: int) -> list[Draft]:
    """One sentence and its 20 hashtags, four times."""
    tags = material.pieces["tags"]
    drafts = []
    for _ in range(n):
        some = dice.sample(material.paragraphs, 4)
        lines = []
        for p in some:
            marks = " ".join("#" + tag.title().replace(" ", "").replace("-", "") for tag in dice.sample(tags, 20))
            lines.append(f"{split_sentences(p.text)[0]} {marks}")
        drafts.append(Draft("\n".join(lines), _name_origins(some)))
    return drafts


def make_encoded_blobs(material: Material, dice: Random, n: int) -> list[Draft]:
    """A sentence and 60 lines of 64 letters and digits."""
    letters = string.ascii_letters + string.digits
    drafts = []
    for _ in range(n):
        some = dice.sample(material.paragraphs, 1)
        lines = ["".join(dice.choices(letters, k=64)) for _ in range(60)]
        drafts.append(Draft("\n".join([split_sentences(some[0].text)[0], *lines]), _name_origins(some)))
    return drafts


def make_mixed_languages(material: Material, dice: Random, n: int) -> list[Draft]:
    """An English paragraph between two in another language."""
    drafts = []
    for one in dice.sample(material.foreign, n):
        two = dice.choice([p for p in material.foreign if p.origin == one.origin and p != one])
        english = dice.choice(material.paragraphs)
        drafts.append(Draft("\n\n".join([one.text, english.text, two.text]), (one.origin, english.origin)))
    return drafts


def make_empty(material: Material, dice: Random, n: int) -> list[Draft]:
    """No characters at all."""
    return [Draft("")] * n


def make_blank(material: Material, dice: Random, n: int) -> list[Draft]:
    """Only white space: ASCII, and also the no-break and the ideographic space."""
    return [Draft(dice.choice([" \n", "\t\t\n\n  "]) + space) for space in ("", "\u00a0\n", "\u3000")][:n]


def make_null(material: Material, dice: Random, n: int) -> list[Draft]:
    """A record whose text is null."""
    return [Draft(None)] * n


def _name_origins(paragraphs: list[Paragraph]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(p.origin for p in paragraphs))


def _make_latin(material: Material, dice: Random) -> str:
    words = " ".join(material.pieces["pseudo_latin"]).split()
    sentences = ["Lorem ipsum " + " ".join(dice.sample(words, 6)) + "."]
    for _ in range(5):
        sentences.append(" ".join(dice.sample(words, dice.randint(7, 12))).capitalize() + ".")
    return " ".join(sentences)


Make = Callable[[Material, Random, int], list[Draft]]

JUNK: dict[str, tuple[Make, int, str]] = {
    "truncated": (make_truncated, 12, "gopher_quality|c4"),
    "lone_paragraph": (make_lone_paragraphs, 8, "c4"),
    "navigation": (make_navigation, 10, "c4|fineweb_quality"),
    "keyword_spam": (make_keyword_spam, 9, "gopher_repetition|gopher_quality"),
    "doorway": (make_doorways, 8, "gopher_repetition"),
    "repeated_lines": (make_repeated_lines, 8, "gopher_repetition"),
    "repeated_paragraphs": (make_repeated_paragraphs, 8, "gopher_repetition"),
    "pull_quote": (make_pull_quotes, 6, "fineweb_quality"),
    "lorem_ipsum": (make_lorem_ipsum, 6, "c4"),
    "placeholder": (make_placeholders, 6, "c4"),
    "symbol_soup": (make_symbol_soup, 6, "gopher_quality"),
    "code_dump": (make_code_dumps, 12, "domain|gopher_quality|fineweb_quality"),
    "tag_cloud": (make_tag_clouds, 8, "gopher_quality|fineweb_quality"),
    "number_table": (make_number_tables, 8, "gopher_quality"),
    "shouting": (make_shouting, 8, "gopher_quality"),
    "stub": (make_stubs, 10, "gopher_quality|c4"),
    "teasers": (make_teasers, 6, "gopher_quality"),
    "bullet_list": (make_bullet_lists, 6, "gopher_quality"),
    "hashtags": (make_hashtags, 6, "gopher_quality"),
    "encoded_blob": (make_encoded_blobs, 6, "gopher_quality"),
    "mixed_languages": (make_mixed_languages, 6, "language"),
    "empty_text": (make_empty, 3, "text_empty"),
    "blank_text": (make_blank, 3, "text_empty"),
    "null_text": (make_null, 3, "text_missing"),
}
"""Recipe -> what makes its pages, how many, and the sieve's recipes of which at least one must reject each."""
