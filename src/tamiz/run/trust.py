"""How alike removed documents and those they lost to really are: the true Jaccard similarity of a sample of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.dedup.similarity import list_shingles, measure_jaccard
from tamiz.errors import StoreError
from tamiz.measure.normal import scan_normal_words
from tamiz.run.engine import Report
from tamiz.run.ledger import Done, record_done
from tamiz.run.sampling import Spot
from tamiz.schema import I64, U64, view_text
from tamiz.store import Folder

Sets = tuple[I64, U64]  # as list_shingles gives them


@dataclass(frozen=True)
class TrustUnit:
    """Measure `pairs` (removed, lost to). `kept`: (run, part) -> path of its KEPT, in the run's folder."""

    folder: str
    place: str
    name: str
    pairs: tuple[tuple[Spot, Spot], ...]
    kept: Mapping[tuple[str | None, str], str]
    ngram: int
    threshold: float

    def __str__(self) -> str:
        return f"dedup, similarity of {len(self.pairs)} pairs"


def measure_trust(unit: TrustUnit, report: Report) -> Done:
    """Work one unit. Facts: `n` pairs measured, `n_under` the threshold, their `mean`, `histogram` (ten equal bins),
    `n_unreadable`: pairs whose older document has no text any more.

    In memory: the shingles of the sampled documents, 8 bytes per word.
    """
    wanted = {spot for pair in unit.pairs for spot in pair}
    sets: dict[Spot, Sets] = {}
    for key in sorted({(spot.run or "", spot.part) for spot in wanted}):
        run = key[0] or None
        rows = sorted(spot.row for spot in wanted if (spot.run or "", spot.part) == key)
        folder = Folder(unit.folder if run is None else run)
        try:
            for row, text in read_texts(folder, unit.kept[(run, key[1])], rows):
                sets[Spot(run, key[1], row)] = make_sets(text, unit.ngram)
        except StoreError:
            if run is None:
                raise
        report(len(rows), 0, 0)
    found = [
        float(measure_jaccard(sets[a], sets[b], np.zeros(1, np.int64), np.zeros(1, np.int64))[0])
        for a, b in unit.pairs
        if a in sets and b in sets
    ]
    facts = {
        "n": len(found),
        "n_under": sum(similarity < unit.threshold for similarity in found),
        "mean": float(np.mean(found)) if found else None,
        "histogram": np.histogram(found, bins=10, range=(0.0, 1.0))[0].tolist(),
        "n_unreadable": len(unit.pairs) - len(found),
    }
    done = Done(unit.name, {}, {}, facts)
    record_done(Folder(unit.folder), unit.place, done)
    return done


def read_texts(folder: Folder, kept: str, rows: Sequence[int]) -> Iterator[tuple[int, pa.LargeStringArray]]:
    """(row, its text as an array of one) of these ascending rows of a KEPT file; reads their row groups only."""
    with folder.open(kept) as file:
        parquet = pq.ParquetFile(file)
        first = at = 0
        for group in range(parquet.num_row_groups):
            past = first + parquet.metadata.row_group(group).num_rows
            if at < len(rows) and rows[at] < past:
                text = parquet.read_row_group(group, columns=["text"], use_threads=False).column(0).combine_chunks()
                while at < len(rows) and rows[at] < past:
                    yield rows[at], text.slice(rows[at] - first, 1)
                    at += 1
            first = past


def make_sets(text: pa.LargeStringArray, ngram: int) -> Sets:
    """The shingle sets of these texts."""
    words = scan_normal_words(*view_text(text))
    return list_shingles(words.doc_offsets, words.hashes, ngram)


def read_pair(
    folder: Folder, doc_id: bytes, kept: Mapping[tuple[str | None, str], str], duplicates: str
) -> tuple[str, str, dict[str, object]] | None:
    """(text of a removed document, text it lost to, its row of DUPLICATES); None when it was not removed."""
    with folder.open(duplicates) as file:
        rows = pq.read_table(file, filters=[("doc_id", "==", doc_id)]).to_pylist()
    if not rows:
        return None
    row = rows[0]
    texts = []
    spots = (Spot(None, row["part"], row["row"]), Spot(row["lost_to_run"], row["lost_to_part"], row["lost_to_row"]))
    for spot in spots:
        place = folder if spot.run is None else Folder(spot.run)
        texts += [text[0].as_py() for _, text in read_texts(place, kept[(spot.run, spot.part)], [spot.row])]
    return texts[0], texts[1], row
