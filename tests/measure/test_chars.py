"""The class table against Python's own methods, spaCy and the generating script."""

from __future__ import annotations

import importlib.util
import sys
import unicodedata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from tamiz.measure import chars
from tamiz.measure.chars import Chars, decode, flags_of, load_chars, load_folds

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_char_table.py"
EVERYTHING = [chr(cp) for cp in range(0x110000)]
needs_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason=f"the table is Unicode 14.0, this is {unicodedata.unidata_version}"
)


def members(flag: int) -> set[str]:
    """All characters whose table entry has the flag."""
    table: Any = load_chars()
    flags = table["flags"].reshape(-1, 256)[table["blocks"]].reshape(-1)
    return {chr(cp) for cp in np.flatnonzero(flags & np.uint32(flag))}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_char_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@needs_unicode_14
def test_table_is_what_the_script_makes(script: ModuleType) -> None:
    with np.load(script.TABLE) as table:
        made = script.make_tables()
        assert sorted(table.files) == sorted(made)
        for name in table.files:
            np.testing.assert_array_equal(table[name], made[name], err_msg=name)
            assert table[name].dtype == made[name].dtype


@needs_unicode_14
@pytest.mark.parametrize(
    ("flag", "is_member"),
    [
        (chars.SPACE, str.isspace),
        (chars.ALPHA, str.isalpha),
        (chars.ND, str.isdecimal),
        (chars.LINE_BREAK, lambda c: c.splitlines() == [""]),
        (chars.MN, lambda c: unicodedata.category(c) == "Mn"),
        (chars.IS_PUNCT, lambda c: unicodedata.category(c)[0] == "P"),
        (chars.WORD, lambda c: c == "_" or c.isalnum()),
    ],
    ids=["space", "alpha", "nd", "line_break", "mn", "is_punct", "word"],
)
def test_classes_are_pythons(flag: int, is_member) -> None:  # type: ignore[no-untyped-def]
    assert members(flag) == {char for char in EVERYTHING if is_member(char)}


def test_published_sets_have_their_sizes_and_edges() -> None:
    """Sizes and the examples named in the description of the filters."""
    symbol, terminal, norm = members(chars.SYMBOL), members(chars.TERMINAL), members(chars.NORM_PUNCT)
    assert (len(symbol), len(terminal), len(norm)) == (281, 159, 129)
    assert symbol == terminal | norm
    assert set("""!"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~“”’–—…\x00\x0b\x1f\x85""") <= norm
    assert not set("‘·•\t\n") & symbol
    assert set(".!?。") <= terminal
    assert not set("\"'):…") & terminal
    assert len(members(chars.SENTENCE_END)) == 128


def test_spacy_classes_are_spacys() -> None:
    from spacy.lang import en
    from spacy.lang.char_classes import LIST_ICONS
    from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

    defaults = en.EnglishDefaults
    find_prefix = compile_prefix_regex(defaults.prefixes).search
    find_suffix = compile_suffix_regex(defaults.suffixes).search
    find_icon = compile_infix_regex(LIST_ICONS).search
    assert members(chars.PREFIX) == {char for char in EVERYTHING if find_prefix(char)}
    assert members(chars.SUFFIX) == {char for char in EVERYTHING if find_suffix(char)}
    assert members(chars.ICON) == {char for char in EVERYTHING if find_icon(char)}
    before_stop = {char for char in EVERYTHING if (m := find_suffix(char + ".")) and m.start() == 1}
    assert members(chars.BEFORE_STOP) == before_stop


@needs_unicode_14
def test_folds_are_lower_nfd_without_marks() -> None:
    table: Any = load_folds()
    folded, starts = members(chars.FOLDS), table["starts"]
    entries = table["entries"].reshape(-1, 256)[table["blocks"]].reshape(-1)
    for cp, char in enumerate(EVERYTHING):
        decomposed = unicodedata.normalize("NFD", char.lower())
        expected = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        assert (char in folded) == (expected != char), hex(cp)
        if expected != char and not 0xAC00 <= cp <= 0xD7A3:
            entry = int(entries[cp])
            assert table["data"][starts[entry] : starts[entry + 1]].tobytes() == expected.encode(), hex(cp)


@njit
def decode_all(table: Chars, data: chars.U8) -> tuple[list[int], list[int]]:
    points, flags, i = [0], [0], 0
    while i < len(data):
        cp, length = decode(data, i)
        points.append(cp)
        flags.append(flags_of(table, cp))
        i += length
    return points, flags


@needs_unicode_14
@given(st.text())
def test_decoding_is_pythons(text: str) -> None:
    table = load_chars()
    points, flags = decode_all(table, np.frombuffer(text.encode(), dtype=np.uint8))
    assert "".join(map(chr, points[1:])) == text
    assert [bool(flag & chars.ALPHA) for flag in flags[1:]] == [char.isalpha() for char in text]
