"""Texts to show: as read, from the source again; as kept, from the parts. A text that cannot be had says why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.config import Config
from tamiz.errors import TamizError
from tamiz.extract.text import extract_text
from tamiz.objects import is_url
from tamiz.run.ledger import Done
from tamiz.run.plan import read_plan_record
from tamiz.run.settings import make_source_specs
from tamiz.sources.reading import read_split
from tamiz.sources.split import Cursor, HubSource, Source, Split
from tamiz.store import Folder

_NEAR = 4096  # positions that may be read over before a split is opened again


@dataclass(frozen=True)
class Origin:
    """Where a document was read: source, path in it, position in the path's file."""

    source: str
    path: str
    position: int


def parse_origin(source: str, origin: str) -> Origin:
    """From the verdict's `source` and `origin` (path#position)."""
    path, _, position = origin.rpartition("#")
    return Origin(source, path, int(position))


@dataclass(frozen=True)
class Library:
    """The splits of a run by source and path, to read single records again."""

    specs: dict[str, Source]
    splits: dict[tuple[str, str], list[Split]]

    def is_local(self, source: str) -> bool:
        """True when reading it again costs no network."""
        spec = self.specs.get(source)
        return not isinstance(spec, HubSource) and not (spec and any(map(is_url, spec.paths)))

    def find_split(self, origin: Origin) -> Split | None:
        """The split that holds the record."""
        splits = self.splits.get((origin.source, origin.path), [])
        before = [split for split in splits if split.first_position <= origin.position]
        return max(before, key=lambda split: split.first_position) if before else None


def open_library(folder: Folder, config: Config) -> Library:
    """From plan.json and the run's config, without listing anything."""
    record = read_plan_record(folder) or {"sources": []}
    specs = {spec.name: spec for spec in make_source_specs(config)}
    splits = defaultdict(list)
    for source in record["sources"]:
        for raw in source["splits"]:
            split = Split.from_json(raw)
            splits[split.source, split.path].append(split)
    return Library(specs, dict(splits))


def read_texts(library: Library, origins: Iterable[Origin], *, only_local: bool = False) -> dict[Origin, str]:
    """The texts as read; instead of one that cannot be read, the reason in angle brackets."""
    texts: dict[Origin, str] = {}
    wanted: dict[Split, list[Origin]] = defaultdict(list)
    for origin in set(origins):
        split = library.find_split(origin)
        if split is None:
            texts[origin] = "⟨its file is not in the plan⟩"
        elif only_local and not library.is_local(origin.source):
            texts[origin] = "⟨not fetched over the network for the report; `tamiz explain` fetches it⟩"
        else:
            wanted[split].append(origin)
    for split, here in wanted.items():
        here.sort(key=lambda origin: origin.position)
        while here:
            try:
                here = _read_run(library, split, here, texts)
            except TamizError as error:
                texts |= {origin: f"⟨cannot be read again: {error}⟩" for origin in here if origin not in texts}
                here = []
    return texts


def _read_run(library: Library, split: Split, wanted: list[Origin], texts: dict[Origin, str]) -> list[Origin]:
    """Read from the first wanted record on while the next one is near; the origins still wanted."""
    by_name = {f"{origin.path}#{origin.position}": origin for origin in wanted}
    for chunk in read_split(split, library.specs[split.source], Cursor(wanted[0].position, 0)):
        rows = pc.is_in(chunk.batch.column("origin"), value_set=pa.array(by_name, type=pa.string()))
        batch = extract_text(chunk.batch.filter(rows))
        for name, text, reason in zip(
            *(batch.column(c).to_pylist() for c in ("origin", "text", "quarantine")), strict=True
        ):
            texts[by_name[name]] = text if text is not None else f"⟨no text: {reason}⟩"
        left = [origin for origin in wanted if origin.position >= chunk.cursor.position]
        if not left or left[0].position > chunk.cursor.position + _NEAR:
            break
    else:
        left = []
    passed = set(wanted) - set(left)
    texts |= {origin: "⟨not found where it was read⟩" for origin in passed if origin not in texts}
    return left


def read_kept(folder: Folder, parts: Sequence[Done], doc_ids: Iterable[bytes]) -> dict[bytes, tuple[str, str]]:
    """(origin, text as kept) of those documents that were kept; scans the doc_id column of all parts."""
    wanted = pa.array(sorted({i for i in doc_ids if i is not None}), type=pa.binary(16))  # Bloom filters name no winner
    found: dict[bytes, tuple[str, str]] = {}
    for part in parts:
        with folder.open(part.outputs["kept"].path) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups if len(wanted) else 0):
                mask = pc.is_in(
                    parquet.read_row_group(group, columns=["doc_id"], use_threads=False).column(0), value_set=wanted
                )
                if pc.any(mask).as_py():
                    table = parquet.read_row_group(
                        group, columns=["doc_id", "origin", "text"], use_threads=False
                    ).filter(mask)
                    rows = zip(*(table.column(i).to_pylist() for i in range(3)), strict=True)
                    found |= {doc_id: (origin, text) for doc_id, origin, text in rows}
    return found


def read_library(library: Library) -> Iterator[pa.RecordBatch]:
    """TEXT batches of all readable documents of the local sources, in order."""
    for (source, _), splits in library.splits.items():
        if library.is_local(source) and source in library.specs:
            for split in splits:
                for chunk in read_split(split, library.specs[source]):
                    batch = extract_text(chunk.batch)
                    yield batch.filter(batch.column("quarantine").is_null())
