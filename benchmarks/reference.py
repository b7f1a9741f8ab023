"""The reference decisions: where the data lies, what datatrove's reasons are called here, how to decide alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tamiz.config import Config
from tamiz.run.measuring import Sifted, SiftSettings, sift_batch
from tamiz.run.settings import make_sift_settings
from tamiz.sources import ParquetSource, list_splits, read_split

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

REASONS = {
    "empty": "n_chars_min",
    "dup_para_frac": "frac_dup_paragraphs_max",
    "dup_para_char_frac": "frac_dup_paragraph_chars_max",
    "dup_line_frac": "frac_dup_lines_max",
    "dup_line_char_frac": "frac_dup_line_chars_max",
    **{f"top_{n}_gram": f"frac_top_{n}gram_chars_max" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"frac_dup_{n}gram_chars_max" for n in range(5, 11)},
    "gopher_short_doc": "n_words_min",
    "gopher_long_doc": "n_words_max",
    "gopher_below_avg_threshold": "mean_word_chars_min",
    "gopher_above_avg_threshold": "mean_word_chars_max",
    "gopher_too_many_hashes": "hashes_per_word_max",
    "gopher_too_many_ellipsis": "ellipses_per_word_max",
    "gopher_too_many_bullets": "frac_bullet_lines_max",
    "gopher_too_many_end_ellipsis": "frac_ellipsis_lines_max",
    "gopher_below_alpha_threshold": "frac_alpha_words_min",
    "gopher_enough_stop_words": "n_stop_words_min",
    "lorem_ipsum": "n_lorem_ipsum_lines_max",
    "curly_bracket": "n_curly_bracket_lines_max",
    "too_few_sentences": "n_sentences_min",
    "line_punct_ratio": "frac_terminal_lines_min",
    "short_line_ratio": "frac_short_lines_max",
    "char_dup_ratio": "frac_dup_text_line_chars_max",
    "list_ratio": "newlines_per_word_max",
    "language": "language",
}
"""datatrove 0.10.1's reason -> the rule's key here."""

FINEWEB: dict[str, Any] = {
    "gopher_repetition": {},
    "gopher_quality": {},
    "c4": {"require_terminal_punctuation": False},
    "fineweb_quality": {},
}
ENGLISH = {"keep": ["en"], "min_score": 0.65, "recompute": True}


def make_settings(cache_dir: Path, **sections: Any) -> SiftSettings:
    """Sift settings of a config with these sections and no deduplication."""
    raw = {"name": "benchmark", "source": "a", "sources": {"a": {"kind": "sample"}}, "dedup": {"minhash": None}}
    return make_sift_settings(Config.model_validate({**raw, **sections}), cache_dir)


def read_batches(paths: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """All RAW batches of Parquet files, in order."""
    spec = ParquetSource("benchmark", paths)
    for split in list_splits(spec).splits:
        for chunk in read_split(split, spec):
            yield chunk.batch


def sift_all(settings: SiftSettings, batches: list[pa.RecordBatch]) -> Sifted:
    """Every batch sifted, the tables joined."""
    sifted = [sift_batch(settings, batch) for batch in batches]
    return Sifted(*(pa.concat_tables([getattr(s, role) for s in sifted]) for role in Sifted._fields[:3]), {})


def read_reference() -> pa.Table:
    """The decisions of datatrove 0.10.1, in file order."""
    return pq.read_table(DATA / "reference" / "fineweb_decisions.parquet")
