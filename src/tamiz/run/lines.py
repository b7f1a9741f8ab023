"""The lines stage: lines that many documents of a dump share are taken out of their texts, before dedup looks at them.

Three steps: each group of parts counts its lines; each range of line hashes adds the counts up; each part is rewritten,
texts and band files both. A part's record stands in the place of its sift record from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.dedup.lines import WORDS_MIN, SplitLines, count_lines, drop_lines, split_lines, sum_counts
from tamiz.dedup.signature import MinHashShape, hash_documents
from tamiz.measure.normal import scan_normal_words
from tamiz.run.engine import Report
from tamiz.run.layout import Group, bound_memory, make_layout
from tamiz.run.ledger import Done, record_done
from tamiz.run.measuring import make_bands
from tamiz.run.partition import read_dumps
from tamiz.run.sift import list_kept
from tamiz.schema import I64, KEPT, U8, U64, make_bands_schema, make_text, view_text
from tamiz.store import Folder
from tamiz.tally import merge_tallies

RULE = "dedup.lines"  # of documents that are nothing but such lines
N_TOP = 100
_EXAMPLE_CHARS = 200
_RANGE_BYTES = 8 << 30  # of text per range of hashes: some 200 million lines at most, 24 bytes each, mostly equal ones
COUNTS = pa.schema(
    [
        pa.field("hash", pa.uint64(), nullable=False),  # of the line's normalised words
        pa.field("scope", pa.int64(), nullable=False),  # number of the dump, -1 for documents without
        pa.field("documents", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class LineCountUnit:
    """Count the lines of one group, in `n_ranges` ranges of their hashes."""

    folder: str
    place: str
    group: Group
    n_ranges: int
    dumps: tuple[str, ...]

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"counts-{self.group.index:05d}"

    def __str__(self) -> str:
        return f"lines of {self.group.parts[0].name} to {self.group.parts[-1].name}"


@dataclass(frozen=True)
class FrequentUnit:
    """Add up the counts of range number `index` of `n_ranges`, and keep those of at least `min_copies` documents."""

    folder: str
    place: str
    index: int
    n_ranges: int
    counts: tuple[str, ...]
    min_copies: int

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return f"frequent-{self.index:04d}"

    def __str__(self) -> str:
        return f"lines, hash range {self.index + 1} of {self.n_ranges}"


@dataclass(frozen=True)
class DropUnit:
    """Rewrite one part without the `frequent` lines. `sifted`: its record; `top`: hashes whose text is wanted."""

    folder: str
    place: str
    sifted: Done
    frequent: tuple[str, ...]
    top: tuple[int, ...]
    dumps: tuple[str, ...]
    shape: MinHashShape | None

    @property
    def name(self) -> str:
        """The unit's name in the ledger."""
        return self.sifted.unit

    def __str__(self) -> str:
        return f"repeated lines of {self.sifted.unit}"


def remove_lines(
    folder: Folder,
    place: str,
    parts: Sequence[Done],
    min_copies: int,
    shape: MinHashShape | None,
    memory: int,
    run_units: Callable[..., list[Done]],
    report: Report,
) -> list[Done]:
    """The parts' new records. In memory of each worker: 16 bytes for every line that is removed somewhere."""
    root = folder.url
    layout = make_layout(list_kept(list(parts)), memory, are_texts_read=True)
    run_units = partial(run_units, memory_bytes=bound_memory(layout, memory, are_texts_read=True))
    dumps = tuple(sorted({dump for part in parts for dump in part.facts["dumps"]}))
    total = sum(part.tally["bytes/kept"] for part in parts)
    n_ranges = 1 << max(0, -(-total // _RANGE_BYTES) - 1).bit_length()
    work = f"{place}/work-{layout.tag}-{n_ranges}"
    counting = [LineCountUnit(root, work, group, n_ranges, dumps) for group in layout.groups]
    counts = tuple(done.outputs["counts"].path for done in run_units(work, count_group, counting, report))
    adding = [FrequentUnit(root, work, index, n_ranges, counts, min_copies) for index in range(n_ranges)]
    found = run_units(work, find_frequent, adding, report)
    frequent = tuple(done.outputs["frequent"].path for done in found)
    top = tuple(entry[1] for entry in list_top(found))
    units = [DropUnit(root, place, part, frequent, top, dumps, shape) for part in parts]
    return [*run_units(place, drop_part, units, report), *found]


def list_top(found: Sequence[Done]) -> list[list[int]]:
    """(documents, hash, scope) of the most frequent lines of all ranges."""
    return sorted((entry for done in found for entry in done.facts["top"]), reverse=True)[:N_TOP]


def collect_lines(parts: Sequence[Done], found: Sequence[Done]) -> dict[str, Any] | None:
    """For the report: lines and bytes removed, and the most frequent lines; None when the stage is off."""
    if not found:
        return None
    tally = merge_tallies(part.tally for part in parts)
    dumps = sorted({dump for part in parts for dump in part.facts["dumps"]})
    examples: dict[str, str] = {}
    for part in reversed(parts):
        examples |= part.facts["examples"]
    return {
        "frequent": sum(done.tally["lines/frequent"] for done in found),
        "removed": tally["lines/removed"],
        "bytes": tally["lines/bytes"],
        "emptied": tally[f"rules/{RULE}/first"],
        "top": [
            {"documents": n, "dump": dumps[scope] if scope >= 0 else None, "text": examples[str(number)]}
            for n, number, scope in list_top(found)
        ],
    }


def count_group(unit: LineCountUnit, report: Report) -> Done:
    """Work one unit: publish COUNTS by hash, row groups by range. In memory: the distinct lines of the group."""
    folder = Folder(unit.folder)
    counts = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))
    for part in unit.group.parts:
        dumps = read_dumps(folder, part, pa.array(unit.dumps, pa.string())).astype(np.int64)
        first = 0
        for kept in read_groups(folder, part.kept):
            lines, _, hashes, n_words = _hash_lines(kept.column("text").combine_chunks())
            more = count_lines(lines, hashes, n_words, dumps[first : first + len(kept)])
            counts = sum_counts(*(np.concatenate([a, b]) for a, b in zip(counts, more, strict=True)))
            first += len(kept)
            report(len(kept), pc.sum(kept.column("n_bytes")).as_py() or 0, 0)
    scope, hashes, documents = counts
    order = np.argsort(hashes, kind="stable")
    table = pa.Table.from_arrays([pa.array(c[order]) for c in (hashes, scope, documents)], schema=COUNTS)
    cuts = [0, *np.searchsorted(hashes[order], _list_bounds(unit.n_ranges)).tolist(), len(order)]
    with (
        folder.publish(f"{unit.place}/{unit.name}.parquet") as file,
        pq.ParquetWriter(file, COUNTS, compression="zstd", compression_level=1) as writer,
    ):
        for start, stop in pairwise(cuts):
            if stop > start:
                writer.write_table(table.slice(start, stop - start))
    done = Done(unit.name, {"counts": file.output}, {})
    record_done(folder, unit.place, done)
    return done


def _list_bounds(n_ranges: int) -> U64:
    """The first hash of every range but the first."""
    bounds: U64 = np.array([(k << 64) // n_ranges for k in range(1, n_ranges)], dtype=np.uint64)
    return bounds


def read_groups(folder: Folder, path: str) -> Iterator[pa.Table]:
    """The row groups of a file."""
    with folder.open(path) as file:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            yield parquet.read_row_group(group, use_threads=False)


def _hash_lines(text: pa.LargeStringArray) -> tuple[SplitLines, U8, U64, I64]:
    """The lines, the bytes they are in, and each line's hash and number of normalised words."""
    offsets, data = view_text(text)
    lines = split_lines(offsets, data)
    words = scan_normal_words(lines.offsets, data)
    return lines, data, hash_documents(words.doc_offsets, words.hashes), np.diff(words.doc_offsets)


def find_frequent(unit: FrequentUnit, report: Report) -> Done:
    """Work one unit: publish COUNTS of the frequent lines. Facts: `top`, (documents, hash, scope) of the first."""
    folder = Folder(unit.folder)
    low, past = (unit.index << 64) // unit.n_ranges, ((unit.index + 1) << 64) // unit.n_ranges
    found = [COUNTS.empty_table()]
    for path in unit.counts:
        with folder.open(path) as counts:
            parquet = pq.ParquetFile(counts)
            for group in range(parquet.num_row_groups):
                statistics = parquet.metadata.row_group(group).column(0).statistics
                if low <= statistics.min < past:  # a row group lies within one range
                    found.append(parquet.read_row_group(group, use_threads=False))
    table = pa.concat_tables(found)
    report(len(table), 0, 0)
    hashes, scope, documents = (table.column(name).to_numpy() for name in COUNTS.names)
    scope, hashes, documents = sum_counts(scope, hashes, documents)
    often = np.flatnonzero(documents >= unit.min_copies)
    columns = [pa.array(column[often]) for column in (hashes, scope, documents)]
    with folder.publish(f"{unit.place}/{unit.name}.parquet") as file:
        pq.write_table(pa.Table.from_arrays(columns, schema=COUNTS), file, compression="zstd")
    entries = zip(documents[often].tolist(), hashes[often].tolist(), scope[often].tolist(), strict=True)
    facts = {"top": sorted(([*entry] for entry in entries), reverse=True)[:N_TOP]}
    done = Done(unit.name, {"frequent": file.output}, {"lines/frequent": len(often)}, facts)
    record_done(folder, unit.place, done)
    return done


def drop_part(unit: DropUnit, report: Report) -> Done:
    """Work one unit: publish KEPT and bands of the part; its tally is the sift record's with what was removed.

    A document of which nothing is left becomes a rejected one, by the rule RULE. Facts: those of the sift record, and
    `examples`, hash -> text of the first line that has it, of the wanted ones.
    """
    folder = Folder(unit.folder)
    (part,) = list_kept([unit.sifted])
    frequent = [table for path in unit.frequent for table in read_groups(folder, path)]
    known = pa.concat_tables([COUNTS.empty_table(), *frequent]).select(["hash", "scope"])
    marks = np.sort(_mark(known.column("hash").to_numpy(), known.column("scope").to_numpy()))
    names = pa.array(unit.dumps, pa.string())
    scopes = read_dumps(folder, part, names).astype(np.int64)
    numbers = pa.array([*unit.dumps, None], pa.string())
    examples: dict[str, str] = {}
    tallies = [dict(unit.sifted.tally)]
    n_bands = unit.shape.bands if unit.shape else 0
    paths = {role: f"{unit.place}/{unit.name}.{role}.parquet" for role in ("kept", "bands")}
    with (
        folder.publish(paths["kept"]) as kept_file,
        folder.publish(paths["bands"]) as bands_file,
        pq.ParquetWriter(kept_file, KEPT, compression="zstd") as kept_writer,
        pq.ParquetWriter(bands_file, make_bands_schema(n_bands), compression="zstd") as bands_writer,
    ):
        first = 0
        for kept in read_groups(folder, part.kept):
            scope = scopes[first : first + len(kept)]
            first += len(kept)
            kept, scope, tally = _drop_batch(kept, scope, marks, unit.top, examples)
            tallies.append(tally)
            report(len(kept), tally["bytes/kept"], 0)
            if len(kept):
                kept_writer.write_table(kept)
                bands_writer.write_table(make_bands(unit.shape, kept, numbers.take(pa.array(scope % len(numbers)))))
    outputs = {"kept": kept_file.output, "bands": bands_file.output, "verdicts": unit.sifted.outputs["verdicts"]}
    done = Done(unit.name, outputs, merge_tallies(tallies), {**unit.sifted.facts, "examples": examples})
    record_done(folder, unit.place, done)
    return done


def _mark(hashes: U64, scope: I64) -> U64:
    """One number for a hash in a scope."""
    marks: U64 = hashes ^ ((scope + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return marks


def _drop_batch(
    kept: pa.Table, scope: I64, marks: U64, top: tuple[int, ...], examples: dict[str, str]
) -> tuple[pa.Table, I64, dict[str, int]]:
    """KEPT without the frequent lines and without the documents that were nothing else; what changed in the tally."""
    text = kept.column("text").combine_chunks()
    lines, data, hashes, n_words = _hash_lines(text)
    owner = np.repeat(np.arange(len(kept)), np.diff(lines.documents))
    dropped: npt.NDArray[np.bool_] = (n_words >= WORDS_MIN) & np.isin(_mark(hashes, scope[owner]), marks)
    for k in np.flatnonzero(dropped & np.isin(hashes, np.array(top, dtype=np.uint64))):
        line = data[lines.offsets[k] : lines.offsets[k + 1]].tobytes().decode().strip()
        examples.setdefault(str(int(hashes[k])), line[:_EXAMPLE_CHARS])
    rewritten = make_text(*drop_lines(lines, data, dropped))
    old, new = pc.binary_length(text).to_numpy(), pc.binary_length(rewritten).to_numpy()
    lost = np.zeros(len(kept), dtype=np.bool_)
    lost[owner[dropped]] = True
    emptied = lost & pc.fill_null(pc.equal(pc.utf8_trim_whitespace(rewritten), ""), True).to_numpy(zero_copy_only=False)
    columns = {"text": rewritten, "n_bytes": pc.binary_length(rewritten).cast(pa.int64())}
    for name, column in columns.items():
        place = KEPT.names.index(name)
        kept = kept.set_column(place, KEPT.field(place), column)
    n_emptied = int(emptied.sum())
    tally = {
        "documents/kept": -n_emptied,
        "documents/rejected": n_emptied,
        "bytes/rejected": int(old[emptied].sum()),
        "bytes/cleaned": int((old - new)[~emptied].sum()),
        "bytes/kept": int(new[~emptied].sum() - old.sum()),
        "lines/removed": int(dropped[~emptied[owner]].sum()),
        "lines/bytes": int((old - new)[~emptied].sum()),
        **{f"rules/{RULE}/{count}": n_emptied for count in ("failed", "alone", "first")},
    }
    return kept.filter(pa.array(~emptied)), scope[~emptied], tally
