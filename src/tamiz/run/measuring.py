"""One batch of TEXT through measure, clean, decide and the signature: all of sift but reading and writing."""

from __future__ import annotations

import atexit
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamiz.clean.line_rules import LineRules, Rewritten, rewrite_lines
from tamiz.clean.redact import redact
from tamiz.decide.rules import Rule, count_failures, find_failures, list_failures
from tamiz.dedup.signature import MinHashShape, hash_documents, make_band_keys
from tamiz.extract.guard import Guard
from tamiz.extract.text import extract_text
from tamiz.measure.domain import Matcher, build_matcher, read_lexicon, score_domain
from tamiz.measure.fasttext_model import LanguageModel, read_model
from tamiz.measure.kept_lines import count_kept_lines
from tamiz.measure.language import WordMemo, identify_languages, make_memo
from tamiz.measure.lines import measure_lines
from tamiz.measure.normal import scan_normal_words
from tamiz.measure.repetition import measure_repetition
from tamiz.measure.surface import measure_surface
from tamiz.measure.table import list_metrics
from tamiz.measure.words import Words, count_sentences, scan_words
from tamiz.schema import I32, I64, KEPT, U8, check_batch, make_bands_schema, make_text, make_verdict_schema, view_text


@dataclass(frozen=True)
class SiftSettings:
    """What sift needs of the config, as plain values.

    `engine`: what extracts the text of pages, None when no source has any. `groups`: the metric groups to measure
    (measure/table.py). `language_model`: path of the .ftz; `recompute_language`: do not use the source's own labels.
    `lexicon`: (name, text). `line_rules`, `shape`: None when off.
    """

    engine: str | None
    groups: frozenset[str]
    rules: tuple[Rule, ...]
    language_model: str | None
    recompute_language: bool
    line_rules: LineRules | None
    lexicon: tuple[str, str] | None
    redact: tuple[str, ...]
    shape: MinHashShape | None


class Sifted(NamedTuple):
    """What one batch becomes: KEPT and band rows of kept documents, VERDICT rows of all, counters."""

    kept: pa.Table
    bands: pa.Table
    verdicts: pa.Table
    tally: dict[str, int]


class _Language(NamedTuple):
    model: LanguageModel
    memo: WordMemo
    labels: pa.Array


@cache
def _load_language(path: str) -> _Language:
    with open(path, "rb") as file:
        model = read_model(file.read())
    return _Language(model, make_memo(model), pa.array(model.labels, type=pa.string()))


@cache
def _open_guard() -> Guard:
    """One per process; its child starts with the first page."""
    guard = Guard()
    atexit.register(guard.close)
    return guard


@cache
def _load_matcher(name: str, text: str) -> Matcher:
    return build_matcher(read_lexicon(text, name))


def sift_batch(settings: SiftSettings, raw: pa.RecordBatch) -> Sifted:
    """RAW -> KEPT, bands, VERDICT. A pure function of each document: batch boundaries change nothing."""
    batch = extract_text(raw, settings.engine, _open_guard() if settings.engine else None)
    is_readable = batch.column("quarantine").is_null()
    readable = batch.filter(is_readable)
    text = readable.column("text")
    metrics, cleaned = measure_documents(settings, readable, text)
    failures = find_failures(metrics, settings.rules) if settings.rules else np.zeros((len(text), 0), dtype=np.bool_)
    is_kept = np.asarray(~failures.any(axis=1))
    documents = readable.filter(pa.array(is_kept))
    kept, redactions = _make_kept(settings, documents, cleaned.filter(pa.array(is_kept)))
    raw_bytes = pc.binary_length(text).to_numpy()
    tally = {
        "documents/read": len(batch),
        "documents/quarantined": len(batch) - len(readable),
        "documents/rejected": int((~is_kept).sum()),
        "documents/kept": len(kept),
        "bytes/read": int(raw_bytes.sum()),
        "bytes/rejected": int(raw_bytes[~is_kept].sum()),
        "bytes/kept": pc.sum(kept.column("n_bytes")).as_py() or 0,
        **redactions,
        **count_failures(failures, settings.rules),
        **_count_quarantined(batch),
    }
    tally["bytes/cleaned"] = tally["bytes/read"] - tally["bytes/rejected"] - tally["bytes/kept"]
    verdicts = _make_verdicts(settings, batch, metrics, list_failures(failures, settings.rules), is_kept)
    return Sifted(kept, make_bands(settings.shape, kept, documents.column("dump")), verdicts, tally)


def measure_documents(
    settings: SiftSettings, readable: pa.RecordBatch, text: pa.LargeStringArray
) -> tuple[dict[str, pa.Array], pa.LargeStringArray]:
    """The metric columns of the readable documents, in table order, and their text after the line rules."""
    offsets, data = view_text(text)
    words = scan_words(offsets, data)
    found: dict[str, pa.Array | npt.NDArray[np.generic]] = {}
    surface = measure_surface(offsets, data, words)
    found |= surface._asdict()
    if "language" in settings.groups:
        found |= _measure_language(settings, readable, offsets, data)
    if "repetition" in settings.groups:
        found |= measure_repetition(offsets, data, words)
    if "domain" in settings.groups and settings.lexicon:
        matcher = _load_matcher(*settings.lexicon)
        domain = score_domain(matcher, offsets, data, surface.n_words)
        found |= {"domain_score": domain.score, "domain_terms": domain.terms}
    cleaned, n_words = text, surface.n_all_words
    if settings.line_rules:
        rewritten = rewrite_lines(offsets, data, settings.line_rules)
        cleaned = make_text(rewritten.offsets, rewritten.data)
        n_words, n_sentences = _count_rewritten(rewritten, cleaned, data, words)
        found |= {
            "n_lorem_ipsum_lines": rewritten.n_lorem_ipsum_lines,
            "n_curly_bracket_lines": rewritten.n_curly_bracket_lines,
            "n_sentences": n_sentences,
        }
    if "lines" in settings.groups:
        found |= measure_lines(*view_text(cleaned), n_words)._asdict()
    return {name: _make_column(found[name], kind) for name, kind in list_metrics(settings.groups).items()}, cleaned


def _count_rewritten(rewritten: Rewritten, cleaned: pa.LargeStringArray, data: U8, words: Words) -> tuple[I32, I32]:
    """Words and sentences of the rewritten texts, int32[n] each; scans only those with a citation taken out."""
    lines = (rewritten.line_offsets, rewritten.line_starts, rewritten.line_stops)
    n_words, n_sentences = count_kept_lines(data, words, *lines)
    cut = np.flatnonzero(rewritten.is_cut)
    if len(cut):
        offsets, cut_data = view_text(cleaned.take(pa.array(cut)))
        cut_words = scan_words(offsets, cut_data)
        n_words[cut] = np.diff(cut_words.doc_offsets)
        n_sentences[cut] = count_sentences(offsets, cut_data, cut_words)
    return n_words, n_sentences


def _make_column(values: pa.Array | npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """NaN, "not measurable", becomes null."""
    if isinstance(values, np.ndarray):
        return pa.array(values, type=kind, from_pandas=True)
    return values.cast(kind)


def _measure_language(settings: SiftSettings, readable: pa.RecordBatch, offsets: I64, data: U8) -> dict[str, pa.Array]:
    """The source's own label and score where it has both, ours elsewhere."""
    own, own_score = readable.column("language"), readable.column("language_score")
    has_own = pc.and_(own.is_valid(), own_score.is_valid())
    if settings.language_model is None or (not settings.recompute_language and pc.all(has_own).as_py()):
        return {"language": own, "language_score": own_score}
    tools = _load_language(settings.language_model)
    index, score = identify_languages(tools.model, offsets, data, tools.memo)
    label = tools.labels.take(pa.array(index, mask=index < 0))
    ours = pa.array(score, from_pandas=True)
    if settings.recompute_language:
        return {"language": label, "language_score": ours}
    return {"language": pc.if_else(has_own, own, label), "language_score": pc.if_else(has_own, own_score, ours)}


def _make_kept(
    settings: SiftSettings, documents: pa.RecordBatch, cleaned: pa.LargeStringArray
) -> tuple[pa.Table, dict[str, int]]:
    counts = {}
    text = cleaned
    if settings.redact:
        redacted = redact(cleaned, settings.redact)
        text = redacted.text
        counts = {"redacted/email": int(redacted.n_emails.sum()), "redacted/ip": int(redacted.n_ips.sum())}
    columns = {name: documents.column(name) for name in ("doc_id", "source", "origin", "url")}
    columns |= {"text": text, "n_bytes": pc.binary_length(text).cast(pa.int64())}
    kept = pa.Table.from_arrays([columns[field.name] for field in KEPT], schema=KEPT)
    check_batch(kept, KEPT, "sift -> dedup")
    return kept, counts


def make_bands(shape: MinHashShape | None, kept: pa.Table, dump: pa.StringArray) -> pa.Table:
    """Exact hash and band keys of the text as kept, so that both can be checked from KEPT alone."""
    text = kept.column("text").combine_chunks() if len(kept) else pa.array([], pa.large_string())
    offsets, data = view_text(text)
    words = scan_normal_words(offsets, data)
    exact = hash_documents(words.doc_offsets, words.hashes)
    for d in np.flatnonzero(np.diff(words.doc_offsets) == 0):  # nothing but punctuation: two of them may differ
        digest = hashlib.blake2b(data[offsets[d] : offsets[d + 1]].tobytes(), digest_size=8).digest()
        exact[d] = np.frombuffer(digest, dtype=np.uint64)[0]
    columns = [kept.column("doc_id"), dump, pa.array(exact)]
    n_bands = 0
    if shape:
        n_bands = shape.bands
        keys, n_shingles = make_band_keys(words.doc_offsets, words.hashes, shape)
        columns += [pa.array(np.ascontiguousarray(keys[:, i]), mask=n_shingles == 0) for i in range(n_bands)]
    return pa.Table.from_arrays(columns, schema=make_bands_schema(n_bands))


def _make_verdicts(
    settings: SiftSettings,
    batch: pa.RecordBatch,
    metrics: Mapping[str, pa.Array],
    failed: pa.ListArray,
    is_kept: npt.NDArray[np.bool_],
) -> pa.Table:
    """One row per document read: the readable ones' columns spread back to their places, null between."""
    is_readable = batch.column("quarantine").is_null().to_numpy(zero_copy_only=False)
    place = pa.array(np.cumsum(is_readable) - 1, mask=~is_readable)
    outcome = pa.array(np.where(is_kept, "kept", "rejected"), type=pa.string()).take(place)
    no_rules = pa.array([[]] * len(batch), type=pa.list_(pa.string()))
    columns: dict[str, pa.Array] = {name: batch.column(name) for name in ("doc_id", "source", "origin", "url")}
    columns["n_bytes"] = pc.fill_null(pc.binary_length(batch.column("text")), 0).cast(pa.int64())
    columns |= {name: column.take(place) for name, column in metrics.items()}
    columns["failed"] = pc.if_else(batch.column("quarantine").is_null(), failed.take(place), no_rules)
    columns["outcome"] = outcome.fill_null("quarantined")
    columns["quarantine"] = batch.column("quarantine")
    schema = make_verdict_schema({name: column.type for name, column in metrics.items()})
    verdicts = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    check_batch(verdicts, schema, "decide -> verdicts")
    return verdicts


def _count_quarantined(batch: pa.RecordBatch) -> dict[str, int]:
    reasons = batch.column("quarantine").drop_null().value_counts()
    return {f"quarantine/{entry['values'].as_py()}": entry["counts"].as_py() for entry in reasons}
