"""How far a run is, stage by stage, and why a stage would run again."""

from __future__ import annotations

from tamiz.run.fingerprint import find_changes, make_fingerprint, to_plain
from tamiz.run.ledger import read_done
from tamiz.run.plan import Plan, read_plan_record
from tamiz.run.sift import plan_units
from tamiz.store import Folder


def describe_status(folder: Folder, plan: Plan) -> str:
    """One line per stage; below it, what differs from the fingerprint the directory was planned with."""
    lines = [f"{plan.name} in {folder.url}"]
    record = read_plan_record(folder) or {"inputs": {}}
    splits = [(source.spec, split) for source in plan.sources for split in source.splits]
    left, parts = plan_units(folder.url, plan.place("sift"), plan.sift, splits, read_done(folder, plan.place("sift")))
    documents = sum(done.tally["documents/read"] for done in parts)
    n_left = sum(len(unit.splits) for unit in left)
    lines.append(f"sift    {len(splits) - n_left} of {len(splits)} splits done, {documents:,} documents read")
    for stage in ("dedup", "tokens", "pack"):
        lines.append(f"{stage:7} {len(read_done(folder, plan.place(stage)))} units done")
    for stage, inputs in plan.inputs.items():
        old = record["inputs"].get(stage)
        if old is not None and make_fingerprint(old) != make_fingerprint(inputs):
            lines.append(f"{stage} would run again:")
            lines += [f"  {change}" for change in find_changes(old, to_plain(inputs))]
    finished = folder.exists("corpus/manifest.json")
    lines.append("the corpus is finished" if finished else "the corpus is not finished; the build command goes on")
    return "\n".join(lines)
