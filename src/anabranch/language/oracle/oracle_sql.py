"""The definition of a right result: a continuous query as one batch SELECT in DuckDB.

The tables are named after the streams and hold the accepted rows with the streams' own columns.
Timestamps are TIMESTAMP and mean UTC. The user's SELECT and WHERE are rendered whole: nothing here
uses the fields, key classes or filters that the plan is made of, so that it can judge them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.language.binding.binder import bind_select
from anabranch.language.binding.scope import Reference
from anabranch.language.expressions.expression import (
    AggregateValue,
    Call,
    Cast,
    ColumnValue,
    Expression,
    aliases_in,
    duckdb_sql,
    is_spark_only,
    spark_sql,
)
from anabranch.language.expressions.types import duckdb_type
from anabranch.language.oracle.oracle_group_windows import windowed_sql
from anabranch.language.oracle.oracle_joined import joined_sql
from anabranch.language.oracle.oracle_windows import grouped_sql
from anabranch.language.syntax.dialect import parse_select
from anabranch.language.syntax.source_text import SourceText
from anabranch.plan.logical import UNBOUNDED_US, Query, Stream


def oracle_sql(query: Query, streams: Mapping[str, Stream]) -> str:
    """Render `query` as batch SQL over the accepted rows.

    Examples
    --------
    >>> from anabranch.language.flow import bind_query
    >>> from anabranch.plan.logical import Column
    >>> streams = {"s": Stream("s", (Column("id", "bigint"), Column("ts", "timestamp")), "ts")}
    >>> query = bind_query("q", "SELECT a.id FROM s [NOW] a, s [RANGE UNBOUNDED] b", streams)
    >>> print(oracle_sql(query, streams))
    SELECT "a"."id" AS "id"
    FROM "s" AS "a", "s" AS "b"
    WHERE greatest(epoch_us("a"."ts"), epoch_us("b"."ts")) - epoch_us("a"."ts") <= 0
    """
    source = SourceText(query.text)
    bound = bind_select(parse_select(source), streams, source)
    references = bound.scope.references
    if bound.grouping is not None and bound.grouping.window is not None:
        within = _window_conditions(references)
        return windowed_sql(bound.grouping, references, bound.outputs, bound.conditions, within, _column)
    if bound.grouping is not None and len(references) > 1:
        within = _window_conditions(references)
        return joined_sql(bound.grouping, references, bound.outputs, bound.conditions, within, _column)
    if bound.grouping is not None:
        return grouped_sql(bound.grouping, references[0], bound.outputs, bound.conditions, _column)
    outputs = ", ".join(f"{_render(value)} AS {_quote(name)}" for name, value in bound.outputs)
    tables = ", ".join(f"{_quote(r.stream.name)} AS {_quote(r.alias)}" for r in references)
    conditions = [*map(_render, bound.conditions), *_window_conditions(references)]
    where = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {outputs}\nFROM {tables}{where}"


def oracle_table(stream: Stream) -> str:
    """The statement that creates the table `oracle_sql` reads a stream from.

    >>> from anabranch.plan.logical import Column
    >>> oracle_table(Stream("s", (Column("name", "string"), Column("ts", "timestamp")), "ts"))
    'CREATE TABLE "s" ("name" VARCHAR, "ts" TIMESTAMP)'
    """
    columns = ", ".join(f"{_quote(column.name)} {duckdb_type(column.type)}" for column in stream.columns)
    return f"CREATE TABLE {_quote(stream.name)} ({columns})"


def _window_conditions(references: tuple[Reference, ...]) -> list[str]:
    if len(references) == 1:
        return []
    times = {r.alias: f"epoch_us({_quote(r.alias)}.{_quote(r.stream.time)})" for r in references}
    newest = f"greatest({', '.join(times.values())})"
    return [
        f"{newest} - {times[reference.alias]} <= {reference.window_us}"
        for reference in references
        if reference.window_us != UNBOUNDED_US
    ]


def _render(value: Expression) -> str:
    return duckdb_sql(value, _column)


def given_values(query: Query, streams: Mapping[str, Stream]) -> dict[str, list[str]]:
    """By stream, what only Spark computes: `oracle_sql` finds it in a column that is called like its SQL."""
    source = SourceText(query.text)
    bound = bind_select(parse_select(source), streams, source)
    of = {reference.alias: reference.stream.name for reference in bound.scope.references}
    found: dict[str, dict[str, None]] = {}
    grouping = bound.grouping
    keys = () if grouping is None else (*grouping.keys, *([grouping.having] if grouping.having else []))
    for value in (*bound.conditions, *(value for _, value in bound.outputs), *keys):
        for alias, sql in _given(value):
            found.setdefault(of[alias], {})[sql] = None
    return {stream: list(values) for stream, values in found.items()}


def _given(value: Expression) -> Iterator[tuple[str, str]]:
    if is_spark_only(value):
        (alias,) = aliases_in(value)
        yield alias, spark_sql(value)
        return
    parts: tuple[Expression, ...] = ()
    if isinstance(value, Cast):
        parts = (value.value,)
    elif isinstance(value, Call):
        parts = value.args
    elif isinstance(value, AggregateValue):
        parts = value.inputs
    for part in parts:
        yield from _given(part)


def _column(value: Expression) -> str | None:
    if is_spark_only(value):
        (alias,) = aliases_in(value)
        return f"{_quote(alias)}.{_quote(spark_sql(value))}"
    return f"{_quote(value.alias)}.{_quote(value.name)}" if isinstance(value, ColumnValue) else None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
