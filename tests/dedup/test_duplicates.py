from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tamiz.dedup.duplicates import NONE, find_losers, merge_losers

key_lists = st.lists(st.integers(0, 6), max_size=40)


def lose_by_hand(keys: list[int]) -> dict[int, int]:
    heads: dict[int, int] = {}
    lost = {}
    for i, key in enumerate(keys):
        if key in heads:
            lost[i] = heads[key]
        heads.setdefault(key, i)
    return lost


def find(keys: list[int], keep: list[bool] | None = None) -> dict[int, int]:
    index = np.flatnonzero(keep) if keep is not None else np.arange(len(keys))
    losers = find_losers(index.astype(np.int64), np.array(keys, dtype=np.uint64)[index])
    return dict(zip(losers.loser.tolist(), losers.winner.tolist(), strict=True))


@given(key_lists)
def test_all_but_the_first_of_each_bucket_lose_to_it(keys: list[int]) -> None:
    assert find(keys) == lose_by_hand(keys)


@given(key_lists)
def test_key_ranges_can_be_worked_apart(keys: list[int]) -> None:
    low = find(keys, [key < 3 for key in keys])
    high = find(keys, [key >= 3 for key in keys])
    assert {**low, **high} == lose_by_hand(keys)


@given(st.integers(0, 40).flatmap(lambda n: st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), max_size=4)))
def test_a_document_is_a_duplicate_if_any_band_says_so(bands: list[list[int]]) -> None:
    n = len(bands[0]) if bands else 5
    by_hand = [lose_by_hand(keys) for keys in bands]
    losers = [find_losers(np.arange(n, dtype=np.int64), np.array(keys, dtype=np.uint64)) for keys in bands]
    merged = merge_losers(n, losers[:1], losers[1:])
    for i in range(n):
        exact = by_hand[0].get(i) if by_hand else None
        heads = [lost[i] for lost in by_hand[1:] if i in lost]
        expected = exact if exact is not None else min(heads, default=NONE)
        assert merged.lost_to[i] == expected
        assert merged.is_exact[i] == (exact is not None)
        assert merged.n_bands[i] == sum(head == expected for head in heads)
        assert merged.lost_to[i] < i


def test_nothing_in_nothing_lost() -> None:
    merged = merge_losers(3, [], [])
    assert merged.lost_to.tolist() == [NONE] * 3
