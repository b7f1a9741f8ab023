"""Edits that turn a page into a near copy of itself: text in, text out, the places chosen by the dice they are given.

Each leaves the word 5-grams of a page of 250 words or more at a Jaccard similarity above 0.9 with the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

WORDS_PER_EDIT = 200  # one word edit per 200 words: each changes up to six 5-grams on either side

RENAMES = {
    "cyber/02-kerberoasting": ("Ilse Månsson on 19 March", "Karin Månsson on 21 March"),
    "cyber/07-nis2-small-manufacturer": ("He employs 140 people", "He employs 165 people"),
    "cyber/25-clinic-ransomware": ("Dr. Jürgen Castellà", "Dr. Henrik Castellà"),
    "cyber/27-botnet-arrest": ("aged 24 and 37", "aged 23 and 41"),
    "cyber/28-water-utility-plc": ("Siobhán Akerele", "Maeve Akerele"),
    "cyber/30-fine-insurer": ("Halden Mutual", "Norden Mutual"),
    "cyber/31-ticket-app-researcher": ("Zofia Brânză", "Ilinca Brânză"),
    "cyber/40-adv-router-command-injection": ("published on 2 July", "published on 3 July"),
}
"""Page -> what its `renamed` copy replaces, and by what: a name, an age, a day."""

_TYPEWRITER = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", ";": ","})


def keep_text(text: str, dice: Random) -> str:
    """The text itself: an exact copy."""
    return text


def swap_words(text: str, dice: Random) -> str:
    """Exchange two neighbouring words, at a few places."""
    for _ in range(_count_edits(text)):
        words = list(re.finditer(r"\S+", text))
        at = dice.randrange(5, len(words) - 5)
        one, two = words[at], words[at + 1]
        text = text[: one.start()] + two[0] + text[one.end() : two.start()] + one[0] + text[two.end() :]
    return text


def delete_words(text: str, dice: Random) -> str:
    """Leave out single words, at a few places."""
    for _ in range(_count_edits(text)):
        words = list(re.finditer(r"\S+[ ]", text))
        gone = words[dice.randrange(5, len(words) - 5)]
        text = text[: gone.start()] + text[gone.end() :]
    return text


def change_spacing(text: str, dice: Random) -> str:
    """Two spaces between sentences, and every line indented, or followed by spaces, or followed by a blank line."""
    text = re.sub(r"(?<=[.!?]) ", "  ", text)
    how = dice.randrange(3)  # blank lines stay empty: with spaces in them they would be repeated lines
    if how == 0:
        return re.sub(r"^(?=\S)", "   ", text, flags=re.MULTILINE)
    return re.sub(r"(?<=\S)$", "  ", text, flags=re.MULTILINE) if how == 1 else text.replace("\n", "\n\n")


def change_case(text: str, dice: Random) -> str:
    """The first sentence in capitals, or everything in small letters."""
    if dice.random() < 0.5:
        return text.lower()
    first = re.search(r"[.!?]\s|\n|$", text)
    end = first.start() if first else len(text)
    return text[:end].upper() + text[end:]


def change_punctuation(text: str, dice: Random) -> str:
    """Quotes, dashes and semicolons as a typewriter has them, and no comma before `and`, `but` and `which`."""
    return re.sub(r", (and|but|which)\b", r" \1", text.translate(_TYPEWRITER))


def add_notice(text: str, dice: Random, notices: list[str]) -> str:
    """One boilerplate line before or after the text."""
    notice = dice.choice(notices)
    return f"{notice}\n{text}" if dice.random() < 0.5 else f"{text}\n\n{notice}"


def rename(name: str, text: str) -> str:
    """Another person, age or day, as RENAMES has it for the page of this name; raises ValueError if it is not there."""
    old, new = RENAMES[name]
    if old not in text:
        raise ValueError(f"{name} no longer contains {old!r}; edit RENAMES")
    return text.replace(old, new)


def _count_edits(text: str) -> int:
    return max(1, len(text.split()) // WORDS_PER_EDIT)


EDITS: dict[str, tuple[Callable[[str, Random], str], int, int, int]] = {
    "exact_copy": (keep_text, 24, 4, 2),
    "swapped_words": (swap_words, 6, 1, 0),
    "deleted_words": (delete_words, 6, 1, 0),
    "spacing": (change_spacing, 8, 0, 0),
    "letter_case": (change_case, 7, 0, 0),
    "punctuation": (change_punctuation, 7, 0, 0),
}
"""Recipe -> its edit, and how many cyber, general and world pages it copies."""
