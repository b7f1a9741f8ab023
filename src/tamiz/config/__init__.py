"""The config as typed values: unknown keys, wrong types and impossible values are errors with the key in them."""

from tamiz.config.sources import Condition, FileSource, HubSource, SampleSource, WarcSource
from tamiz.config.stages import (
    Dedup,
    Domain,
    Extract,
    HubCache,
    KeepMetric,
    Language,
    Lines,
    MinHash,
    Pack,
    Quarantine,
    Run,
)
from tamiz.config.whole import Config, suggest

__all__ = [
    "Condition",
    "Config",
    "Dedup",
    "Domain",
    "Extract",
    "FileSource",
    "HubCache",
    "HubSource",
    "KeepMetric",
    "Language",
    "Lines",
    "MinHash",
    "Pack",
    "Quarantine",
    "Run",
    "SampleSource",
    "WarcSource",
    "suggest",
]
