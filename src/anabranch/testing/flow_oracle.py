"""The right results of a flow over files that are complete and hold no late row: batch SQL in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from anabranch.language.oracle.oracle_sql import oracle_sql, oracle_table
from anabranch.plan.logical import Query, Stream


class FlowOracle:
    """Loads the streams' parquet files once and answers queries over them.

    Parameters
    ----------
    streams
        The streams by name.
    folders
        Where the parquet files of each stream are, by name.
    """

    def __init__(self, streams: Mapping[str, Stream], folders: Mapping[str, Path]) -> None:
        self._streams = streams
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        for name, stream in streams.items():
            self._connection.execute(oracle_table(stream))
            columns = ", ".join(f'"{c.name}"' for c in stream.columns)
            self._connection.execute(
                f"INSERT INTO \"{name}\" SELECT {columns} FROM read_parquet('{folders[name]}/*.parquet')"
            )

    def results(self, query: Query) -> pa.Table:
        """Every row that the query must give, in any order."""
        return self._connection.sql(oracle_sql(query, self._streams)).to_arrow_table()
