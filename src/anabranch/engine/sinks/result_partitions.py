"""Results in folders by the values of columns, as Hive lays them out: `day=2026-01-01/…`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors import ConfigError, SinkError

MOST_PARTITIONS = 1000
"""Of one row group of results: each is a file of its own."""
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def check_columns(query: str, columns: Sequence[str], schema: pa.Schema) -> None:
    """Refuse columns that are not there, or whose values make no names of folders."""
    for column in columns:
        if column not in schema.names:
            raise ConfigError(
                f"query {query!r}: partitionBy: there is no column {column!r}: "
                f"choose from {', '.join(schema.names)}"
            )
        kind = schema.field(column).type
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not (texts or pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)):
            raise ConfigError(
                f"query {query!r}: partitionBy: column {column!r} is a {kind}: choose a text, a whole "
                "number, a date or a truth value, such as CAST(ts AS DATE)"
            )
    if set(schema.names) <= set(columns):
        raise ConfigError(f"query {query!r}: partitionBy: at least one column must stay in the files")


def split(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Path, pa.Table]]:
    """Rows by folder, without the columns that the folder tells.

    An empty text has no name of its own, and becomes NULL, as with Hive and Spark.
    """
    keys = pa.table({name: _without_empty(rows.column(name)) for name in columns}).combine_chunks()
    distinct = keys.group_by(columns).aggregate([]).to_pylist()
    if len(distinct) > MOST_PARTITIONS:
        raise SinkError(
            f"partitionBy = {', '.join(columns)}: {len(distinct):,} different values in one batch, more than "
            f"{MOST_PARTITIONS:,}: choose a column with fewer values"
        )
    for values in sorted(distinct, key=lambda v: str(list(v.values()))):
        mine = _equal(keys, values)
        yield folder_of(values), rows.filter(mine).drop_columns(list(columns))


def folder_of(values: dict[str, Any]) -> Path:
    """The folder of rows with these values.

    >>> str(folder_of({"day": "a b/c", "n": None, "late": True}))
    'day=a%20b%2Fc/n=__HIVE_DEFAULT_PARTITION__/late=true'
    """
    return Path(*(f"{quote(name, safe='')}={_text(value)}" for name, value in values.items()))


def _without_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pc.if_else(pc.equal(column, pa.scalar("", column.type)), pa.scalar(None, column.type), column)


def _text(value: Any) -> str:
    if value is None:
        return NULL_FOLDER
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe="")


def _equal(keys: pa.Table, values: dict[str, Any]) -> pa.ChunkedArray:
    found = None
    for name, value in values.items():
        column = keys.column(name)
        mine = (
            column.is_null()
            if value is None
            else pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), False)
        )
        found = mine if found is None else pc.and_(found, mine)
    return found
