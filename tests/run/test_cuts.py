"""Other cuts of the same source are other parts: they must not share a place."""

from __future__ import annotations

from dataclasses import replace

from tamiz.run.plan import fingerprint_cuts
from tamiz.sources import Split

WHOLE = Split("mine", "parquet", "a.parquet", "/data/a.parquet", 0, 4, 0, 400, 1000)


def test_cuts_tell_apart_where_splits_begin_and_end() -> None:
    halves = (replace(WHOLE, stop=2, n_rows=200), replace(WHOLE, start=2, first_position=200, n_rows=200))
    cuts = {fingerprint_cuts(splits) for splits in [(WHOLE,), halves, halves[:1], (replace(WHOLE, limit=10),)]}
    assert len(cuts) == 4


def test_cuts_are_the_same_wherever_the_file_lies() -> None:
    assert fingerprint_cuts((WHOLE,)) == fingerprint_cuts((replace(WHOLE, address="/other/a.parquet"),))
