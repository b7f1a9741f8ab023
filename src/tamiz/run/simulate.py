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
from typing import NamedTuple

from tamiz.errors import ConfigError
from tamiz.run.bloom import choose_filters
from tamiz.run.layout import GROUP_DOCUMENTS, count_sorted, forecast_dedup
from tamiz.run.ledger import Done, read_done
from tamiz.run.plan import read_plan_record
from tamiz.run.sift import UNITS_MAX
from tamiz.sources.split import SPLIT_BYTES
from tamiz.store import Folder
from tamiz.tally import merge_tallies

STAGES = ("sift", "lines", "dedup", "tokens", "pack")
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
class DedupCost:
    """`between_bytes`: per kept document, published by the steps and gone with them. `memory`: bytes of a worker.
    `false_positives`: of Bloom filters, None for sorted keys."""

    n_columns: int
    false_positives: float | None
    memory: int
    between_bytes: float


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
    dedup: DedupCost
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


def measure_costs(folder: Folder, shard_tokens: int, memory: int) -> Costs:
    """From the done records of a finished run; `memory`: bytes of a worker of dedup in the run to predict.

    Raises ConfigError when it is not finished.
    """
    record = read_plan_record(folder) or {"places": {}}
    places = record["places"]
    done = {stage: read_done(folder, places[stage]) for stage in STAGES if stage in places}
    if not all(done.values()) or not done or not folder.exists("corpus/manifest.json"):
        raise ConfigError(f"--from: {folder.url} is not a finished run; its costs cannot be measured")
    sift = merge_tallies(unit.tally for unit in done["sift"].values())
    kept = merge_tallies(unit.tally for unit in done.get("lines", done["sift"]).values())
    tokens = merge_tallies(unit.tally for unit in done["tokens"].values())
    n_read, n_kept = sift["bytes/read"], kept["documents/kept"]
    n_tokens = tokens["tokens/train"] + tokens["tokens/validation"]
    facts = done["dedup"]["duplicates"].facts
    stages = {
        "sift": _fit((unit, unit.tally["bytes/read"]) for unit in done["sift"].values()),
        "dedup": _fit_dedup(done["dedup"], n_kept),
        "tokens": _fit(
            (unit, unit.tally["bytes/train"] + unit.tally["bytes/validation"]) for unit in done["tokens"].values()
        ),
        "pack": _fit((unit, unit.facts["tokens"]) for unit in done["pack"].values()),
    }
    if lines := done.get("lines"):
        stages["lines"] = _fit((unit, sift["bytes/kept"] / len(lines)) for unit in lines.values())
    return Costs(
        stages={stage: stages[stage] for stage in STAGES if stage in stages},
        documents=sift["documents/read"] / n_read,
        documents_kept=n_kept / n_read,
        bytes_kept=sift["bytes/kept"] / n_read,
        bytes_packed=stages["tokens"].measure / n_read,
        tokens=n_tokens / n_read,
        band_bytes=sum(unit.outputs["bands"].n_bytes for unit in done["sift"].values()) / n_read,
        dedup=DedupCost(
            facts["n_columns"], facts["false_positives"], memory, facts["steps"]["n_bytes"] / max(n_kept, 1)
        ),
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


def _fit_dedup(done: Mapping[str, Done], n_kept: int) -> StageCost:
    """As `_fit`, from the sum of its steps, which are taken to be alike, and what the driver did behind them."""
    published = [done[name] for name in ("duplicates", "copies")]
    steps = published[0].facts["steps"]
    n_steady = steps["units"] - steps["first_units"]
    if n_steady >= _STEADY_SHARE * steps["units"]:
        each = (steps["cpu_seconds"] - steps["first_cpu_seconds"]) / max(1, n_steady)
    else:
        each = steps["cpu_seconds"] / max(1, steps["units"])
    beyond = steps["first_cpu_seconds"] - each * steps["first_units"]
    seconds = each * steps["units"] + sum(unit.cpu_seconds for unit in published)
    n_out = sum(output.n_bytes for unit in published for output in unit.outputs.values())
    n = max(1, n_kept)
    return StageCost(seconds / n, max(0.0, beyond / max(1, steps["first_units"])), n_out / n, n_kept)


def count_cpu_seconds(records: Iterable[Done]) -> float:
    """Of these records and of the steps that went with their outputs."""
    return sum(unit.cpu_seconds + float(unit.facts.get("steps", {}).get("cpu_seconds", 0.0)) for unit in records)


def predict(costs: Costs, source: Input, machines: Machines) -> Prediction:
    """The run over `source` on `machines`."""
    read = source.text_bytes
    kept = costs.documents_kept * read
    measures = {
        "sift": read,
        "lines": costs.bytes_kept * read,
        "dedup": kept,
        "tokens": costs.bytes_packed * read,
        "pack": costs.tokens * read,
    }
    out = {stage: cost.out_bytes * measures[stage] for stage, cost in costs.stages.items()}
    n_units = min(UNITS_MAX, ceil(read / SPLIT_BYTES))
    n_shards = ceil(measures["pack"] / costs.shard_tokens)
    tasks = _count_tasks(costs.dedup, ceil(kept))
    units = {"sift": n_units, "lines": n_units, "dedup": tasks.n_units, "tokens": n_units, "pack": n_shards}
    bands, kept_files = costs.band_bytes * read, _count_kept_bytes(costs, read)
    moved = {
        "sift": source.download_bytes + out["sift"],
        "lines": 2 * kept_files + bands + out.get("lines", 0.0),
        "dedup": bands * tasks.n_passes + 2 * costs.dedup.between_bytes * kept + out["dedup"],
        "tokens": kept_files + out["tokens"],
        "pack": out["tokens"] + out["pack"],
    }
    n_cores = machines.nodes * machines.cores
    cpu, wall = {}, {}
    for stage in costs.stages:
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
        moved_bytes=sum(moved[stage] for stage in costs.stages),
        stored_bytes=stored,
        tokens=measures["pack"],
        documents=costs.documents * read,
        dedup_task_bytes=tasks.worker_bytes,
        dedup_tasks=tasks.n_units,
        objects=_count_objects(n_units, tasks.n_objects, n_shards, has_lines="lines" in costs.stages),
        price=hours * n_cores * machines.price_core_hour + stored / 1e9 * machines.price_gb,
    )


class _Tasks(NamedTuple):
    """Of dedup: units of all steps and the objects they make, times the band files are read, bytes of one worker."""

    n_units: int
    n_objects: int
    n_passes: int
    worker_bytes: int


def _count_tasks(dedup: DedupCost, n_kept: int) -> _Tasks:
    """As run.deduplication lays them out; without `verify`, whose comparisons go by groups too."""
    n_groups = ceil(n_kept / min(GROUP_DOCUMENTS, count_sorted(dedup.memory)))
    if dedup.false_positives is not None:
        _, count = choose_filters(n_kept, dedup.n_columns, dedup.false_positives, dedup.memory)
        n_units = dedup.n_columns * count + n_groups
        return _Tasks(n_units, 2 * n_units, count, dedup.memory)
    forecast = forecast_dedup(n_kept, dedup.n_columns, dedup.memory)
    n_bands = dedup.n_columns * forecast.n_ranges
    return _Tasks(n_bands + 3 * n_groups, 2 * n_bands + 7 * n_groups, 1, forecast.worker_bytes)


def _count_objects(n_units: int, n_between: int, n_shards: int, *, has_lines: bool) -> int:
    """The most at one time: the files between dedup's steps go when it ends, before there are tokens and shards."""
    n_sifted = n_units * (7 if has_lines else 4)
    return n_sifted + max(n_between, 3 * n_units + 2 * n_shards)


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
        + ", ".join(f"{stage} {rates[stage].cpu_seconds * _per_read(costs, stage) * 1e6:.4f}" for stage in rates)
        + " CPU-s per MB read",
        f"{machines.nodes} nodes of {machines.cores} cores, {machines.network:g} Gbit/s each",
        f"{'':24}" + "".join(f"{source.name:>28}" for source, _ in both),
    ]
    rows = {
        "text read": [f"{source.text_bytes / 1e12:,.1f} TB" for source, _ in both],
        "documents read": [f"{p.documents / 1e9:,.2f} G" for _, p in both],
        **{f"CPU hours, {stage}": [f"{p.cpu_seconds[stage] / 3600:,.0f}" for _, p in both] for stage in rates},
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
