"""The special cases of spaCy 3.8's English tokenizer, restated as rules: texts split, or kept whole, as listed.

`spacy.lang.en.tokenizer_exceptions` lists some 1,300 texts; nearly all of them come from a few families (a pronoun and
its clitics, with and without apostrophe, capitalised or not). A case is written with a space between its words:
"ca n't" means that can't is the two words ca and n't. Cases without a space are kept in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator

# Stems and the clitics that may follow; each also without its apostrophes and with a capital: "I 'll 've", "ill ve".
_CLITICS = [
    ("i", ["'m", "'m a"]),
    ("i you he she it we they", ["'ll", "'ll 've", "'d", "'d 've"]),
    ("i you we they", ["'ve"]),
    ("you we they", ["'re"]),
    ("he she it", ["'s"]),
    ("who what when where why how there that this these those", ["'ll", "'ll 've", "'d", "'d 've"]),
    ("who what when where why how there that this", ["'s"]),
    ("who what when where why how there these those could might must should would", ["'ve"]),
    ("who what when where why how there these those", ["'re"]),
    ("ca could do does did had may might must need ought sha should wo would", ["n't", "n't 've"]),
    ("ai are is was were have has dare", ["n't"]),
    ("not", ["'ve"]),
]
# What these families make by accident, and is a word of its own.
_WORDS_AFTER_ALL = "Ill ill Its its Hell hell Shell shell Shed shed were Were Well well Whore whore"

# With and without the apostrophe at the end, and with a capital.
_DROPPED_G = "doin goin nothin nuthin ol somethin lovin havin"
# With and without the apostrophe at the front.
_DROPPED_HEAD = "em ll nuff"
# With a capital as well.
_TWO_CASES = [
    *("can not", "gon na", "got ta", "let 's", "c'm on", "how 'd 'y"),
    *("ma'am", "o'clock", "e.g.", "i.e.", "co."),
]
_TWO_CASES_QUOTED = "cause cos coz cuz"
_AS_WRITTEN = [
    *("y' all", "y all", "and/or", "w/o", "'s", "'S", "\u2018s", "\u2018S", "'re", "'d", "'bout", "E.G.", "I.E."),
    *("a.m.", "p.m.", "vs.", "v.s.", "D.C.", "Ph.D.", "N.C.", "N.D.", "N.H.", "N.J.", "N.M.", "N.Y.", "S.C."),
    *("'", "''", '\\")', "<space>", "C++", "\\t", "\\n", "\u2014"),
]
# Titles, companies, months and states of the United States: kept together with their full stop.
_ABBREVIATIONS = (
    "Adm Bros Corp Dr Gen Gov Inc Jr Ltd Messrs Mr Mrs Ms Mt Prof Rep Rev Sen St Jan Feb Mar Apr Jun Jul Aug Sep Sept "
    "Oct Nov Dec Ak Ala Ariz Ark Calif Colo Conn Del Fla Ga Ia Id Ill Ind Kan Kans Ky La Mass Md Mich Minn Miss Mo "
    "Mont Neb Nebr Nev Okla Ore Pa Tenn Va Wash Wis"
)

_MOUTHS = ") )) ))) ( (( ((( ] } / | P p O o 0 * 3 > X x D"
_EMOTICONS = (
    "(: (-: [: [-: (; (-; ;) ;-) ;D ;-D :') :'-) :'( :'-( :1 :o) (o: ): )-: >:( :() >:o "
    "=) (= =] [= =[ ]= =( =/ =| =3 =D 8) 8-) (-8 8D 8-D xD XD xDD XDD "
    "^_^ ^__^ ^___^ >.< >.> <.< ._. ;_; -_- -__- v.v V.V v_v V_V @_@ <3 <33 <333 </3 "
    "o_o o_O O_o O_O 0_o o_0 0_0 o.o o.O O.o O.O 0.o o.0 0.0 "
    "(^_^) (-_-) (._.) (>_<) (*_*) (\u00ac_\u00ac) \u0ca0_\u0ca0 \u0ca0\ufe35\u0ca0 (\u0ca0_\u0ca0) ><(((*> "
    "\u00af\\(\u30c4)/\u00af (\u256f\u00b0\u25a1\u00b0\uff09\u256f\ufe35\u253b\u2501\u253b"
)

# A suffix when an ASCII digit stands before it: plus sign, currency, units.
_AFTER_DIGIT = (
    "+ $ £ € ¥ ฿ US$ C$ A$ ₽ ﷼ ₴ ₠ ₡ ₢ ₣ ₤ ₥ ₦ ₧ ₨ ₩ ₪ ₫ ₭ ₮ ₯ ₰ ₱ ₲ ₳ ₵ ₶ ₷ ₸ ₹ ₺ ₻ ₼ ₾ ₿ "
    "km km² km³ m m² m³ dm dm² dm³ cm cm² cm³ mm mm² mm³ ha µm nm yd in ft kg g mg µg t lb oz m/s km/h kmh mph hPa Pa "
    "mbar mb MB kb KB gb GB tb TB T G M K % км км² км³ м м² м³ дм дм² дм³ см см² см³ мм мм² мм³ нм кг г мг м/с км/ч "
    "кПа Па мбар Кб КБ кб Мб МБ мб Гб ГБ гб Тб ТБ тбكم كم² كم³ م م² م³ سم سم² سم³ مم مم² مم³ كم غرام جرام جم كغ ملغ "
    "كوب اكواب"  # the last Cyrillic and the first Arabic unit are one text in spaCy 3.8: a missing space
)


def _list_families() -> Iterator[str]:
    for stems, clitics in _CLITICS:
        for stem in stems.split():
            for clitic in clitics:
                case = f"{stem} {clitic}"
                yield from (case, case.replace("'", ""))
                yield from (case.replace(stem, stem.title(), 1), case.replace("'", "").replace(stem, stem.title(), 1))


def _list_cases() -> Iterator[str]:
    """Every case with a space between its words; later ones win."""
    yield from (case for case in _list_families() if case.replace(" ", "") not in _WORDS_AFTER_ALL.split())
    for stem in _DROPPED_G.split():
        yield from (stem, stem + "'", stem.title(), stem.title() + "'")
    for stem in _DROPPED_HEAD.split():
        yield from (stem, "'" + stem)
    yield from (f"{hour} {half}" for hour in range(1, 13) for half in ("am", "pm", "a.m.", "p.m."))
    for case in _TWO_CASES:
        yield from (case, case[0].upper() + case[1:])
    for stem in _TWO_CASES_QUOTED.split():
        yield from ("'" + stem, "'" + stem.title())
    yield from _AS_WRITTEN
    yield from (stem + "." for stem in _ABBREVIATIONS.split())
    yield from (letter + "." for letter in "abcdefghijklmnopqrstuvwxyzäöü")
    yield from (":" + nose + mouth for nose in ("", "-") for mouth in _MOUTHS.split())
    yield from _EMOTICONS.split()
    yield from (f"° {scale} ." for scale in "cfkCFK")


def list_exceptions() -> dict[str, tuple[str, ...]]:
    """Text -> the words it is split into, for every special case that has no whitespace in it.

    spaCy adds a copy of every case that has a straight apostrophe with a curly one.
    """
    exceptions: dict[str, tuple[str, ...]] = {}
    for case in _list_cases():
        for variant in (case, case.replace("'", "\u2019")):
            exceptions[variant.replace(" ", "")] = tuple(variant.split())
    return exceptions


def list_after_digit() -> list[str]:
    """The texts that are a suffix when [0-9] stands before them: plus sign, currencies and units."""
    return _AFTER_DIGIT.split()
