from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.dedup.bloom import choose_bloom, make_bits, meet_keys


@given(st.lists(st.integers(0, 30), max_size=60))
def test_a_key_met_before_is_always_known(keys: list[int]) -> None:
    shape = choose_bloom(100, 1e-6)
    met = meet_keys(make_bits(shape), shape.n_probes, np.array(keys, dtype=np.uint64))
    assert met.tolist() == [key in keys[:i] for i, key in enumerate(keys)]


@pytest.mark.parametrize("rate", [1e-2, 1e-3, 1e-4])
def test_new_keys_are_taken_for_known_ones_at_the_promised_rate(rate: float) -> None:
    n = 300_000
    shape = choose_bloom(n, rate)
    bits = make_bits(shape)
    keys = np.random.default_rng(1).integers(0, 2**64, 2 * n, dtype=np.uint64)
    meet_keys(bits, shape.n_probes, keys[:n])
    wrong = sum(int(meet_keys(bits.copy(), shape.n_probes, keys[i : i + 1000]).sum()) for i in range(n, 2 * n, 1000))
    assert rate * n / 2 < wrong < 2 * rate * n
