"""shards and decode: boundaries, holdout, rows; what goes in comes out, and what is damaged is named."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamiz.errors import ConfigError, RunError, SchemaError
from tamiz.pack import shards
from tamiz.pack.decode import check_shard, read_documents, strip_boundaries
from tamiz.pack.fill import fill_best_fit, fill_concat
from tamiz.pack.shards import (
    add_boundaries,
    build_shard,
    choose_dtype,
    count_group_rows,
    is_holdout,
    make_shard_metadata,
)
from tamiz.schema import DOC_ID, check_batch, make_shard_schema

BOS, EOS, PAD, N_VOCAB = 1, 2, 3, 100
UINT16 = pa.uint16()

documents_of = st.lists(st.lists(st.integers(10, N_VOCAB - 1), max_size=40), max_size=25)


def flatten(documents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(documents) + 1, dtype=np.int64)
    np.cumsum([len(d) for d in documents], out=offsets[1:])
    return np.array([t for d in documents for t in d], dtype=np.int32), offsets


def unflatten(values: np.ndarray, offsets: np.ndarray) -> list[list[int]]:
    return [values[a:b].tolist() for a, b in pairwise(offsets)]


def name_documents(n: int) -> pa.FixedSizeBinaryArray:
    return pa.array([bytes([i]) + bytes(14) + bytes([255 - i]) for i in range(n)], DOC_ID)


def make_shard(documents, limit=8, bos=None, strategy=fill_best_fit, dtype=UINT16, rows=None):
    values, offsets = add_boundaries(*flatten(documents), bos, EOS)
    pieces = strategy(np.diff(offsets), limit)
    return build_shard(values, offsets, name_documents(len(documents)), pieces, limit, PAD, dtype, rows)


def check(table, limit=8, bos=None):
    return check_shard(table, N_VOCAB, limit, bos_id=bos, eos_id=EOS, pad_id=PAD)


@given(documents=documents_of, bos=st.sampled_from([None, BOS]))
def test_add_boundaries_puts_eos_after_and_bos_before_each_document(documents, bos):
    wanted = [[*([] if bos is None else [bos]), *d, EOS] for d in documents]
    assert unflatten(*add_boundaries(*flatten(documents), bos, EOS)) == wanted


def test_add_boundaries_takes_a_slice_of_the_offsets():
    values, offsets = flatten([[10, 11], [12], [13, 14, 15]])
    assert unflatten(*add_boundaries(values, offsets[1:], None, EOS)) == [[12, EOS], [13, 14, 15, EOS]]


def test_a_shard_by_hand():
    """Rows of 4. [10, 11, EOS] leaves 1 free; [12, ..., 16, EOS] is cut 4 + 2."""
    table = make_shard([[10, 11], [12, 13, 14, 15, 16]], limit=4)
    a, b = name_documents(2).to_pylist()
    assert table.to_pydict() == {
        "input_ids": [[10, 11, EOS, PAD], [12, 13, 14, 15], [16, EOS, PAD, PAD]],
        "seq_lens": [[3, 1], [4], [2, 2]],
        "doc_ids": [[a, None], [b], [b, None]],
        "piece": [[0, 0], [0], [1, 0]],
    }


@given(
    documents=documents_of,
    limit=st.integers(1, 50),
    bos=st.sampled_from([None, BOS]),
    strategy=st.sampled_from([fill_best_fit, fill_concat]),
    dtype=st.sampled_from([pa.uint16(), pa.int32()]),
)
def test_documents_come_back_and_nothing_is_wrong(documents, limit, bos, strategy, dtype):
    table = make_shard(documents, limit, bos, strategy, dtype)
    check_batch(table, make_shard_schema(dtype), "shard")
    assert check(table, limit, bos) == []
    back = read_documents(table)
    texts = unflatten(*strip_boundaries(back.values, back.offsets, bos, EOS))
    found = dict(zip(back.doc_ids.to_pylist(), texts, strict=True))
    assert found == dict(zip(name_documents(len(documents)).to_pylist(), documents, strict=True))


@given(documents=documents_of, cut=st.integers(0, 30))
def test_ranges_of_rows_add_up_to_the_shard(documents, cut):
    whole = make_shard(documents)
    cut = min(cut, len(whole))
    head, tail = make_shard(documents, rows=range(cut)), make_shard(documents, rows=range(cut, len(whole)))
    assert pa.concat_tables([head, tail]).to_pydict() == whole.to_pydict()


def test_shards_survive_parquet(tmp_path):
    documents = [[10 + i % 80] * (i * 7 % 30) for i in range(200)]
    metadata = make_shard_metadata(
        tokenizer="t",
        tokenizer_fingerprint="f" * 64,
        n_vocab=N_VOCAB,
        bos_id=None,
        eos_id=EOS,
        pad_id=PAD,
        sequence_length=8,
        strategy="best_fit",
        config_fingerprint="c",
    )
    table = make_shard(documents).replace_schema_metadata(metadata)
    pq.write_table(table, tmp_path / "shard.parquet", row_group_size=10)
    read = pq.read_table(tmp_path / "shard.parquet")
    assert check(read) == []
    assert read.schema.metadata[b"tamiz.sequence_length"] == b"8"
    assert read.schema.metadata[b"tamiz.bos_id"] == b""
    back = read_documents(read)
    at = back.doc_ids.to_pylist().index(name_documents(6).to_pylist()[5])
    assert unflatten(back.values, back.offsets)[at] == [*documents[5], EOS]


def test_a_shard_comes_in_chunks_of_a_row_group(monkeypatch):
    monkeypatch.setattr(shards, "ROW_GROUP_TOKENS", 8)
    table = make_shard([[10 + i] * 5 for i in range(5)], limit=4)
    assert count_group_rows(4) == 2
    assert count_group_rows(9) == 1
    assert [len(chunk) for chunk in table["input_ids"].chunks] == [2, 2, 2, 2]
    assert check(table, 4) == []


def test_pieces_of_other_documents_are_refused():
    values, offsets = add_boundaries(*flatten([[10], [11]]), None, EOS)
    pieces = fill_best_fit(np.array([2, 3]), 8)
    with pytest.raises(SchemaError, match="past the end"):
        build_shard(values, offsets, name_documents(2), pieces, 8, PAD, pa.int32())


def damage(table: pa.Table, column: str, row: int, value: list) -> pa.Table:
    rows = table[column].to_pylist()
    rows[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array(rows, table.schema.field(at).type))


A = name_documents(1)[0].as_py()


@pytest.mark.parametrize(
    ("column", "row", "value", "problem"),
    [
        ("input_ids", 0, [10, 11, EOS], "row 0 does not have 4 tokens"),
        ("input_ids", 1, [12, 13, 100, 15], "row 1 has an id outside 0..99"),
        ("input_ids", 0, [10, 11, EOS, 9], "row 0 has padding other than id 3"),
        ("input_ids", 0, [10, 11, 12, PAD], "row 0 has a document without EOS at its end"),
        ("input_ids", 1, [12, EOS, 14, 15], "row 1 has EOS inside a document"),
        ("seq_lens", 1, [3], "row 1 has seq_lens that do not sum to 4"),
        ("seq_lens", 0, [4, 0], "row 0 has a piece of no tokens"),
        ("seq_lens", 1, [2, 2], "row 1 has seq_lens, doc_ids and piece of unequal length"),
        ("doc_ids", 0, [None, A], "row 0 has padding before its last piece"),
        ("doc_ids", 1, [None], "row 1 is all padding"),
        ("doc_ids", 2, [A, None], "row 0 has EOS inside a document"),
        ("doc_ids", 2, [bytes(16), None], "row 2 has a document whose pieces"),
        ("piece", 2, [2, 0], "row 2 has a document whose pieces"),
        ("piece", 2, [0, 0], "a document whose pieces are not numbered"),
        ("piece", 0, [0, 1], "row 0 has padding with a piece number"),
        ("piece", 0, [0, None], "there are nulls inside piece"),
    ],
)
def test_damage_is_named(column, row, value, problem):
    table = make_shard([[10, 11], [12, 13, 14, 15, 16]], limit=4)
    assert check(table, 4) == []
    assert any(problem in found for found in check(damage(table, column, row, value), 4))


def test_missing_and_misplaced_bos_are_named():
    table = make_shard([[10, 11]], limit=4, bos=BOS)
    assert check(table, 4, BOS) == []
    assert "without BOS" in check(damage(table, "input_ids", 0, [9, 10, 11, EOS]), 4, BOS)[0]
    assert "BOS inside" in check(damage(table, "input_ids", 0, [BOS, BOS, 11, EOS]), 4, BOS)[0]


def test_other_columns_are_named():
    assert "columns" in check(pa.table({"x": [1]}))[0]
    assert "columns" in check(make_shard([[10]]).drop_columns("piece"))[0]


def test_strip_boundaries_refuses_documents_without_them():
    values, offsets = flatten([[10, EOS], [10, 11]])
    with pytest.raises(RunError, match="document 1 "):
        strip_boundaries(values, offsets, None, EOS)
    with pytest.raises(RunError, match="document 0 "):
        strip_boundaries(*flatten([[EOS]]), EOS, EOS)


def test_choose_dtype():
    assert choose_dtype(65_536, "auto") == pa.uint16()
    assert choose_dtype(65_537, "auto") == pa.int32()
    assert choose_dtype(300, "int32") == pa.int32()
    assert choose_dtype(300, "uint16") == pa.uint16()
    with pytest.raises(ConfigError, match=r"pack\.dtype.*131,072"):
        choose_dtype(131_072, "uint16")
    with pytest.raises(ConfigError, match=r"pack\.dtype.*int8"):
        choose_dtype(300, "int8")


def random_names(n: int) -> pa.FixedSizeBinaryArray:
    data = np.random.default_rng(0).integers(0, 256, n * 16, dtype=np.uint8)
    return pa.FixedSizeBinaryArray.from_buffers(DOC_ID, n, [None, pa.py_buffer(data)])


@pytest.mark.parametrize("fraction", [0.002, 0.1, 0.5])
def test_holdout_takes_the_fraction(fraction):
    """Within five standard deviations of a binomial, for random ids and for ids that differ in one byte or two."""
    n = 200_000
    counted = pa.array([i.to_bytes(16, "big") for i in range(n)], DOC_ID)
    for doc_ids in (random_names(n), counted):
        taken = int(is_holdout(doc_ids, 17, fraction).sum())
        assert abs(taken - n * fraction) < 5 * (n * fraction * (1 - fraction)) ** 0.5


def test_holdout_bounds_and_seeds():
    names = random_names(10_000)
    assert not is_holdout(names, 1, 0.0).any()
    assert is_holdout(names, 1, 1.0).all()
    one, other = is_holdout(names, 1, 0.5), is_holdout(names, -2, 0.5)
    assert abs(int((one == other).sum()) - 5_000) < 250  # five standard deviations of 10,000 coins


def test_holdout_of_a_document_does_not_depend_on_the_others():
    names = random_names(1_000)
    whole = is_holdout(names, 17, 0.3)
    assert is_holdout(names.slice(137, 400), 17, 0.3).tolist() == whole[137:537].tolist()
    assert is_holdout(names.slice(0, 0), 17, 0.3).tolist() == []


@given(fractions=st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted))
def test_a_larger_holdout_contains_a_smaller_one(fractions):
    names = random_names(300)
    small, large = (is_holdout(names, 17, fraction) for fraction in fractions)
    assert (large | ~small).all()
