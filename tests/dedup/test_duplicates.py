from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tamiz.dedup.duplicates import (
    NONE,
    find_losers,
    find_members,
    find_roots,
    merge_losers,
    order_floats,
    rank_members,
)

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
        assert merged.n_bands[i] == (exact is None) * sum(head == expected for head in heads)
        assert merged.lost_to[i] < i


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)), max_size=40), st.integers(0, 1))
def test_within_a_scope_the_one_of_most_merit_wins(entries: list[tuple[int, int, int]], chosen: int) -> None:
    keys, merits, scope = (
        (np.array(column, dtype=np.int64) for column in zip(*entries, strict=True))
        if entries
        else (np.zeros(0, dtype=np.int64) for _ in range(3))
    )
    members = find_members(keys.astype(np.uint64))
    at = members.position
    losers = rank_members(members.bucket, at, merits[at].astype(np.uint64), [scope[at].astype(np.int32)], chosen)
    seen = {int(i): (int(w), int(m)) for i, w, m in zip(losers.loser, losers.winner, losers.lost_in, strict=True)}
    expected = {}
    for i, (key, _, own) in enumerate(entries):
        anywhere = [j for j, other in enumerate(entries) if other[0] == key]
        inside = [j for j in anywhere if entries[j][2] == own]
        best = [min(group, key=lambda j: (entries[j][1], j)) for group in (anywhere, inside)]
        lost_in = (best[0] != i) + 2 * (best[1] != i)
        if lost_in:
            expected[i] = (best[chosen] if best[chosen] != i else NONE, lost_in)
    assert seen == expected


@given(key_lists, st.integers(1, 4))
def test_with_depth_a_loser_meets_the_first_of_its_bucket(keys: list[int], depth: int) -> None:
    members = find_members(np.array(keys, dtype=np.uint64))
    losers = rank_members(members.bucket, members.position, depth=depth)
    seen = sorted(zip(losers.loser.tolist(), losers.winner.tolist(), strict=True))
    expected = []
    for i, key in enumerate(keys):
        bucket = [j for j, other in enumerate(keys) if other == key]
        expected += [(i, j) for j in bucket[:depth] if j < i]
    assert seen == sorted(expected)


def test_keys_that_differ_above_the_sorted_bits_are_kept_apart() -> None:
    top = np.uint64(1) << np.uint64(63)
    low = np.arange(6, dtype=np.uint64) // np.uint64(2)
    keys = np.concatenate([low, low + top, low[:3], np.array([9, 9], dtype=np.uint64) + top * np.uint64(0)])
    losers = find_losers(np.arange(len(keys), dtype=np.int64), keys)
    assert dict(zip(losers.loser.tolist(), losers.winner.tolist(), strict=True)) == lose_by_hand(keys.tolist())


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30))
def test_chains_end_where_following_them_ends(steps: list[int]) -> None:
    lost_to = [max(0, i - 1 - step) for i, step in enumerate(steps, start=1)]
    roots = find_roots(np.arange(1, len(steps) + 1, dtype=np.int64), np.array(lost_to, dtype=np.int64))
    assert roots.tolist() == [0] * len(steps)


@given(st.lists(st.floats(allow_nan=True, width=32), max_size=20), st.booleans())
def test_floats_rank_in_their_order(values: list[float], descending: bool) -> None:
    ranked = order_floats(np.array(values, dtype=np.float64), descending=descending).tolist()
    assert all(rank < 1 << 56 for rank in ranked)
    for a, x in zip(values, ranked, strict=True):
        for b, y in zip(values, ranked, strict=True):
            if math.isnan(a) or math.isnan(b):
                assert (x <= y) if not math.isnan(a) else (x >= y)
            else:
                assert (x < y) == (a > b if descending else a < b)


def test_nothing_in_nothing_lost() -> None:
    merged = merge_losers(3, [], [])
    assert merged.lost_to.tolist() == [NONE] * 3
