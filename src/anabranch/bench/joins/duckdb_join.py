"""The peer of joins of two streams: a DuckDB query per batch, new rows against the window, on either side."""

from __future__ import annotations

import time
from collections.abc import Mapping

import duckdb
import pyarrow as pa


class DuckDBJoin:
    """Rows of the window are tables in memory. One thread, as a slot has one core.

    Parameters
    ----------
    columns
        Of both streams, beside the time, as DuckDB declares them.
    condition
        Of rows `a` and `b`; that their times are near is added.
    """

    def __init__(self, columns: Mapping[str, str], condition: str, window_us: int) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        self._columns = list(columns)
        self._window_us = window_us
        declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        for name in "ab":
            for table in (name, f"new_{name}"):
                self._connection.execute(f"CREATE TABLE {table} ({declared}, t BIGINT)")
        near = f"({condition}) AND abs(a.t - b.t) <= {window_us}"
        self._query = " UNION ALL ".join(
            f"SELECT a.id, b.id AS other FROM {left} a, {right} b WHERE {near}"
            for left, right in (("new_a", "new_b"), ("new_a", "b"), ("a", "new_b"))
        )
        self.results = 0
        self.cpu_s = 0.0
        """CPU time of the last batch, which does not wait for other processes."""

    def batch(self, tables: Mapping[str, pa.Table]) -> float:
        """Seconds of the query and of moving the window."""
        run = self._connection.execute
        for name, table in tables.items():
            plain = table.select(self._columns).append_column("t", table.column("ts").cast(pa.int64()))
            self._connection.register("arrived", plain)
            run(f"DELETE FROM new_{name}")
            run(f"INSERT INTO new_{name} SELECT * FROM arrived")
        started, cpu_s = time.perf_counter(), time.process_time()
        self.results += self._connection.sql(self._query).to_arrow_table().num_rows
        for name, table in tables.items():
            newest = table.column("ts").cast(pa.int64())[-1].as_py()
            run(f"INSERT INTO {name} SELECT * FROM new_{name}")
            run(f"DELETE FROM {name} WHERE t < {newest - self._window_us}")
        self.cpu_s = time.process_time() - cpu_s
        return time.perf_counter() - started
