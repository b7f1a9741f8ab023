"""How large splits are: by the source alone."""

from __future__ import annotations

import pytest

from tamiz.sources.listing import choose_split_bytes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("n_bytes", "limit", "wanted"),
    [
        (0, None, 4 * MIB),
        (100 * MIB, None, 4 * MIB),
        (640 * MIB, None, 20 * MIB),
        (8192 * MIB, None, 256 * MIB),
        (1 << 45, None, 256 * MIB),
        (1 << 45, 200_000, 200_000 * 4096 // 32),  # a limit makes a large source small
        (1 << 45, 10, 4 * MIB),
        (640 * MIB, 1 << 40, 20 * MIB),
    ],
)
def test_a_small_source_has_small_splits(n_bytes: int, limit: int | None, wanted: int) -> None:
    assert choose_split_bytes(n_bytes, limit) == wanted
