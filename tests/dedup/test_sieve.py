from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tamiz.dedup.sieve import add_keys, make_sieve, match_keys

keys_lists = st.lists(st.integers(0, 2**64 - 1), max_size=60)


@given(keys_lists, keys_lists, st.integers(1, 4096))
def test_no_key_of_the_set_is_missed(own: list[int], others: list[int], bytes_max: int) -> None:
    """However little room there is, and whatever else is asked for."""
    sieve = make_sieve(len(own), bytes_max)
    assert sieve.nbytes <= max(8, bytes_max)
    for half in (own[::2], own[1::2]):
        add_keys(sieve, np.array(half, dtype=np.uint64))
    found = match_keys(sieve, np.array(own + others, dtype=np.uint64))
    assert found[: len(own)].all()


def test_few_others_pass() -> None:
    rng = np.random.default_rng(1)
    sieve = make_sieve(100_000, 1 << 30)
    add_keys(sieve, rng.integers(0, 2**64, 100_000, dtype=np.uint64))
    share = match_keys(sieve, rng.integers(0, 2**64, 100_000, dtype=np.uint64)).mean()
    assert 1 / 64 < share < 1 / 31  # one bit in 32 to 64 is set
