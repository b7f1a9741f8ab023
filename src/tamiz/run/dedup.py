"""Dedup, last step: `duplicates.parquet` and `copies.parquet` in document order, a part at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.dedup.duplicates import NONE, find_roots
from tamiz.dedup.signature import MinHashShape
from tamiz.run.bands import SCOPES
from tamiz.run.layout import Group, KeptPart, Layout
from tamiz.run.ledger import Done, record_done, start_meter
from tamiz.run.merge import HEADS, NAMED, list_files, read_between, read_doc_ids
from tamiz.run.partition import Preference
from tamiz.schema import COPIES, DOC_ID, DUPLICATES, I64, U8, check_batch
from tamiz.store import Folder
from tamiz.tally import merge_tallies

_BUCKETS = 20  # the largest are told
_TOP = 10  # documents with the most copies are told


@dataclass(frozen=True)
class DedupSettings:
    """What decides which documents are copies. `memory` (bytes of a worker) and `sample` decide nothing.

    `against`: directories of older runs with the sift places whose documents win. `threshold`: the Jaccard similarity
    from which two documents are near copies; without `is_verified` the bands decide and it is only reported.
    `false_positives`: the promise of a Bloom index, None for a sorted one.
    """

    exact: bool
    shape: MinHashShape | None
    scope: str
    preference: Preference
    against: tuple[tuple[str, str], ...]
    is_verified: bool
    false_positives: float | None
    threshold: float
    memory: int
    sample: int
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The key columns compared."""
        n_bands = self.shape.bands if self.shape else 0
        return (*(["exact"] * self.exact), *(f"band_{i:02d}" for i in range(n_bands)))


def finish_dedup(
    folder: Folder,
    place: str,
    settings: DedupSettings,
    layout: Layout,
    bands: Sequence[Done],
    merged: Sequence[Done],
    heads: Sequence[Done],
    steps: Iterable[Done],
) -> None:
    """Publish what the steps before found, then the records. `steps`: the records of all their units."""
    start_meter()
    is_known = settings.false_positives is None
    copies = publish_copies(folder, place, layout, heads)
    named = list_files(heads, "named") if is_known else list_files(merged, "pairs")
    duplicates = publish_duplicates(folder, place, settings, layout, named)
    counts = merge_tallies(done.tally for done in merged)
    counted = SCOPES if is_known else (settings.scope,)
    names = [*(f"scopes/{scope}" for scope in counted), "pairs/compared", "pairs/refused"]
    scopes = {name: counts[name] for name in names if name in counts}
    buckets = sorted(
        ((size, done.unit.split("-")[1]) for done in bands for size in done.facts["buckets"]), reverse=True
    )
    facts = {
        "n_documents": layout.n_documents,
        "n_older": layout.n_older,
        "buckets": buckets[:_BUCKETS],
        "filter_bytes": sum(done.facts.get("filter_bytes", 0) for done in bands),
        "n_columns": len(settings.columns),
        "false_positives": settings.false_positives,
        "steps": _sum_costs(steps),
    }
    record_done(folder, place, copies)
    record_done(folder, place, Done("duplicates", duplicates.outputs, {**duplicates.tally, **scopes}, facts))


def _sum_costs(steps: Iterable[Done]) -> dict[str, float]:
    """What a prediction needs of the steps' records, which go with their outputs; `first`: see Done.is_first."""
    steps = list(steps)
    first = [done.cpu_seconds for done in steps if done.is_first]
    return {
        "units": len(steps),
        "cpu_seconds": round(sum(done.cpu_seconds for done in steps), 4),
        "first_units": len(first),
        "first_cpu_seconds": round(sum(first), 4),
        "n_bytes": sum(output.n_bytes for done in steps for output in done.outputs.values()),
    }


def publish_duplicates(
    folder: Folder, place: str, settings: DedupSettings, layout: Layout, named: Sequence[str]
) -> Done:
    """Publish DUPLICATES from the NAMED files.

    In memory: the losers of one group of documents.
    """
    tally: Counter[str] = Counter()
    spots = _Spots(layout)
    with (
        folder.publish(f"{place}/duplicates.parquet") as file,
        pq.ParquetWriter(file, DUPLICATES, compression="zstd") as writer,
    ):
        for group in layout.groups:
            if not group.is_own:
                continue
            found = [_add_names(read_between(folder, path, "loser", group.first, group.past)) for path in named]
            pairs = pa.concat_tables([NAMED.empty_table(), *found]).sort_by("loser").combine_chunks()
            for part, table in _cut_parts(folder, group, pairs, settings, spots, tally):
                check_batch(table, DUPLICATES, "dedup -> pack")
                tally[f"sources/{part.source}/duplicate"] += len(table)
                if len(table):
                    writer.write_table(table)
    return Done("duplicates", {"duplicates": file.output}, dict(tally))


def _add_names(pairs: pa.Table) -> pa.Table:
    """PAIRS, where a Bloom filter knows no names, to NAMED."""
    if pairs.num_columns == len(NAMED):
        return pairs
    return pairs.append_column(NAMED.field("lost_to"), pa.nulls(len(pairs), DOC_ID))


def _cut_parts(
    folder: Folder, group: Group, pairs: pa.Table, settings: DedupSettings, spots: _Spots, tally: Counter[str]
) -> Iterator[tuple[KeptPart, pa.Table]]:
    """(part, its DUPLICATES), counting documents and bytes."""
    losers = pairs.column("loser").to_numpy()
    first = group.first
    for part in group.parts:
        start, stop = np.searchsorted(losers, (first, first + part.n_kept))
        here, rows = pairs.slice(start, stop - start), losers[start:stop] - first
        first += part.n_kept
        is_exact = here.column("is_exact").to_numpy()
        tally["duplicates/exact"] += int(is_exact.sum())
        tally["duplicates/near"] += int(len(here) - is_exact.sum())
        tally["documents/duplicate"] += len(here)
        tally["bytes/duplicate"] += _sum_bytes(folder, part, rows)
        yield part, _make_rows(folder, part, rows, here, settings, spots)


def _sum_bytes(folder: Folder, part: KeptPart, rows: I64) -> int:
    if not len(rows):
        return 0
    with folder.open(part.kept) as file:
        sizes = pq.read_table(file, columns=["n_bytes"], use_threads=False, pre_buffer=False).column(0).to_numpy()
    return int(sizes[rows].sum())


def _make_rows(
    folder: Folder, part: KeptPart, rows: I64, pairs: pa.Table, settings: DedupSettings, spots: _Spots
) -> pa.Table:
    n = len(rows)
    is_exact = pairs.column("is_exact").to_numpy()
    similarity = pairs.column("similarity").to_numpy().copy()
    unknown = np.isnan(similarity)
    if settings.shape is not None:
        similarity[unknown] = settings.shape.estimate_similarity(pairs.column("n_bands").to_numpy()[unknown])
    similarity[is_exact] = 1.0
    runs, parts, places = spots.find(pairs.column("winner").to_numpy())
    columns = {
        "part": pa.array([part.name] * n, pa.string()),
        "row": pa.array(rows),
        "doc_id": _take_names(read_doc_ids(folder, part.bands), rows) if n else pa.array([], DOC_ID),
        "lost_to": pairs.column("lost_to"),
        "lost_to_run": runs,
        "lost_to_part": parts,
        "lost_to_row": places,
        "kind": pc.if_else(pa.array(is_exact), "exact", "near"),
        "n_bands": pairs.column("n_bands"),
        "similarity": pa.array(similarity),
    }
    return pa.table(columns, schema=DUPLICATES)


def _take_names(names: np.ndarray[tuple[int, int], np.dtype[np.uint8]], rows: I64) -> pa.Array:
    chosen: U8 = np.ascontiguousarray(names[rows])
    return pa.FixedSizeBinaryArray.from_buffers(DOC_ID, len(rows), [None, pa.py_buffer(chosen)])


class _Spots:
    """From an index in the order to run, part and row."""

    def __init__(self, layout: Layout) -> None:
        parts = [part for group in layout.groups for part in group.parts]
        self._firsts = np.cumsum([0, *(part.n_kept for part in parts)])[:-1]
        self._n_documents = layout.n_documents
        self._names = pa.array([part.name for part in parts], pa.string())
        self._runs = pa.array([part.run for part in parts], pa.string())

    def find(self, index: I64) -> tuple[pa.Array, pa.Array, pa.Array]:
        """(run, part, row) columns, null for the document behind the last: nobody knows which."""
        at = np.searchsorted(self._firsts, index, side="right") - 1
        unknown = index >= self._n_documents
        place = pa.array(at, mask=unknown)
        return self._runs.take(place), self._names.take(place), pa.array(index - self._firsts[at], mask=unknown)


def publish_copies(folder: Folder, place: str, layout: Layout, heads: Sequence[Done]) -> Done:
    """Publish COPIES from the groups' HEADS: what lost to a document that lost itself counts for the end of its chain.

    In memory: 24 bytes for every document that both lost and won; the documents of one group that won.
    Facts: `most_copied`, (part, row, n_copies) of the first of them.
    """
    linked, direct, lost_to = (np.zeros(0, dtype=np.int64) for _ in range(3))
    for path in list_files(heads, "heads"):
        table = _read_heads(folder, path)
        both = table[2] != NONE
        linked, direct, lost_to = (
            np.concatenate([old, new[both]]) for old, new in zip((linked, direct, lost_to), table, strict=True)
        )
    roots = find_roots(linked, lost_to)
    order = np.argsort(roots, kind="stable")
    roots, direct = roots[order], direct[order]
    total = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(direct)])
    top: list[list[object]] = []
    n_copies = 0
    with (
        folder.publish(f"{place}/copies.parquet") as file,
        pq.ParquetWriter(file, COPIES, compression="zstd") as writer,
    ):
        for group, path in zip(layout.groups, list_files(heads, "heads"), strict=bool(heads)):
            documents, counts, own = _read_heads(folder, path)
            documents, counts = documents[own == NONE], counts[own == NONE]
            counts = (
                counts + total[np.searchsorted(roots, documents, "right")] - total[np.searchsorted(roots, documents)]
            )
            if not group.is_own:
                continue
            for part, table in _cut_copies(folder, group, documents, counts):
                writer.write_table(table)
                n_copies += int(table.column("n_copies").to_numpy().sum())
                best = np.argsort(-table.column("n_copies").to_numpy(), kind="stable")[:_TOP]
                top += [[part.name, row["row"], row["n_copies"]] for row in table.take(pa.array(best)).to_pylist()]
                top = sorted(top, key=lambda entry: -entry[2])[:_TOP]  # type: ignore[operator]
    return Done("copies", {"copies": file.output}, {"copies": n_copies}, {"most_copied": top})


def _read_heads(folder: Folder, path: str) -> tuple[I64, I64, I64]:
    with folder.open(path) as file:
        table = pq.read_table(file, use_threads=False, pre_buffer=False)
    document, n_direct, lost_to = (table.column(name).to_numpy() for name in HEADS.names)
    return document, n_direct, lost_to


def _cut_copies(folder: Folder, group: Group, documents: I64, counts: I64) -> Iterator[tuple[KeptPart, pa.Table]]:
    first = group.first
    for part in group.parts:
        start, stop = np.searchsorted(documents, (first, first + part.n_kept))
        rows = documents[start:stop] - first
        first += part.n_kept
        if start == stop:
            continue
        columns = [
            pa.array([part.name] * len(rows), pa.string()),
            pa.array(rows),
            _take_names(read_doc_ids(folder, part.bands), rows),
            pa.array(counts[start:stop]),
        ]
        yield part, pa.Table.from_arrays(columns, schema=COPIES)


def read_duplicate_rows(folder: Folder, duplicates: str, part: str) -> I64:
    """Rows of `part`'s KEPT that are duplicates, ascending."""
    rows: I64 = _read_part(folder, duplicates, part, ["row"]).column("row").to_numpy()
    return rows


def read_copies(folder: Folder, copies: str, part: str, n_kept: int) -> I64:
    """int64[n_kept]: the n_copies of every row of `part`'s KEPT."""
    table = _read_part(folder, copies, part, ["row", "n_copies"])
    counts = np.zeros(n_kept, dtype=np.int64)
    counts[table.column("row").to_numpy()] = table.column("n_copies").to_numpy()
    return counts


def _read_part(folder: Folder, path: str, part: str, columns: list[str]) -> pa.Table:
    with folder.open(path) as file:
        return pq.read_table(file, columns=columns, filters=[("part", "==", part)])
