"""The published recipes as data: every rule with its bound, its paper, and the code the number was read from.

Bounds as in datatrove 0.10.1, whose `examples/fineweb.py` is FineWeb's recipe (Penedo et al. 2024, arXiv:2406.17557).
datatrove drops a document when a metric is strictly beyond its bound, and so does every rule here: equality keeps.

- `gopher_repetition`, `gopher_quality`: Rae et al. 2021 (arXiv:2112.11446), appendix A1.1; read from datatrove's
  GopherRepetitionFilter and GopherQualityFilter. Both read the text as it came.
- `c4`: Raffel et al. 2020 (arXiv:1910.10683), section 2.2; read from datatrove's C4QualityFilter. It rewrites the text
  line by line (`LINE_RULES`), then decides on the whole document.
- `fineweb_quality`: FineWeb, section 3.6; read from datatrove's FineWebQualityFilter. It reads the rewritten text.
"""

from __future__ import annotations

RECIPES: dict[str, dict[str, float]] = {
    "gopher_repetition": {
        "n_chars_min": 1,
        "frac_dup_paragraphs_max": 0.30,
        "frac_dup_paragraph_chars_max": 0.20,
        "frac_dup_lines_max": 0.30,
        "frac_dup_line_chars_max": 0.20,
        "frac_top_2gram_chars_max": 0.20,
        "frac_top_3gram_chars_max": 0.18,
        "frac_top_4gram_chars_max": 0.16,
        "frac_dup_5gram_chars_max": 0.15,
        "frac_dup_6gram_chars_max": 0.14,
        "frac_dup_7gram_chars_max": 0.13,
        "frac_dup_8gram_chars_max": 0.12,
        "frac_dup_9gram_chars_max": 0.11,
        "frac_dup_10gram_chars_max": 0.10,
    },
    "gopher_quality": {
        "n_words_min": 50,
        "n_words_max": 100_000,
        "mean_word_chars_min": 3,
        "mean_word_chars_max": 10,
        "hashes_per_word_max": 0.1,
        "ellipses_per_word_max": 0.1,
        "frac_bullet_lines_max": 0.9,
        "frac_ellipsis_lines_max": 0.3,
        "frac_alpha_words_min": 0.8,
        "n_stop_words_min": 2,
    },
    "c4": {
        "n_lorem_ipsum_lines_max": 0,
        "n_curly_bracket_lines_max": 0,
        "n_sentences_min": 5,
    },
    "fineweb_quality": {
        "n_text_lines_min": 1,
        "frac_terminal_lines_min": 0.12,
        "frac_short_lines_max": 0.67,
        "frac_dup_text_line_chars_max": 0.01,
        "newlines_per_word_max": 0.3,
    },
}
"""Recipe -> rule -> published bound, in the order in which FineWeb applies them. A rule is a metric and a side."""

LINE_RULES: dict[str, bool | int] = {
    "require_terminal_punctuation": True,  # FineWeb switches it off
    "line_words_min": 3,
    "line_word_chars_max": 1000,
}
"""What `c4` does to single lines, with the published values: parameters of the rewriting, not rules on documents."""
