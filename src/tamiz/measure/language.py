"""Language of each document: fastText's lid.176.ftz as a kernel over the text buffer.

The label is that of `fasttext.predict(text.replace("\\n", " "), k=1)`, the score its score up to the rounding of single
precision sums. Model: Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification"; lid.176.ftz is published
under CC BY-SA 3.0 at fasttext.cc/docs/en/language-identification.html.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tamiz.measure.fasttext_model import DIM, F32, N_BUCKETS, LanguageModel, ModelArrays, allocate_aligned
from tamiz.schema import F64, I32, I64, U8, U64

LID_176_SHA256 = "8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83"
LID_176_BYTES = 938_013

_SLOT_BITS = 15  # a memo of 3 MB; 14 to 17 bits measured alike, as a miss costs little more than a distant slot
_SLOT_SHIFT = np.uint64(64 - _SLOT_BITS)
_PACKED = 8  # bytes in one uint64 of a key
_MEMO_BYTES = 3 * _PACKED
_SPACE_BITS = np.uint64(sum(1 << c for c in b" \n\r\t\v\f\0"))  # what fastText splits words on
_END_OF_LINE = np.uint64(int.from_bytes(b"</s>", "little"))
_LABEL_PREFIX = np.uint64(int.from_bytes(b"__label_", "little"))
_UNDERSCORE = np.uint64(ord("_"))
_MIX_0, _MIX_1, _MIX_2 = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
_N_BUCKETS = np.uint32(N_BUCKETS)
_FNV_START = np.uint32(2166136261)
_FNV_PRIME = np.uint32(16777619)
_BELOW = np.uint8(60)  # <
_ABOVE = np.uint8(62)  # >


@dataclass(frozen=True)
class WordMemo:
    """Summed vectors of words seen lately, for one model and one thread; changes the speed, never a result.

    A word of up to 24 bytes has one possible slot and the last comer stays in it, so the memo never grows or fills.
    """

    model: LanguageModel
    keys: U64  # uint64[slots, 4]: the word's bytes (no word holds a NUL: zeros = empty slot), its number of features
    sums: F32  # float32[slots + 1, 16]; the last row is for words too long to keep


def make_memo(model: LanguageModel) -> WordMemo:
    """An empty memo for `identify_languages` to fill."""
    n_slots = 1 << _SLOT_BITS
    return WordMemo(model, allocate_aligned(n_slots, 4, np.uint64), allocate_aligned(n_slots + 1, DIM, np.float32))


def identify_languages(model: LanguageModel, offsets: I64, data: U8, memo: WordMemo | None = None) -> tuple[I32, F64]:
    """The likeliest label of each document, as an index into `model.labels` int32[n], and its score float64[n].

    offsets int64[n + 1] into data uint8[] (UTF-8). Keep one memo per thread and pass it with every batch.
    The score is a probability, 0..1, but passes 1 by up to about 5e-5 as fastText's does. A text without words still
    has the end-of-line feature, hence a label (lid.176: "en", 0.12); label -1 and score NaN only if the model knows no
    feature of the text at all, where fastText returns nothing.
    """
    if memo is None:
        memo = make_memo(model)
    elif memo.model is not model:
        raise ValueError("this memo was filled with another model")
    labels = np.empty(len(offsets) - 1, dtype=np.int32)
    scores = np.empty(len(offsets) - 1, dtype=np.float64)
    _identify(model.arrays, memo.keys, memo.sums, _view_frozen(offsets), _view_frozen(data), labels, scores)
    return labels, scores


def _view_frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Read-only, as Arrow buffers are: numba would compile the kernel a second time for a writable array."""
    frozen = values.view()
    frozen.flags.writeable = False
    return frozen


# Kernels below the document take arrays one by one and index them in two dimensions: passing a tuple on, or a row as a
# view, costs reference counts that tripled the whole. DIM is a constant so that adding a row is two vector additions.


@njit(cache=True, nogil=True)
def _identify(model: ModelArrays, keys: U64, sums: F32, offsets: I64, data: U8, labels: I32, scores: F64) -> None:
    nodes, children = model.nodes, model.children
    hidden = np.empty(DIM, dtype=np.float32)
    node_stack = np.empty(len(children) + 1, dtype=np.int32)
    score_stack = np.empty(len(children) + 1, dtype=np.float32)
    for i in range(len(labels)):
        n_features = _sum_document(model, keys, sums, data, offsets[i], offsets[i + 1], hidden)
        if n_features == 0:
            labels[i] = -1
            scores[i] = np.nan
            continue
        weight = np.float32(1.0 / n_features)
        for k in range(DIM):
            hidden[k] *= weight
        labels[i], log_score = _find_label(nodes, children, hidden, node_stack, score_stack)
        scores[i] = math.exp(log_score)


@njit(cache=True, nogil=True)
def _sum_document(
    model: ModelArrays, keys: U64, sums: F32, data: U8, start: np.int64, stop: np.int64, hidden: F32
) -> np.int64:
    """Sum the features of data[start:stop] into hidden float32[16]; returns their number."""
    rows, bits, ranks = model.rows, model.bucket_bits, model.bucket_ranks
    word_slot, word_start, word_bytes = model.word_slot, model.word_start, model.word_bytes
    hidden[:] = np.float32(0)
    n_features = np.int64(0)
    p = start
    while p < stop:
        if _is_space(data[p]):
            p += 1
            continue
        word = p
        key_0, p = _pack_bytes(data, p, stop)
        key_1 = key_2 = np.uint64(0)
        if p - word == _PACKED:
            key_1, p = _pack_bytes(data, p, stop)
            if p - word == 2 * _PACKED:
                key_2, p = _pack_bytes(data, p, stop)
                while p < stop and not _is_space(data[p]):
                    p += 1
        if key_0 == _END_OF_LINE:
            break  # the literal token ends fastText's line
        if key_0 == _LABEL_PREFIX and key_1 & np.uint64(255) == _UNDERSCORE:
            continue  # a word that begins with __label__ is a label to fastText, not a feature
        is_kept = p - word <= _MEMO_BYTES
        slot = np.int64(len(keys))
        if is_kept:
            slot = np.int64((key_0 * _MIX_0 + key_1 * _MIX_1 + key_2 * _MIX_2) >> _SLOT_SHIFT)
        if is_kept and keys[slot, 0] == key_0 and keys[slot, 1] == key_1 and keys[slot, 2] == key_2:
            n_features += np.int64(keys[slot, 3])
        else:
            row = _find_word(word_slot, word_start, word_bytes, data, word, p)
            n_found = _sum_word(rows, bits, ranks, row, data, word, p, sums, slot)
            n_features += n_found
            if is_kept:
                keys[slot, 0], keys[slot, 1], keys[slot, 2] = key_0, key_1, key_2
                keys[slot, 3] = np.uint64(n_found)
        for k in range(DIM):
            hidden[k] += sums[slot, k]
    if model.eos_row >= 0:
        n_features += 1
        for k in range(DIM):
            hidden[k] += rows[model.eos_row, k]
    return n_features


@njit(cache=True, nogil=True)
def _is_space(byte: np.uint8) -> bool:
    return bool(byte <= 32 and (_SPACE_BITS >> np.uint64(byte)) & np.uint64(1))


@njit(cache=True, nogil=True)
def _pack_bytes(data: U8, p: np.int64, stop: np.int64) -> tuple[np.uint64, np.int64]:
    """Up to 8 bytes of the word at p as one little-endian number, and the position after them."""
    key = np.uint64(0)
    shift = np.uint64(0)
    last = min(stop, p + _PACKED)
    while p < last and not _is_space(data[p]):
        key |= np.uint64(data[p]) << shift
        shift += np.uint64(8)
        p += 1
    return key, p


@njit(cache=True, nogil=True)
def _sum_word(
    rows: F32, bits: U64, ranks: I32, row: np.int64, data: U8, start: np.int64, stop: np.int64, sums: F32, to: np.int64
) -> np.int64:
    """Sum the word's own row (-1 = not in the dictionary) and those of its n-grams into sums[to]; returns how many.

    The n-grams are of 2 to 4 code points of the word between < and >. `hash_k` is the hash of the last k code points;
    each byte extends all four, and at the start of the next code point those of the right length are looked up.
    """
    for k in range(DIM):
        sums[to, k] = np.float32(0)
    n_features = np.int64(0)
    if row >= 0:
        n_features += _add_row(rows, row, sums, to)
    hash_1 = _extend_hash(_FNV_START, _BELOW)
    hash_2 = hash_3 = hash_4 = _FNV_START
    n_chars = 1
    for p in range(start, stop + 2):  # the word, its border, and one more step for what ends with the border
        byte = data[p] if p < stop else _ABOVE
        if byte & 0xC0 != 0x80:
            if n_chars >= 2:
                n_features += _add_row(rows, _find_bucket(bits, ranks, hash_2), sums, to)
            if n_chars >= 3:
                n_features += _add_row(rows, _find_bucket(bits, ranks, hash_3), sums, to)
            if n_chars >= 4:
                n_features += _add_row(rows, _find_bucket(bits, ranks, hash_4), sums, to)
            n_chars += 1
            hash_4, hash_3, hash_2, hash_1 = hash_3, hash_2, hash_1, _FNV_START
        hash_1 = _extend_hash(hash_1, byte)
        hash_2 = _extend_hash(hash_2, byte)
        hash_3 = _extend_hash(hash_3, byte)
        hash_4 = _extend_hash(hash_4, byte)
    return n_features


@njit(cache=True, nogil=True)
def _add_row(rows: F32, row: np.int64, sums: F32, to: np.int64) -> np.int64:
    """Add rows[row] to sums[to] unless row is -1; returns the number of rows added."""
    if row < 0:
        return np.int64(0)
    for k in range(DIM):
        sums[to, k] += rows[row, k]
    return np.int64(1)


@njit(cache=True, nogil=True)
def _find_bucket(bits: U64, ranks: I32, value: np.uint32) -> np.int64:
    """Row of the n-gram with this hash, -1 = pruned: the rows lie in the order of the bits that are set."""
    bucket = np.int64(value % _N_BUCKETS)
    block = bits[bucket >> 6]
    bit = np.uint64(1) << np.uint64(bucket & 63)
    if block & bit == 0:
        return np.int64(-1)
    return np.int64(ranks[bucket >> 6]) + _count_bits(block & (bit - np.uint64(1)))


@njit(cache=True, nogil=True)
def _count_bits(block: np.uint64) -> np.int64:
    """Population count by halves (Warren, Hacker's Delight, 5-1)."""
    block -= (block >> np.uint64(1)) & np.uint64(0x5555555555555555)
    block = (block & np.uint64(0x3333333333333333)) + ((block >> np.uint64(2)) & np.uint64(0x3333333333333333))
    block = (block + (block >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((block * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def _extend_hash(value: np.uint32, byte: np.uint8) -> np.uint32:
    """One step of `fasttext_model.hash_word`. numba widens the product of two uint32, hence the outer cast."""
    return np.uint32((value ^ np.uint32(np.int8(byte))) * _FNV_PRIME)


@njit(cache=True, nogil=True)
def _find_word(word_slot: I32, word_start: I64, word_bytes: U8, data: U8, start: np.int64, stop: np.int64) -> np.int64:
    """Row of data[start:stop] in the dictionary, -1 = not there."""
    value = _FNV_START
    for p in range(start, stop):
        value = _extend_hash(value, data[p])
    mask = np.int64(len(word_slot) - 1)
    slot = np.int64(value) & mask
    while word_slot[slot] >= 0:
        word = np.int64(word_slot[slot])
        begin = word_start[word]
        if word_start[word + 1] - begin == stop - start:
            k = 0
            while k < stop - start and word_bytes[begin + k] == data[start + k]:
                k += 1
            if k == stop - start:
                return word
        slot = (slot + 1) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _find_label(
    nodes: F32, children: I32, hidden: F32, node_stack: I32, score_stack: F32
) -> tuple[np.int64, np.float32]:
    """The leaf of the softmax tree with the highest log probability, and that.

    Depth first, likelier child first, dropping a branch below the best leaf so far: fastText's answer for k = 1, with
    its 1e-5 inside each logarithm (scores can pass 1) and its mix of single and double precision.
    """
    n_labels = len(nodes) + 1
    best, best_score = np.int64(-1), np.float32(-np.inf)
    node_stack[0], score_stack[0] = len(children) - 1, np.float32(0)
    depth = 1
    while depth > 0:
        depth -= 1
        node, score = np.int64(node_stack[depth]), score_stack[depth]
        if score <= best_score:
            continue
        if node < n_labels:
            best, best_score = node, score
            continue
        product = np.float32(0)
        for k in range(DIM):
            product += hidden[k] * nodes[node - n_labels, k]
        right_share = np.float32(1.0 / (1.0 + np.float64(math.exp(-product))))
        left = np.float32(score + np.float32(math.log(np.float64(np.float32(1.0 - right_share)) + 1e-5)))
        right = np.float32(score + np.float32(math.log(np.float64(right_share) + 1e-5)))
        first = 0 if left > right else 1
        node_stack[depth] = children[node, 1 - first]
        score_stack[depth] = min(left, right)
        node_stack[depth + 1] = children[node, first]
        score_stack[depth + 1] = max(left, right)
        depth += 2
    return best, best_score
