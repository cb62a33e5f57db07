"""A test kit for flows: rows in, results out, in milliseconds, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.errors import ConfigError
from anabranch.language.flow import parse_flow
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import Flow, Query, Stream
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.testing.stream_model import StreamModel, expected_rows, scratch

Row = Mapping[str, Any]


class FlowTest:
    """Runs a flow in this process, batch by batch, on rows that a test hands over.

    The batch loop, the state and the operators are those of a session on Spark. Expressions of one stream are
    computed by DuckDB instead of Spark, which gives the same values for all functions a query may call.
    Sources and sinks of the flow file are not touched.

    Parameters
    ----------
    flow
        The path of a flow file, its text, or what `ab.parse_flow` made of it.

    Examples
    --------
    >>> text = '''
    ... CREATE STREAM orders (id BIGINT, amount DOUBLE, ts TIMESTAMP) FROM csv 'in' TIME ts;
    ... CREATE QUERY large INTO parquet 'out' AS SELECT id FROM orders WHERE amount > 200;
    ... '''
    >>> with FlowTest(text) as flow:
    ...     flow.batch(orders=[{"id": 1, "amount": 300.0, "ts": "2026-01-01 12:00:00"}])
    ...     flow.results("large")
    [{'id': 1}]
    """

    def __init__(self, flow: Flow | str | os.PathLike[str], *, sites: int = 2) -> None:
        self._flow = _parsed(flow)
        self._models = {s.name: StreamModel(s) for s in self._flow.streams}
        self._places = ExitStack()
        root = self._places.enter_context(scratch())
        settings = Settings().with_values(self._flow.settings).with_values([("sites", str(sites))])
        self._run = LocalRun(root, self._flow.streams, self._flow.queries, settings=settings.resolved(1))
        self._places.callback(self._run.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._places.close()

    def batch(self, **rows: Iterable[Row]) -> None:
        """Let rows arrive as one micro-batch: by stream, a list of dictionaries.

        Columns that a row does not have are NULL. A time is a datetime or a text; without a zone it is UTC.
        """
        for name in rows.keys() - self._models.keys():
            raise ConfigError(f"the flow has no stream {name!r}: choose from {', '.join(self._models)}")
        tables = {name: _table(model.stream, rows.get(name, ())) for name, model in self._models.items()}
        for name, model in self._models.items():
            model.take(tables[name])
        self._run.batch({name: table for name, table in tables.items() if table.num_rows})

    def end_of_input(self) -> None:
        """Declare that nothing older will come: every row is final."""
        self._run.end_of_input()

    def results(self, query: str) -> list[dict[str, Any]]:
        """Everything that a query has emitted so far, in no order that counts."""
        rows: list[dict[str, Any]] = self._run.results(self._query(query).name).to_pylist()
        return rows

    @property
    def late(self) -> dict[str, int]:
        """Late rows so far, by stream."""
        manifest = self._run.loop.manifest
        return {s.name: s.late for s in manifest.streams} if manifest else {}

    def check(self) -> None:
        """Declare the end of input, and compare all results with DuckDB's over the accepted rows.

        Raises
        ------
        AssertionError
            With the rows that are missing or too many.
        """
        self.end_of_input()
        for query in self._flow.queries:
            tables = {name: model.rows_for(query) for name, model in self._models.items()}
            expected = expected_rows(query, self._flow.streams, tables)
            assert_same_rows(self._run.results(query.name), expected, what=f"query {query.name}")

    def _query(self, name: str) -> Query:
        for query in self._flow.queries:
            if query.name.lower() == name.lower():
                return query
        names = ", ".join(q.name for q in self._flow.queries)
        raise ConfigError(f"the flow has no query {name!r}: choose from {names}")


def _parsed(flow: Flow | str | os.PathLike[str]) -> Flow:
    if isinstance(flow, Flow):
        return flow
    if isinstance(flow, str) and ";" in flow:
        return parse_flow(flow)
    path = Path(flow)
    if not path.is_file():
        raise ConfigError(f"there is no flow file {str(flow)!r}: give its path, or the text of a flow")
    return parse_flow(path.read_text(encoding="utf-8-sig"), path=str(path))


def _table(stream: Stream, rows: Iterable[Row]) -> pa.Table:
    """Rows of a stream as Arrow."""
    given = list(rows)
    names = [c.name for c in stream.columns]
    for row in given:
        for name in row.keys() - set(names):
            raise ConfigError(
                f"stream {stream.name!r} has no column {name!r}: choose from {', '.join(names)}"
            )
    columns = {}
    for column in stream.columns:
        kind = arrow_type(column.type)
        values = [row.get(column.name) for row in given]
        if kind is not None and pa.types.is_timestamp(kind):
            values = [_time(value) for value in values]
        columns[column.name] = pa.array(values, kind)
    return pa.table(columns)


def _time(value: Any) -> Any:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return moment.astimezone(UTC).replace(tzinfo=None)
    return moment
