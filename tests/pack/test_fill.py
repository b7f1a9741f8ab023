"""fill: every token once, rows within bounds, as few rows as a plain statement of the published algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.pack.fill import Pieces, fill_best_fit, fill_concat

lengths_of = st.lists(st.integers(0, 70), max_size=60)
FILLS = [fill_best_fit, fill_concat]


def fill(strategy, lengths: list[int], limit: int) -> Pieces:
    return strategy(np.array(lengths, dtype=np.int64), limit)


def count_rows(pieces: Pieces) -> int:
    return len(set(pieces.row.tolist()))


def first_fit_decreasing(lengths: list[int], limit: int) -> int:
    """Rows that first-fit-decreasing opens, written plainly."""
    cut = [limit] * sum(n // limit for n in lengths) + [n % limit for n in lengths if n % limit]
    free: list[int] = []
    for size in sorted(cut, reverse=True):
        at = next((i for i, space in enumerate(free) if space >= size), None)
        if at is None:
            free.append(limit - size)
        else:
            free[at] -= size
    return len(free)


def best_fit_decreasing(lengths: list[int], limit: int) -> list[int]:
    """Tokens in each row, sorted, of best-fit-decreasing written plainly: all rows are looked at for every piece."""
    cut = [limit] * sum(n // limit for n in lengths) + [n % limit for n in lengths if n % limit]
    free: list[int] = []
    for size in sorted(cut, reverse=True):
        spaces = [(space, i) for i, space in enumerate(free) if space >= size]
        if spaces:
            free[min(spaces)[1]] -= size
        else:
            free.append(limit - size)
    return sorted(limit - space for space in free)


@pytest.mark.parametrize("strategy", FILLS)
@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_every_token_is_in_exactly_one_piece_and_in_order(strategy, lengths, limit):
    pieces = fill(strategy, lengths, limit)
    for document, n_tokens in enumerate(lengths):
        mine = pieces.document == document
        order = np.argsort(pieces.piece[mine])
        start, length = pieces.start[mine][order], pieces.length[mine][order]
        assert pieces.piece[mine][order].tolist() == list(range(mine.sum()))
        assert [t for s, n in zip(start, length, strict=True) for t in range(s, s + n)] == list(range(n_tokens))


@pytest.mark.parametrize("strategy", FILLS)
@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_rows_are_within_bounds_and_numbered_without_holes(strategy, lengths, limit):
    pieces = fill(strategy, lengths, limit)
    assert (pieces.length >= 1).all()
    tokens = np.bincount(pieces.row, weights=pieces.length) if len(pieces.row) else np.zeros(0)
    assert (tokens <= limit).all()
    assert (tokens > 0).all()
    assert (np.diff(pieces.row) >= 0).all()


@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_best_fit_cuts_only_documents_longer_than_a_row(lengths, limit):
    pieces = fill(fill_best_fit, lengths, limit)
    counts = np.bincount(pieces.document, minlength=len(lengths))
    assert counts.tolist() == [-(-n // limit) for n in lengths]


@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_best_fit_fills_rows_like_the_plain_statement(lengths, limit):
    pieces = fill(fill_best_fit, lengths, limit)
    tokens = np.bincount(pieces.row, weights=pieces.length).astype(int) if len(pieces.row) else np.zeros(0, int)
    assert sorted(tokens.tolist()) == best_fit_decreasing(lengths, limit)


@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_best_fit_is_within_the_bound_of_first_fit_decreasing(lengths, limit):
    """Both are at most 11/9 of the optimum plus 6/9 (Dosa 2007); neither dominates the other row for row."""
    least = -(-sum(lengths) // limit)
    rows = count_rows(fill(fill_best_fit, lengths, limit))
    assert least <= rows <= 11 / 9 * first_fit_decreasing(lengths, limit) + 6 / 9


@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_best_fit_rows_come_in_order_of_their_first_piece(lengths, limit):
    pieces = fill(fill_best_fit, lengths, limit)
    keys = list(zip(pieces.row.tolist(), pieces.document.tolist(), pieces.piece.tolist(), strict=True))
    assert keys == sorted(keys)
    heads = [key[1:] for i, key in enumerate(keys) if i == 0 or keys[i - 1][0] != key[0]]
    assert heads == sorted(heads)


@given(lengths=lengths_of, limit=st.integers(1, 40))
def test_concat_uses_the_fewest_rows_and_pads_only_the_last(lengths, limit):
    pieces = fill(fill_concat, lengths, limit)
    assert count_rows(pieces) == -(-sum(lengths) // limit)
    tokens = np.bincount(pieces.row, weights=pieces.length)
    assert (tokens[:-1] == limit).all()
    keys = list(zip(pieces.document.tolist(), pieces.piece.tolist(), strict=True))
    assert keys == sorted(keys)


def test_a_worked_example():
    """Sequence of 10; document 1 (23 tokens) is cut 10 + 10 + 3. Longest first: 10, 10, 7, 5, 3, 3, 2.
    7 opens a row; 5 opens another (3 free); the first 3 (the remainder) fits 7's row exactly, the other 3 (document 3)
    goes with 5 (5 free); 2 joins them. Rows in order of their first document: {0: 7, 1: last 3}, 10, 10, {2, 3, 4}."""
    pieces = fill(fill_best_fit, [7, 23, 5, 3, 2], 10)
    assert pieces.row.tolist() == [0, 0, 1, 2, 3, 3, 3]
    assert pieces.document.tolist() == [0, 1, 1, 1, 2, 3, 4]
    assert pieces.piece.tolist() == [0, 2, 0, 1, 0, 0, 0]
    assert pieces.start.tolist() == [0, 20, 0, 10, 0, 0, 0]
    assert pieces.length.tolist() == [7, 3, 10, 10, 5, 3, 2]


@pytest.mark.parametrize("strategy", FILLS)
def test_no_documents_give_no_pieces(strategy):
    assert len(fill(strategy, [], 8).row) == 0
    assert len(fill(strategy, [0, 0], 8).row) == 0
