"""Where a scan puts words before they go to the table: scratch that kernels get as one pointer.

A kernel that takes the table's arrays for each word pays two atomic operations per array for their reference counts;
they were 45 % of the scan. A record has none: words go there, and to the table some thousands at a time.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numba import njit

from tamiz.measure.affixes import N_CHUNK_CHARS_MAX
from tamiz.schema import I32, I64, U8, U64

BLOCK_WORDS = 4096  # move them once there are so many: 100 kB, which stay in the cache


class WordBlock(Protocol):
    """Room for BLOCK_WORDS and the words of one chunk more; the columns of `words.Words`."""

    starts: I64
    lengths: I32
    n_chars: I32
    hashes: U64
    flags: U8


def make_block() -> WordBlock:
    """An empty block; only the pages words have touched take memory."""
    fields: dict[str, Any] = {
        "starts": np.int64,
        "hashes": np.uint64,
        "lengths": np.int32,
        "n_chars": np.int32,
        "flags": np.uint8,
    }
    dtype = np.dtype([(name, kind, BLOCK_WORDS + N_CHUNK_CHARS_MAX + 8) for name, kind in fields.items()])
    block: WordBlock = np.empty(1, dtype=dtype)[0]
    return block


@njit(cache=True, nogil=True, inline="always")
def add_word(block: WordBlock, k: int, start: int, length: int, n_chars: int, value: np.uint64, flags: int) -> None:
    """Make this the block's word number k."""
    block.starts[k] = start
    block.lengths[k] = length
    block.n_chars[k] = n_chars
    block.hashes[k] = value
    block.flags[k] = flags


@njit(cache=True, nogil=True)
def move_words(
    block: WordBlock, n_words: int, starts: I64, lengths: I32, n_chars: I32, hashes: U64, flags: U8, n: int
) -> int:
    """Append the block's words to the n words already in the arrays; their number then."""
    for k in range(n_words):
        starts[n + k] = block.starts[k]
        lengths[n + k] = block.lengths[k]
        n_chars[n + k] = block.n_chars[k]
        hashes[n + k] = block.hashes[k]
        flags[n + k] = block.flags[k]
    return n + n_words
