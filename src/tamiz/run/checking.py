"""`dedup.verify`: near copies are removed only where the true Jaccard similarity of the texts reaches the threshold.

Each document is compared with the first DEPTH documents, in order, of every bucket it is in: at most
DEPTH x bands pairs a document however large the bucket, and the same ones for any number of workers. It loses to the
foremost of those that are alike enough, and stays if none is. Shingle sets of the candidates travel to the groups that
need them, each once per group, so that no text is read more than twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.dedup.duplicates import NONE, Losers, merge_losers
from tamiz.dedup.similarity import measure_jaccard
from tamiz.run.bands import SCOPES
from tamiz.run.engine import Report
from tamiz.run.layout import Group
from tamiz.run.ledger import Done, record_done
from tamiz.run.merge import PAIRS, Bounds, MergeUnit, publish_pairs, read_between, read_losers, write_sorted
from tamiz.run.trust import Sets, make_sets, read_texts
from tamiz.schema import F64, I64, U64
from tamiz.store import Folder

DEPTH = 4
_SETS_BYTES = 32 << 20  # of shingles in one row group
CANDIDATES = pa.schema([*PAIRS, pa.field("merit", pa.uint64(), nullable=False)])
_SETS = pa.schema(
    [
        pa.field("target", pa.int64(), nullable=False),  # the group of documents that compares with it
        pa.field("document", pa.int64(), nullable=False),
        pa.field("shingles", pa.large_list(pa.uint64()), nullable=False),
    ]
)


@dataclass(frozen=True)
class SetsUnit:
    """Publish the shingle sets of the documents of `group` that others may lose to, for each group of these."""

    folder: str
    place: str
    group: Group
    candidates: tuple[str, ...]
    bounds: Bounds
    ngram: int

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"sets-{self.group.index:05d}"

    def __str__(self) -> str:
        return f"dedup, shingles of {self.group.parts[0].name} to {self.group.parts[-1].name}"


@dataclass(frozen=True)
class CompareUnit:
    """Compare the documents of `group` with their candidates; `own`: its candidates, `sets`: of all groups."""

    folder: str
    place: str
    group: Group
    own: str
    sets: tuple[str, ...]
    bounds: Bounds
    ngram: int
    threshold: float

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"merged-{self.group.index:05d}"

    def __str__(self) -> str:
        return f"dedup, comparison of {self.group.parts[0].name} to {self.group.parts[-1].name}"


@dataclass(frozen=True)
class CandidateUnit:
    """List the pairs to compare among the losers that `merge` would merge."""

    merge: MergeUnit

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"candidates-{self.merge.group.index:05d}"

    def __str__(self) -> str:
        return f"{self.merge}, candidates"


def list_candidates(task: CandidateUnit, report: Report) -> Done:
    """Work one unit: publish the pairs to compare, exact copies among them; counts what each scope would remove."""
    unit = task.merge
    folder, group = Folder(unit.folder), unit.group
    verdicts = merge_losers(group.n_documents, read_losers(folder, unit, True), [], group.first)
    lost_in = verdicts.lost_in
    lost = np.flatnonzero(verdicts.lost_to != NONE)
    exact = _make_candidates(lost + group.first, verdicts.lost_to[lost], np.zeros(len(lost), np.uint64), is_exact=True)
    near: list[Losers] = []
    for losers in read_losers(folder, unit, False):
        lost_in[losers.loser - group.first] |= losers.lost_in
        near.append(losers.take((losers.winner != NONE) & ~verdicts.is_exact[losers.loser - group.first]))
    pairs = _make_candidates(*_join_losers(near), is_exact=False)
    table = _count_bands(pairs)
    with folder.publish(f"{unit.place}/{task.name}.parquet") as file:
        write_sorted(file, pa.concat_tables([exact, table]), CANDIDATES, "winner", unit.bounds)
    tally = {f"scopes/{scope}": int((lost_in & (1 << i) > 0).sum()) for i, scope in enumerate(SCOPES)}
    done = Done(task.name, {"candidates": file.output}, tally)
    record_done(folder, unit.place, done)
    report(group.n_documents, 0, 0)
    return done


def _join_losers(near: Sequence[Losers]) -> tuple[I64, I64, U64]:
    loser = np.concatenate([np.zeros(0, dtype=np.int64), *(losers.loser for losers in near)])
    winner = np.concatenate([np.zeros(0, dtype=np.int64), *(losers.winner for losers in near)])
    return loser, winner, np.concatenate([np.zeros(0, dtype=np.uint64), *(losers.merit for losers in near)])


def _make_candidates(loser: I64, winner: I64, merit: U64, *, is_exact: bool) -> pa.Table:
    n = len(loser)
    columns = [
        pa.array(loser), pa.array(winner), pa.array(np.full(n, is_exact)), pa.array(np.zeros(n, dtype=np.int32)),
        pa.array(np.full(n, 1.0)) if is_exact else pa.nulls(n, pa.float64()), pa.array(merit),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=CANDIDATES)


def _count_bands(pairs: pa.Table) -> pa.Table:
    """Each pair once, with the number of bands it came from."""
    loser, winner = pairs.column("loser").to_numpy(), pairs.column("winner").to_numpy()
    order = np.lexsort((winner, loser))
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.diff(loser[order]) != 0
    begins[1:] |= np.diff(winner[order]) != 0
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, len(order))).astype(np.int32)
    place = CANDIDATES.names.index("n_bands")
    return pairs.take(pa.array(order[starts])).set_column(place, CANDIDATES.field(place), pa.array(counts))


def publish_sets(unit: SetsUnit, report: Report) -> Done:
    """Work one unit. In memory: the shingles of the group's documents that others may lose to."""
    folder = Folder(unit.folder)
    group = unit.group
    found = [read_between(folder, path, "winner", group.first, group.past) for path in unit.candidates]
    pairs = pa.concat_tables([CANDIDATES.empty_table(), *found])
    near = ~pairs.column("is_exact").to_numpy()
    winner, loser = pairs.column("winner").to_numpy()[near], pairs.column("loser").to_numpy()[near]
    firsts = np.array([first for first, _ in unit.bounds], dtype=np.int64)
    target = np.searchsorted(firsts, loser, side="right") - 1
    documents = np.unique(winner)
    offsets, shingles = read_sets(folder, group, documents, unit.ngram)
    with (
        folder.publish(f"{unit.place}/{unit.name}.parquet") as file,
        pq.ParquetWriter(file, _SETS, compression="zstd", compression_level=1, use_dictionary=False) as writer,
    ):
        for number in np.unique(target):
            wanted = np.searchsorted(documents, np.unique(winner[target == number]))
            for chosen in _cut_rows(offsets, wanted):
                lengths = offsets[chosen + 1] - offsets[chosen]
                values = np.concatenate([shingles[offsets[k] : offsets[k + 1]] for k in chosen])
                ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
                columns = [
                    pa.array(np.full(len(chosen), number)),
                    pa.array(documents[chosen]),
                    pa.LargeListArray.from_arrays(pa.array(ends), pa.array(values)),
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=_SETS), row_group_size=len(chosen))
    done = Done(unit.name, {"sets": file.output}, {})
    record_done(folder, unit.place, done)
    report(len(documents), 0, 0)
    return done


def _cut_rows(offsets: I64, rows: I64) -> Iterator[I64]:
    sizes = np.cumsum(offsets[rows + 1] - offsets[rows]) * 8 // _SETS_BYTES
    for number in np.unique(sizes):
        yield rows[sizes == number]


def read_sets(folder: Folder, group: Group, documents: I64, ngram: int) -> Sets:
    """The shingle sets of these documents (ascending) of the group, from the texts of its parts."""
    lengths, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint64)]
    first = group.first
    for part in group.parts:
        rows = documents[slice(*np.searchsorted(documents, (first, first + part.n_kept)))] - first
        first += part.n_kept
        if len(rows):
            for _, text in read_texts(part.open_folder(folder), part.kept, rows.tolist()):
                offsets, shingles = make_sets(text, ngram)
                lengths.append(np.diff(offsets))
                values.append(shingles)
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths))])
    return ends, np.concatenate(values)


def compare_candidates(unit: CompareUnit, report: Report) -> Done:
    """Work one unit: publish PAIRS of the group like a merge does. In memory: the shingles of its losers."""
    folder = Folder(unit.folder)
    with folder.open(unit.own) as own:
        pairs = pq.read_table(own)
    is_exact = pairs.column("is_exact").to_numpy()
    loser, winner = pairs.column("loser").to_numpy(), pairs.column("winner").to_numpy()
    documents = np.unique(loser[~is_exact])
    lefts = read_sets(folder, unit.group, documents, unit.ngram)
    similarity = np.where(is_exact, 1.0, -1.0)
    for path in unit.sets:
        _compare_file(folder, path, unit.group.index, lefts, documents, loser, winner, is_exact, similarity)
    if (similarity < 0).any():
        raise ValueError(f"{unit}: {int((similarity < 0).sum())} pairs have no shingles to compare with")
    best = _choose_best(pairs, similarity, unit.threshold)
    place = PAIRS.names.index("similarity")
    table = pairs.select(PAIRS.names).set_column(place, PAIRS.field(place), pa.array(similarity)).take(pa.array(best))
    tally = {"pairs/compared": int((~is_exact).sum()), "pairs/refused": int((similarity < unit.threshold).sum())}
    report(unit.group.n_documents, 0, 0)
    return publish_pairs(folder, unit.place, unit.name, table, unit.bounds, tally)


def _compare_file(
    folder: Folder,
    path: str,
    target: int,
    lefts: Sets,
    documents: I64,
    loser: I64,
    winner: I64,
    is_exact: np.ndarray[tuple[int], np.dtype[np.bool_]],
    similarity: F64,
) -> None:
    """Fill `similarity` of the pairs whose winner's set is in this file, a row group at a time."""
    with folder.open(path) as file:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            statistics = parquet.metadata.row_group(group).column(0).statistics
            if not statistics.min <= target <= statistics.max:
                continue
            table = parquet.read_row_group(group, use_threads=False)
            theirs = table.column("document").to_numpy()
            lists = table.column("shingles").combine_chunks()
            rights = (lists.offsets.to_numpy(), lists.values.to_numpy())
            chosen = np.flatnonzero(~is_exact & (winner >= theirs[0]) & (winner <= theirs[-1]))
            left = np.searchsorted(documents, loser[chosen])
            right = np.searchsorted(theirs, winner[chosen])
            similarity[chosen] = measure_jaccard(lefts, rights, left, right)


def _choose_best(pairs: pa.Table, similarity: F64, threshold: float) -> I64:
    """The row of each loser's foremost winner that is alike enough, by (merit, order)."""
    passed = np.flatnonzero(similarity >= threshold)
    loser, winner, merit = (pairs.column(name).to_numpy()[passed] for name in ("loser", "winner", "merit"))
    order = np.lexsort((winner, merit, loser))
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.diff(loser[order]) != 0
    rows: I64 = passed[order[begins]]
    return rows
