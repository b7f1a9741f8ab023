"""What a much larger run would take, from the measured costs of a small finished one.

Each done record has the CPU seconds of its unit, what it worked on and the bytes it published. CPU time is taken to
grow in proportion to a stage's own measure (text read, documents kept, text kept, tokens), and everything that loads
once per worker is counted once per core. What filters and dedup let through is taken to stay as it was: a small run
has fewer duplicates than a large one, so its prediction of what is left is an upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from tamiz.errors import ConfigError
from tamiz.run.dedup import BAND_BYTES, RANGE_DOCUMENTS
from tamiz.run.engine import LIBRARY_BYTES
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.sift import UNITS_MAX
from tamiz.sources.split import SPLIT_BYTES
from tamiz.store import Folder
from tamiz.tally import merge_tallies

STAGES = ("sift", "dedup", "tokens", "pack")
TEXT_BYTES_PER_TOKEN = 4.7  # FineWeb's counts are GPT-2 tokens of English web text
_STEADY_SHARE = 0.2
_KEYS = {"nodes": 1.0, "cores": 16.0, "network": 10.0, "price_core_hour": 0.0, "price_gb": 0.0}


@dataclass(frozen=True)
class Machines:
    """`network`: Gbit/s of a node to the store. Prices: of a core for an hour, of a GB in the store for a month."""

    nodes: int
    cores: int
    network: float
    price_core_hour: float
    price_gb: float


@dataclass(frozen=True)
class Input:
    """A source: UTF-8 bytes of its text, and bytes of its files as they are downloaded."""

    name: str
    text_bytes: float
    download_bytes: float


# Sizes as their dataset cards give them; the files of FineWeb-Edu are taken to be as dense as FineWeb's.
FINEWEB_EDU = Input("FineWeb-Edu, 1.3T tokens", 1.3e12 * TEXT_BYTES_PER_TOKEN, 44e12 * 1.3 / 15)
FINEWEB = Input("FineWeb, 15T tokens", 15e12 * TEXT_BYTES_PER_TOKEN, 44e12)


@dataclass(frozen=True)
class StageCost:
    """CPU seconds per unit of the stage's measure, and per worker that starts; published bytes per unit of measure."""

    cpu_seconds: float
    startup_seconds: float
    out_bytes: float
    measure: float


@dataclass(frozen=True)
class Costs:
    """What a finished run took. Ratios are per byte of text read."""

    stages: Mapping[str, StageCost]
    documents: float
    documents_kept: float
    bytes_kept: float
    bytes_packed: float
    tokens: float
    band_bytes: float
    n_columns: int
    shard_tokens: int


@dataclass(frozen=True)
class Prediction:
    """Of one run: CPU and wall time in seconds, by stage; everything else in bytes or counts."""

    cpu_seconds: Mapping[str, float]
    wall_seconds: Mapping[str, float]
    moved_bytes: float
    stored_bytes: float
    tokens: float
    documents: float
    dedup_task_bytes: float
    dedup_tasks: int
    objects: int
    price: float


def parse_machines(text: str) -> Machines:
    """`nodes=32,cores=16,network=10Gbit[,price_core_hour=0.04,price_gb=0.02]`. Raises ConfigError."""
    values = dict(_KEYS)
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        match = re.fullmatch(r"(\d+(\.\d+)?)( ?Gbit(/s)?)?", value)
        if key not in _KEYS or not equals or not match or (match[3] and key != "network"):
            raise ConfigError(f"--simulate: {pair!r}; write {','.join(_KEYS)} as key=number, e.g. network=10Gbit")
        values[key] = float(match[1])
    if min(values["nodes"], values["cores"], values["network"]) < 1:
        raise ConfigError("--simulate: nodes, cores and network are at least 1")
    price_core_hour, price_gb = values["price_core_hour"], values["price_gb"]
    return Machines(int(values["nodes"]), int(values["cores"]), values["network"], price_core_hour, price_gb)


def measure_costs(folder: Folder, shard_tokens: int) -> Costs:
    """From the done records of a finished run. Raises ConfigError when it is not finished."""
    record = read_plan_record(folder)
    done = {stage: read_done(folder, record["places"][stage]) for stage in STAGES} if record else {}
    if not all(done.values()) or not done or not folder.exists("corpus/manifest.json"):
        raise ConfigError(f"--from: {folder.url} is not a finished run; its costs cannot be measured")
    sift = merge_tallies(unit.tally for unit in done["sift"].values())
    tokens = merge_tallies(unit.tally for unit in done["tokens"].values())
    n_read, n_kept = sift["bytes/read"], sift["documents/kept"]
    n_tokens = tokens["tokens/train"] + tokens["tokens/validation"]
    bands = [unit for name, unit in done["dedup"].items() if name != "duplicates"]
    stages = {
        "sift": _fit((unit, unit.tally["bytes/read"]) for unit in done["sift"].values()),
        "dedup": _fit((unit, n_kept / len(done["dedup"])) for unit in done["dedup"].values()),
        "tokens": _fit(
            (unit, unit.tally["bytes/train"] + unit.tally["bytes/validation"]) for unit in done["tokens"].values()
        ),
        "pack": _fit((unit, unit.facts["tokens"]) for unit in done["pack"].values()),
    }
    return Costs(
        stages=stages,
        documents=sift["documents/read"] / n_read,
        documents_kept=n_kept / n_read,
        bytes_kept=sift["bytes/kept"] / n_read,
        bytes_packed=stages["tokens"].measure / n_read,
        tokens=n_tokens / n_read,
        band_bytes=sum(unit.outputs["bands"].n_bytes for unit in done["sift"].values()) / n_read,
        n_columns=len({unit.unit.rpartition("-")[0] for unit in bands}),
        shard_tokens=shard_tokens,
    )


def _fit(units: Iterable[tuple[Done, float]]) -> StageCost:
    """Seconds per unit of measure from the units that started nothing, and what the others took beyond that.

    When those are too few to tell (a short last shard), starting counts as work: the prediction is too high.
    """
    units = list(units)
    steady = [(unit, measure) for unit, measure in units if not unit.is_first]
    first = [(unit, measure) for unit, measure in units if unit.is_first]
    total = sum(measure for _, measure in units)
    basis = steady if sum(measure for _, measure in steady) >= _STEADY_SHARE * total else units
    rate = sum(unit.cpu_seconds for unit, _ in basis) / max(1e-9, sum(measure for _, measure in basis))
    beyond = sum(unit.cpu_seconds - rate * measure for unit, measure in first)
    n_out = sum(output.n_bytes for unit, _ in units for output in unit.outputs.values())
    return StageCost(rate, max(0.0, beyond / max(1, len(first))), n_out / max(total, 1e-9), total)


def predict(costs: Costs, source: Input, machines: Machines) -> Prediction:
    """The run over `source` on `machines`."""
    read = source.text_bytes
    kept = costs.documents_kept * read
    measures = {"sift": read, "dedup": kept, "tokens": costs.bytes_packed * read, "pack": costs.tokens * read}
    out = {stage: costs.stages[stage].out_bytes * measures[stage] for stage in STAGES}
    n_units = min(UNITS_MAX, ceil(read / SPLIT_BYTES))
    n_ranges = 1 << max(0, ceil(kept / RANGE_DOCUMENTS) - 1).bit_length()
    n_shards = ceil(measures["pack"] / costs.shard_tokens)
    units = {"sift": n_units, "dedup": costs.n_columns * n_ranges, "tokens": n_units, "pack": n_shards}
    bands, kept_files = costs.band_bytes * read, _count_kept_bytes(costs, read)
    moved = {
        "sift": source.download_bytes + out["sift"],
        "dedup": bands + out["dedup"],
        "tokens": kept_files + out["tokens"],
        "pack": out["tokens"] + out["pack"],
    }
    n_cores = machines.nodes * machines.cores
    cpu, wall = {}, {}
    for stage in STAGES:
        cost = costs.stages[stage]
        n_workers = min(n_cores, units[stage])
        cpu[stage] = cost.cpu_seconds * measures[stage] + cost.startup_seconds * n_workers
        rounds = ceil(units[stage] / n_cores)  # the last round leaves cores idle
        busy = cpu[stage] / units[stage] * rounds
        wall[stage] = max(busy, moved[stage] * 8 / (machines.nodes * machines.network * 1e9))
    stored = sum(out.values())
    hours = sum(wall.values()) / 3600
    return Prediction(
        cpu_seconds=cpu,
        wall_seconds=wall,
        moved_bytes=sum(moved.values()),
        stored_bytes=stored,
        tokens=measures["pack"],
        documents=costs.documents * read,
        dedup_task_bytes=LIBRARY_BYTES + BAND_BYTES * min(kept, RANGE_DOCUMENTS),
        dedup_tasks=units["dedup"],
        objects=7 * n_units + 2 * units["dedup"] + 2 * n_shards,
        price=hours * n_cores * machines.price_core_hour + stored / 1e9 * machines.price_gb,
    )


def _count_kept_bytes(costs: Costs, read: float) -> float:
    """Bytes of the KEPT files that the tokens stage reads: most of what sift publishes, and not its bands."""
    return max(0.0, costs.stages["sift"].out_bytes - costs.band_bytes) * read


def describe_predictions(costs: Costs, machines: Machines) -> str:
    """A table of FineWeb-Edu and FineWeb on these machines."""
    both = [(source, predict(costs, source, machines)) for source in (FINEWEB_EDU, FINEWEB)]
    rates = costs.stages
    n_read = rates["sift"].measure
    lines = [
        f"measured over {n_read / 1e6:,.1f} MB of text: "
        + ", ".join(f"{stage} {rates[stage].cpu_seconds * _per_read(costs, stage) * 1e6:.4f}" for stage in STAGES)
        + " CPU-s per MB read",
        f"{machines.nodes} nodes of {machines.cores} cores, {machines.network:g} Gbit/s each",
        f"{'':24}" + "".join(f"{source.name:>28}" for source, _ in both),
    ]
    rows = {
        "text read": [f"{source.text_bytes / 1e12:,.1f} TB" for source, _ in both],
        "documents read": [f"{p.documents / 1e9:,.2f} G" for _, p in both],
        **{f"CPU hours, {stage}": [f"{p.cpu_seconds[stage] / 3600:,.0f}" for _, p in both] for stage in STAGES},
        "CPU hours": [f"{sum(p.cpu_seconds.values()) / 3600:,.0f}" for _, p in both],
        "wall time": [f"{sum(p.wall_seconds.values()) / 3600:,.1f} h" for _, p in both],
        "moved": [f"{p.moved_bytes / 1e12:,.1f} TB" for _, p in both],
        "stored": [f"{p.stored_bytes / 1e12:,.1f} TB" for _, p in both],
        "tokens packed": [f"{p.tokens / 1e12:,.3f} T" for _, p in both],
        "dedup tasks": [f"{p.dedup_tasks:,} of {p.dedup_task_bytes / 1e9:.1f} GB" for _, p in both],
        "objects": [f"{p.objects:,}" for _, p in both],
    }
    if machines.price_core_hour or machines.price_gb:
        rows["price"] = [f"${p.price:,.0f}" for _, p in both]
    lines += [f"{name:24}" + "".join(f"{value:>28}" for value in values) for name, values in rows.items()]
    return "\n".join(lines)


def _per_read(costs: Costs, stage: str) -> float:
    """The stage's measure per byte of text read."""
    return costs.stages[stage].measure / costs.stages["sift"].measure
