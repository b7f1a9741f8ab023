"""Which records a `where` selects: over Arrow columns, over JSON objects, and from Parquet statistics alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tamiz.errors import ConfigError
from tamiz.sources.split import Bound


def select_rows(batch: pa.RecordBatch, where: Mapping[str, Bound], source: str) -> pa.BooleanArray:
    """True for each row that satisfies every bound, else False; never null.

    Raises ConfigError when a column cannot be compared with its bound.
    """
    selected = pa.repeat(pa.scalar(True), batch.num_rows)
    for name, bound in where.items():
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        try:
            selected = pc.and_(selected, _satisfy(column, bound).fill_null(False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ConfigError(
                f"sources.{source}.where.{name}: the column is {column.type} and cannot be compared with {bound}"
            ) from error
    return selected


def _satisfy(column: pa.Array, bound: Bound) -> pa.BooleanArray:
    satisfied = column.is_valid()
    if bound.min is not None:
        satisfied = pc.and_(satisfied, pc.greater_equal(column, pa.scalar(bound.min)))
    if bound.max is not None:
        satisfied = pc.and_(satisfied, pc.less_equal(column, pa.scalar(bound.max)))
    if bound.one_of is not None:
        satisfied = pc.and_(satisfied, pc.is_in(column, value_set=pa.array(bound.one_of).cast(column.type)))
    return satisfied


def is_selected(record: Mapping[str, Any], where: Mapping[str, Bound]) -> bool:
    """True when the JSON object satisfies every bound; a value of another type than its bound does not."""
    return all(_is_within(record.get(name), bound) for name, bound in where.items())


def _is_within(value: Any, bound: Bound) -> bool:
    if bound.one_of is not None and (isinstance(value, (bool, list, dict)) or value not in bound.one_of):
        return False
    if bound.min is None and bound.max is None:
        return value is not None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    low = bound.min is None or value >= bound.min
    return low and (bound.max is None or value <= bound.max)


def is_group_selected(group: pq.RowGroupMetaData, columns: Mapping[str, int], where: Mapping[str, Bound]) -> bool:
    """True when the statistics of a row group prove that every row of it satisfies `where`.

    `columns` maps the names of `where` to column indices. Only integers: the statistics of floats leave out NaN.
    """
    for name, bound in where.items():
        chunk = group.column(columns[name])
        statistics = chunk.statistics
        if chunk.physical_type not in ("INT32", "INT64") or bound.one_of is not None or statistics is None:
            return False
        if not (statistics.has_min_max and statistics.has_null_count) or statistics.null_count:
            return False
        if not isinstance(statistics.min, int) or not isinstance(statistics.max, int):
            return False
        if (bound.min is not None and statistics.min < bound.min) or (
            bound.max is not None and statistics.max > bound.max
        ):
            return False
    return True
