"""The table of metrics: every number a rule can look at, its type, and the group that is measured together.

A metric keeps its name for as long as its unit does; when its meaning changes, its group's version goes up, and every
stage that read it runs again. Fractions are 0..1. null means that the metric could not be measured on this document.
"""

from __future__ import annotations

from collections.abc import Set

import pyarrow as pa

_F, _I, _S = pa.float64(), pa.int32(), pa.string()

GROUPS: dict[str, dict[str, pa.DataType]] = {
    # on the text as it came
    "language": {"language": _S, "language_score": _F},
    "repetition": {
        "n_chars": pa.int64(),
        "frac_dup_paragraphs": _F,
        "frac_dup_paragraph_chars": _F,
        "frac_dup_lines": _F,
        "frac_dup_line_chars": _F,
        **{f"frac_top_{n}gram_chars": _F for n in (2, 3, 4)},
        **{f"frac_dup_{n}gram_chars": _F for n in (5, 6, 7, 8, 9, 10)},
    },
    "surface": {
        "n_all_words": _I,
        "n_words": _I,
        "mean_word_chars": _F,
        "hashes_per_word": _F,
        "ellipses_per_word": _F,
        "frac_bullet_lines": _F,
        "frac_ellipsis_lines": _F,
        "frac_alpha_words": _F,
        "n_stop_words": _I,
    },
    "domain": {"domain_score": _F, "domain_terms": _I},
    # on the text after the line rules, where there are any
    "line_rules": {"n_lorem_ipsum_lines": _I, "n_curly_bracket_lines": _I, "n_sentences": _I},
    "lines": {
        "n_text_lines": _I,
        "frac_terminal_lines": _F,
        "frac_short_lines": _F,
        "frac_dup_text_line_chars": _F,
        "newlines_per_word": _F,
    },
}

VERSIONS: dict[str, int] = dict.fromkeys(GROUPS, 1)


def list_metrics(groups: Set[str]) -> dict[str, pa.DataType]:
    """Name -> Arrow type of the metrics in `groups`, in table order."""
    return {name: kind for group, metrics in GROUPS.items() if group in groups for name, kind in metrics.items()}


def find_group(metric: str) -> str:
    """The group that measures `metric`; KeyError for an unknown one."""
    for group, metrics in GROUPS.items():
        if metric in metrics:
            return group
    raise KeyError(metric)
