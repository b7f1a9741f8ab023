"""Write the sample: src/tamiz/sample/sample-*.parquet and the golden labels of its 400 documents.

Reads sample/originals and sample/pieces, all written for this project, and derives copies, digests and junk from them
(sample_copies.py, sample_junk.py). Everything random comes from dice seeded with a recipe's name, so the same inputs
give the same bytes with the same version of pyarrow. Usage: python scripts/make_sample.py [--out DIR] [--labels FILE]
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from sample_copies import EDITS, RENAMES, add_notice, rename
from sample_junk import JUNK, Draft, Material, Paragraph

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "sample"
N_FILES = 2
ROW_GROUP = 40
N_DIGESTS = 40
N_NOTICES = (7, 1)  # copies with a boilerplate line, of cyber and of general pages
NULL_LANGUAGE = 0.15  # share of the prose whose language is left for the reader to identify
LABEL_COLUMNS = ["file", "row", "id", "derived_from", "recipe", "outcome", "reason", "note"]

# Not copied: two pages so dense with codes and numbers that their own outcome hangs on a threshold.
NEVER_COPIED = {"cyber/13-windows-logon-events", "cyber/42-adv-vaultmere-deserialization"}

# Language and range of scores that a source would plausibly give to pages that are hardly prose.
ODD_LANGUAGES: dict[str, tuple[str, float, float]] = {
    "lorem_ipsum": ("la", 0.45, 0.80),
    "symbol_soup": ("en", 0.10, 0.30),
    "number_table": ("en", 0.15, 0.45),
    "encoded_blob": ("en", 0.20, 0.50),
    "mixed_languages": ("", 0.40, 0.60),  # the language of the foreign page
}

FINEWEB = pa.schema(
    [
        ("text", pa.string()),
        ("id", pa.string()),
        ("dump", pa.string()),
        ("url", pa.string()),
        ("date", pa.string()),
        ("file_path", pa.string()),
        ("language", pa.string()),
        ("language_score", pa.float64()),
        ("token_count", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Page:
    """One document: where it stands, what it is, and what a sieve for cybersecurity should make of it."""

    name: str  # unique; for an original its path under sample/originals without suffix
    text: str | None
    url: str
    date: datetime
    kind: str
    language: str
    recipe: str
    outcome: str  # packed, rejected, duplicate or quarantined
    reason: str
    note: str
    origins: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"<urn:uuid:{uuid.UUID(bytes=hashlib.sha256(self.name.encode()).digest()[:16])}>"


def roll(*names: str | int) -> Random:
    """Dice for one purpose: the same names give the same throws, whatever else is made."""
    return Random("tamiz sample/" + "/".join(map(str, names)))


def read_originals() -> list[Page]:
    """The hand-written pages, in the order of their names."""
    pages = []
    for path in sorted((SAMPLE / "originals").glob("*/*.txt")):
        front, _, body = path.read_text(encoding="utf-8").partition("\n---\n")
        facts = dict(line.split(": ", 1) for line in front.splitlines())
        outcome, _, rest = facts["label"].partition(" | ")
        is_packed = outcome == "packed"
        page = Page(
            name=f"{path.parent.name}/{path.stem}",
            text=body.strip("\n"),
            url=facts["url"],
            date=datetime.fromisoformat(facts["date"]),
            kind=facts["kind"],
            language=facts["language"],
            recipe="original",
            outcome=outcome,
            reason="" if is_packed else rest,
            note=rest if is_packed else f"{facts['kind']} about something else",
        )
        pages.append(page)
    return pages


def read_pieces() -> dict[str, list[str]]:
    """The lines of each file in sample/pieces, by its stem."""
    paths = sorted((SAMPLE / "pieces").glob("*.txt"))
    return {path.stem: path.read_text(encoding="utf-8").splitlines() for path in paths}


def find_paragraphs(pages: Iterable[Page], n_words_min: int) -> list[Paragraph]:
    """The paragraphs of connected prose: long enough, and ending in a full stop."""
    return [
        Paragraph(page.name, line)
        for page in pages
        for line in (page.text or "").split("\n")
        if len(line.split()) >= n_words_min and line.endswith(".")
    ]


def copy_pages(originals: Sequence[Page], notices: list[str]) -> list[Page]:
    """Exact and near copies: duplicates where the source is packed, otherwise rejected for the same reason."""
    rooms: dict[str, list[Page]] = defaultdict(list)
    for page in originals:
        if page.name not in NEVER_COPIED:
            rooms[page.name.split("/")[0]].append(page)
    copies = []
    for recipe, (edit, *counts) in EDITS.items():
        for room, n in zip(("cyber", "general", "world"), counts, strict=True):
            for source in roll(recipe, room).sample(rooms[room], n):
                copies.append(_copy_page(source, recipe, edit(source.text or "", roll(recipe, source.name))))
    for room, n in zip(("cyber", "general"), N_NOTICES, strict=True):
        for source in roll("notice", room).sample(rooms[room], n):
            copies.append(_copy_page(source, "notice", add_notice(source.text or "", roll(source.name), notices)))
    renamed = [page for page in originals if page.name in RENAMES]
    copies += [_copy_page(source, "renamed", rename(source.name, source.text or "")) for source in renamed]
    for copy in copies:
        source = next(page for page in originals if page.name == copy.origins[0])
        if (copy.text == source.text) != (copy.recipe == "exact_copy"):
            raise ValueError(f"{copy.name}: the edit changed nothing; take another page")
    return copies


def _copy_page(source: Page, recipe: str, text: str) -> Page:
    is_duplicate = source.outcome == "packed"
    dice = roll(recipe, source.name, "copy")
    return replace(
        source,
        name=f"{recipe}/{source.name}",
        text=text,
        url=f"https://{dice.choice(['mirror', 'reader', 'cache', 'amp'])}.example/{recipe}/{source.name.split('/')[1]}",
        date=source.date + timedelta(days=dice.randint(1, 90), minutes=dice.randint(0, 1439)),
        recipe=recipe,
        outcome="duplicate" if is_duplicate else source.outcome,
        reason=source.id if is_duplicate else source.reason,
        note=f"copy of {source.url}",
        origins=(source.name,),
    )


def make_digests(deck: list[Paragraph], leads: list[str]) -> list[Page]:
    """New pages: a lead of its own and a paragraph from each of three pages. Takes the paragraphs off the deck."""
    pages = []
    for number, lead in enumerate(leads[:N_DIGESTS]):
        picks: list[Paragraph] = []
        while len(picks) < 3:
            taken = {pick.origin for pick in picks}
            picks.append(deck.pop(next(i for i, p in enumerate(deck) if p.origin not in taken)))
        draft = Draft("\n\n".join([lead, *(pick.text for pick in picks)]), tuple(pick.origin for pick in picks))
        note = "paragraphs of three pages under a new lead"
        pages.append(_make_page("digest", number, draft, outcome="packed", reason="", note=note))
    return pages


def make_junk(material: Material) -> list[Page]:
    """What the recipes are for; the note is the first line of the docstring of the function that makes it."""
    pages = []
    for recipe, (make, count, reason) in JUNK.items():
        note = (make.__doc__ or "").splitlines()[0].rstrip(".")
        outcome = "quarantined" if reason.startswith("text_") else "rejected"
        for number, draft in enumerate(make(material, roll(recipe), count)):
            pages.append(_make_page(recipe, number, draft, outcome=outcome, reason=reason, note=note))
    return pages


def _make_page(recipe: str, number: int, draft: Draft, outcome: str, reason: str, note: str) -> Page:
    language = ODD_LANGUAGES.get(recipe, ("en", 0, 0))[0] or draft.origins[0].split("/")[1][:2]
    return Page(
        name=f"{recipe}/{number:02d}",
        text=draft.text,
        url=f"https://www.{recipe.replace('_', '-')}.example/{number:02d}",
        date=datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=roll(recipe, number, "date").randrange(360 * 1440)),
        kind="derived",
        language=language,
        recipe=recipe,
        outcome=outcome,
        reason=reason,
        note=note,
        origins=draft.origins,
    )


def order_pages(pages: list[Page]) -> list[Page]:
    """Shuffled, but an original stands before its copies: it takes the first of the places its family drew."""
    order = pages.copy()
    roll("order").shuffle(order)
    families: dict[str, list[int]] = defaultdict(list)
    for place, page in enumerate(order):
        families[_name_family(page)].append(place)
    for name, places in families.items():
        source = next(place for place in places if order[place].name == name)
        order[places[0]], order[source] = order[source], order[places[0]]
    return order


def _name_family(page: Page) -> str:
    is_copy = page.note.startswith("copy of ")
    return page.origins[0] if is_copy else page.name


def tell_language(page: Page) -> tuple[str | None, float | None]:
    """What the source says about the language: null for pages without text and for some of the prose."""
    dice = roll(page.name, "language")
    is_prose = page.recipe in ("original", "digest", "exact_copy")
    if page.outcome == "quarantined" or (is_prose and dice.random() < NULL_LANGUAGE):
        return None, None
    low, high = ODD_LANGUAGES[page.recipe][1:] if page.recipe in ODD_LANGUAGES else (0.80, 0.99)
    return page.language, round(dice.uniform(low, high), 4)


def make_row(page: Page, dump: str) -> dict[str, object]:
    """FineWeb's columns; dump, file_path and token_count (4.4 characters a token) are made up, as are the addresses."""
    language, score = tell_language(page)
    segment = roll(page.name, "segment").randrange(100)
    return {
        "text": page.text,
        "id": page.id,
        "dump": dump,
        "url": page.url,
        "date": page.date.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "file_path": f"s3://tamiz-sample/{dump}/segments/{segment:02d}/warc/{dump}-{segment:05d}.warc.gz",
        "language": language,
        "language_score": score,
        "token_count": round(len(page.text or "") / 4.4),
    }


def make_pages() -> list[Page]:
    """All documents of the sample, in their final order."""
    originals, pieces = read_originals(), read_pieces()
    cyber = [page for page in originals if page.name.startswith("cyber/")]
    world = [page for page in originals if page.name.startswith("world/")]
    deck = find_paragraphs([page for page in cyber if page.kind != "forum"], n_words_min=45)
    roll("deck").shuffle(deck)
    digests = make_digests(deck, pieces["leads"])
    code = [path.read_text(encoding="utf-8") for path in sorted((SAMPLE / "pieces" / "code").glob("*.txt"))]
    texts = {page.name: page.text or "" for page in cyber if page.kind in ("article", "howto", "news")}
    junk = make_junk(Material(texts, deck, find_paragraphs(world, n_words_min=40), pieces, code))
    return order_pages([*originals, *copy_pages(originals, pieces["notices"]), *digests, *junk])


def write_sample(pages: list[Page], out: Path, labels: Path) -> None:
    """Two Parquet files of equal length in `out`, and the label of every row in order."""
    size = -(-len(pages) // N_FILES)
    rows = []
    for number in range(N_FILES):
        some, name = pages[number * size : (number + 1) * size], f"sample-{number}.parquet"
        table = pa.Table.from_pylist([make_row(page, f"TAMIZ-SAMPLE-{number}") for page in some], schema=FINEWEB)
        repeated = ["dump", "language"]
        pq.write_table(table, out / name, ROW_GROUP, compression="zstd", compression_level=15, use_dictionary=repeated)
        for row, page in enumerate(some):
            origins = "|".join(page.origins)
            rows.append([name, row, page.id, origins, page.recipe, page.outcome, page.reason, page.note])
    with labels.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE)
        writer.writerows([LABEL_COLUMNS, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the sample and its labels.")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "tamiz" / "sample")
    parser.add_argument("--labels", type=Path, default=ROOT / "tests" / "golden" / "sample_labels.tsv")
    args = parser.parse_args()
    write_sample(make_pages(), args.out, args.labels)


if __name__ == "__main__":
    main()
