"""Write src/tamiz/measure/char_table.npz: the classes and the folding of every code point.

Run with Python 3.11 (Unicode 14.0) and the test dependencies (`regex`, `spacy`); takes a few seconds. The classes and
their sources are described in `tamiz.measure.chars`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex
from spacy.lang import char_classes as spacy_classes
from spacy.lang import punctuation as spacy_punctuation
from spacy.pipeline import Sentencizer
from spacy.util import compile_prefix_regex, compile_suffix_regex

from tamiz.measure import chars

UNICODE_VERSION = "14.0.0"
TABLE = Path(__file__).resolve().parents[1] / "src" / "tamiz" / "measure" / "char_table.npz"
N_CODE_POINTS = 0x110000
EVERYTHING = "".join(map(chr, range(N_CODE_POINTS)))  # position = code point

# Sentence_Terminal as of Unicode 15.0; newer versions of the property (the regex package follows them) also have these.
NEWER_TERMINALS = "1B4E 1B4F 1B7F 2024 2CF9 2CFA 2CFB 2E60 2E61 FE12 FE15 FE16 113D4 113D5 16D6E 16D6F"
# FineWeb's list of terminal marks is that property and three Khmer signs.
KHMER_TERMINALS = "17D6 17D9 17DA"
# Its punctuation list: ASCII punctuation, the controls except tab and newline, and these.
NORM_PUNCT_BEYOND_ASCII = (
    "AB B4 BB 2013 2014 2019 201C 201D 201E 2026 2236 2501 25BA 3001 3002 3008 3009 300A 300B 300C 300D 3010 3011 "
    "FF01 FF05 FF08 FF09 FF0C FF0E FF11 FF1A FF1B FF1F FF5E"
)


def parse_points(listed: str) -> set[int]:
    """Code points written in hexadecimal, separated by spaces."""
    return {int(point, 16) for point in listed.split()}


def match_class(pattern: str) -> set[int]:
    """Code points that match the one-character pattern."""
    return {found.start() for found in re.finditer(pattern, EVERYTHING)}


def list_category(prefix: str) -> set[int]:
    """Code points whose general category starts with `prefix`."""
    return {cp for cp, char in enumerate(EVERYTHING) if unicodedata.category(char).startswith(prefix)}


def make_punctuation_sets() -> dict[int, set[int]]:
    """The sets of FineWeb's filters, from Unicode properties and the lists above."""
    ascii_punctuation = {cp for cp in range(33, 127) if not chr(cp).isalnum()}
    controls = set(range(0, 32)) | set(range(127, 160))
    terminal = {found.start() for found in regex.finditer(r"\p{Sentence_Terminal}", EVERYTHING)}
    terminal = terminal - parse_points(NEWER_TERMINALS) | parse_points(KHMER_TERMINALS)
    norm_punct = ascii_punctuation | (controls - {9, 10}) | parse_points(NORM_PUNCT_BEYOND_ASCII)
    return {chars.TERMINAL: terminal, chars.NORM_PUNCT: norm_punct, chars.SYMBOL: terminal | norm_punct}


def make_spacy_sets() -> dict[int, set[int]]:
    """The character classes inside spaCy's English rules."""
    find_prefix = compile_prefix_regex(spacy_punctuation.TOKENIZER_PREFIXES).search
    find_suffix = compile_suffix_regex(spacy_punctuation.TOKENIZER_SUFFIXES).search
    before_stop = next(piece for piece in spacy_punctuation.TOKENIZER_SUFFIXES if piece.startswith("(?<=[0-9" + "a-z"))
    return {
        chars.SENTENCE_END: set(map(ord, Sentencizer.default_punct_chars)),
        chars.LETTER: match_class(f"[{spacy_classes.ALPHA}]"),
        chars.LOWER: match_class(f"[{spacy_classes.ALPHA_LOWER}]"),
        chars.UPPER: match_class(f"[{spacy_classes.ALPHA_UPPER}]"),
        chars.PREFIX: {cp for cp, char in enumerate(EVERYTHING) if find_prefix(char)},
        chars.SUFFIX: {cp for cp, char in enumerate(EVERYTHING) if find_suffix(char)},
        chars.ICON: match_class(f"[{spacy_classes.CONCAT_ICONS}]"),
        chars.QUOTE: match_class(f"[{spacy_classes.CONCAT_QUOTES}]"),
        chars.BEFORE_STOP: match_class(before_stop[len("(?<=") : before_stop.rindex("]") + 1]),
    }


def make_python_sets() -> dict[int, set[int]]:
    """What Python's own string methods and Unicode categories say."""
    lower = {ending: {cp for cp, c in enumerate(EVERYTHING) if f"{ending}{c}Σ".lower()[-1] == "ς"} for ending in "A1"}
    return {
        chars.SPACE: {cp for cp, char in enumerate(EVERYTHING) if char.isspace()},
        chars.ALPHA: {cp for cp, char in enumerate(EVERYTHING) if char.isalpha()},
        chars.ND: list_category("Nd"),
        chars.IS_PUNCT: list_category("P"),
        chars.LINE_BREAK: {cp for cp, char in enumerate(EVERYTHING) if len(f"a{char}b".splitlines()) == 2},
        chars.MN: list_category("Mn"),
        chars.WORD: match_class(r"\w"),
        chars.CASED: lower["1"],  # "1" has no case: only a cased character before the sigma makes it final
        chars.CASE_IGNORABLE: lower["A"] - lower["1"],  # looked through, the sigma sees the "A"
    }


def fold_char(char: str) -> str:
    """Lower case, canonical decomposition, non-spacing marks dropped; the order FineWeb's normalisation uses."""
    decomposed = unicodedata.normalize("NFD", char.lower())
    return "".join(piece for piece in decomposed if unicodedata.category(piece) != "Mn")


def pack_blocks(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[Any]]:
    """Two stages of a per-code-point array: block numbers uint16[4352] and the distinct blocks of 256, flattened.

    The block of ASCII is number 0.
    """
    numbers: dict[bytes, int] = {}
    rows = values.reshape(-1, 256)
    blocks = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], dtype=np.uint16)
    first = [int(np.flatnonzero(blocks == number)[0]) for number in range(len(numbers))]
    return blocks, rows[first].reshape(-1)


def make_folds() -> tuple[npt.NDArray[np.uint16], list[bytes]]:
    """Entry number of every code point (0 = unchanged) and the entries' UTF-8 texts (entry 0 is empty, unused).

    Hangul syllables, which decompose by arithmetic, are left to the kernel.
    """
    entries: dict[str, int] = {}
    index = np.zeros(N_CODE_POINTS, dtype=np.uint16)
    for cp, char in enumerate(EVERYTHING):
        is_hangul = 0xAC00 <= cp <= 0xD7A3
        if not is_hangul and (folded := fold_char(char)) != char:
            index[cp] = entries.setdefault(folded, len(entries) + 1)
    return index, [b"", *(folded.encode() for folded in entries)]


def set_flag(flags: npt.NDArray[np.uint32], members: Iterable[int], flag: int) -> None:
    """Set `flag` on the members."""
    flags[np.fromiter(members, dtype=np.int64)] |= np.uint32(flag)


def make_tables() -> dict[str, npt.NDArray[Any]]:
    """The arrays of char_table.npz."""
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise RuntimeError(f"this Python has Unicode {unicodedata.unidata_version}, the table is of {UNICODE_VERSION}")
    flags = np.zeros(N_CODE_POINTS, dtype=np.uint32)
    for sets in (make_python_sets(), make_punctuation_sets(), make_spacy_sets()):
        for flag, members in sets.items():
            set_flag(flags, members, flag)
    index, entries = make_folds()
    set_flag(flags, np.flatnonzero(index), chars.FOLDS)
    set_flag(flags, range(0xAC00, 0xD7A4), chars.FOLDS)
    blocks, packed_flags = pack_blocks(flags)
    fold_blocks, fold_entries = pack_blocks(index)
    return {
        "blocks": blocks,
        "flags": packed_flags,
        "fold_blocks": fold_blocks,
        "fold_entries": fold_entries,
        "fold_starts": np.cumsum([0, *map(len, entries)], dtype=np.int32),
        "fold_data": np.frombuffer(b"".join(entries), dtype=np.uint8),
    }


if __name__ == "__main__":
    np.savez_compressed(TABLE, allow_pickle=False, **make_tables())
    print(f"{TABLE}: {TABLE.stat().st_size} bytes")
