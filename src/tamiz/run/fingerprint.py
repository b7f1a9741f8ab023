"""Fingerprints of exactly what a stage reads. What cannot be hashed the same way twice is an error, never a guess."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

Inputs = Mapping[str, Any]


def make_fingerprint(inputs: Inputs) -> str:
    """16 hexadecimal digits of the SHA-256 of the canonical JSON of `inputs`; TypeError on anything not plain."""
    return hashlib.sha256(dump_canonical(inputs).encode()).hexdigest()[:16]


def dump_canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces, the same on every machine."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_plain(value: Any) -> Any:
    """Mappings with string keys, sequences, dataclasses, strings, whole and finite numbers, booleans and None."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} has no fingerprint")
        return int(value) if value.is_integer() else value  # 3 and 3.0 are one bound
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"a mapping with keys other than strings has no fingerprint: {list(value)}")
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"a {type(value).__name__} has no fingerprint")


def find_changes(old: Any, new: Any, key: str = "") -> list[str]:
    """What differs between two plain values, one line each: `rules.c4.n_sentences_min: 5 -> 3`."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for name in sorted(old.keys() | new.keys()):
            lines += find_changes(old.get(name), new.get(name), f"{key}.{name}" if key else name)
        return lines
    return [] if old == new else [f"{key}: {_shorten(old)} -> {_shorten(new)}"]


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
