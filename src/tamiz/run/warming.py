"""Compile the kernels once, in the driver, before workers start: they find the machine code in numba's cache."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tamiz.run.measuring import SiftSettings, sift_batch
from tamiz.schema import RAW

_WORDS = "A first sentence, with some words in it [1]. Is there a second? 3,000.50 times: ask a@b.example or 8.8.8.8!\n"


def warm_kernels(settings: SiftSettings) -> None:
    """Sift one made-up document with these settings, but no rules: what is rejected does not reach all kernels."""
    made_up = {"doc_id": bytes(16), "source": "made up", "origin": "made up#0", "text": _WORDS * 9}
    row = dict.fromkeys(RAW.names) | made_up
    sift_batch(replace(settings, rules=()), pa.RecordBatch.from_pylist([row], schema=RAW))
