"""Expressions that span streams, evaluated by DuckDB on Arrow columns.

The text comes from the binder, which lets only allow-listed expressions through; the connection
has no access to files or extensions all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import Output

BAD_VALUE = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
    pa.ArrowInvalid,
)
"""What an expression raises that has no value for some row: a cast that fails, a sum that overflows."""


def filter_rows(rows: pa.Table, predicates: Sequence[str]) -> pa.Table:
    """Rows for which every predicate is true."""
    if not predicates or not rows.num_rows:
        return rows
    where = " AND ".join(f"({p})" for p in predicates)
    return _connection().from_arrow(rows).filter(where).to_arrow_table()


def where(rows: pa.Table, predicate: str) -> npt.NDArray[np.bool_]:
    """For which rows a predicate is true."""
    holds = _connection().from_arrow(rows).project(f"({predicate}) IS TRUE AS holds").to_arrow_table()
    flags: npt.NDArray[np.bool_] = holds.column("holds").to_numpy()
    return flags


def project(rows: pa.Table, outputs: Sequence[Output]) -> pa.Table:
    """The columns of the result, in the types the binder promised."""
    computed = [o for o in outputs if o.field is None]
    if computed and rows.num_rows:
        select = ", ".join(f"{o.sql} AS c{i}" for i, o in enumerate(computed))
        values = _connection().from_arrow(rows).project(select).to_arrow_table()
    by_name = {id(o): i for i, o in enumerate(computed)}
    columns = []
    for output in outputs:
        kind = arrow_type(output.type)
        if output.field is not None:
            column = rows.column(f"{output.field[0]}.{output.field[1]}")
        elif rows.num_rows:
            column = values.column(by_name[id(output)])
        else:
            column = pa.chunked_array([pa.array([], type=kind or pa.null())])
        columns.append(column if kind is None or column.type == kind else column.cast(kind))
    return pa.table(columns, names=[o.name for o in outputs])


def to_json(rows: pa.RecordBatch) -> pa.ChunkedArray:
    """Each row as a JSON object; bytes that are not text are written in hex, after a backslash and x."""
    columns = [valid_text(column) for column in rows.columns]
    return _select(pa.table(columns, names=rows.schema.names), "to_json(rows) AS j").column("j")


def valid_text(column: pa.Array) -> pa.Array:
    """Text that is valid UTF-8: of a row with any other DuckDB would make an empty string."""
    if not pa.types.is_large_string(column.type) and not pa.types.is_string(column.type):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        text = [None if value is None else value.decode(errors="backslashreplace") for value in raw]
        return pa.array(text, column.type)
    return column


def join_rows(left: pa.Table, right: pa.Table, predicates: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Pairs (l, r) of row numbers that satisfy the predicates, in chunks.

    Both tables carry `t` (largest time) and `d` (deadline) beside the columns of the predicates.
    """
    window = ["l.t <= r.d", "r.t <= l.d"]
    where = " AND ".join([*window, *(f"({p})" for p in predicates)])
    # A connection of its own: while its result is being read, predicates run on the other one.
    with _connection().cursor() as connection:
        connection.register("l", left)
        connection.register("r", right)
        pairs = connection.sql(f"SELECT l.l AS l, r.r AS r FROM l, r WHERE {where}")
        yield from pairs.to_arrow_reader(1 << 20)


def _select(rows: pa.Table, what: str, condition: str = "") -> pa.Table:
    result = _connection().from_arrow(rows).query("rows", f"SELECT {what} FROM rows {condition}")
    assert result is not None
    return result.to_arrow_table()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One connection per worker process, one thread: the other cores have their own tasks."""
    connection = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": "false"})
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET arrow_large_buffer_size = true")  # a batch may bring more than 2 GiB of text
    connection.execute("SET lock_configuration = true")
    return connection
