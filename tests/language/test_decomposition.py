"""Filters, keys, residuals and fields, put together again, give what the oracle gives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.language.flow import bind_query
from anabranch.language.oracle.oracle_sql import oracle_sql
from anabranch.plan.logical import Query, Ref, column_name
from tests.language.nasty import STREAMS, bind, comparable, in_duckdb, in_spark, nasty_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FROM = "FROM nasty [RANGE UNBOUNDED] a, nasty [NOW] b"
QUERIES = {
    "long keys": f"SELECT a.k, b.k AS k2, a.l1 + b.l2 AS x {FROM} WHERE a.l1 = b.l2",
    "double keys": f"SELECT a.k, b.k AS k2 {FROM} WHERE a.d1 = b.d2 AND a.k < b.k",
    "int with double": f"SELECT a.k, b.k AS k2 {FROM} WHERE a.i1 = b.d1",
    "long with decimal": f"SELECT a.k, b.k AS k2, a.n1 * b.n1 AS x {FROM} WHERE a.i1 = b.n2 AND b.b1",
    "decimals of two scales": f"SELECT a.k, b.k AS k2 {FROM} WHERE a.n1 = b.w1",
    "text": f"SELECT a.k, a.s1 || b.s2 AS x {FROM} WHERE a.s1 = b.s2 AND length(a.s1) <> 3",
    "binary, date and time": f"SELECT a.k, b.k AS k2, b.u1 {FROM}"
    " WHERE a.x1 = b.x2 AND a.e1 = b.e2 AND a.u1 = b.u2",
    "lengths of time": f"SELECT a.k, b.k AS k2 {FROM} WHERE a.u1 - a.u2 = b.u1 - b.u2 AND a.k <= b.k"
    " AND coalesce(a.u1 - a.u2, INTERVAL 1 DAY) = coalesce(b.u1 - b.u2, INTERVAL 2 DAYS)",
    "one side twice": f"SELECT a.k, b.k AS k2 {FROM} WHERE a.l1 = b.l2 AND a.i1 = b.l2",
    "three streams": "SELECT a.k, b.k AS k2, c.k AS k3 FROM nasty [NOW] a, nasty [NOW] b, nasty [NOW] c"
    " WHERE a.k = b.k + 1 AND b.k = c.k + 1 AND (a.d1 < b.d1 OR a.s1 = c.s2 OR a.u1 - c.u1 > INTERVAL 1 DAY)",
    "no equality": f"SELECT a.k, b.k AS k2, least(a.f1, b.d1) AS x {FROM}"
    " WHERE a.k < 30 AND b.k < 30 AND a.d1 * b.d1 > a.i1 % b.i2",
    "constants": f"SELECT a.k, 'x' AS x, 1.5 AS y {FROM} WHERE a.k = b.k AND 1 < 2",
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_parts_together_mean_the_query(spark: SparkSession, name: str) -> None:
    rows = nasty_rows().slice(0, 120)
    query = bind_query("q", QUERIES[name], STREAMS)
    expected = evaluate_oracle(query, rows)
    assert expected
    assert evaluate_parts(spark, query, rows) == expected


def evaluate_oracle(query: Query, rows: pa.Table) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("nasty", without_zones(rows))
        return multiset(connection.sql(oracle_sql(query, STREAMS)).to_arrow_table())


def evaluate_parts(spark: SparkSession, query: Query, rows: pa.Table) -> Counter[tuple[Any, ...]]:
    """What the engine will do: Spark for each reference, DuckDB for what spans them."""
    frame = spark.createDataFrame(rows)
    with duckdb.connect() as connection:
        for ref in query.refs:
            columns = [
                *(
                    f"CAST({f.sql} AS {f.type}) AS `{column_name(ref.alias, n)}`"
                    for n, f in enumerate(ref.fields)
                ),
                *(f"{key} AS `{name}`" for name, key in keys_of(query, ref).items()),
            ]
            part = frame.filter(ref.filter) if ref.filter else frame
            connection.register(ref.alias, part.selectExpr("1 AS row", *columns).toArrow())
        equal = [
            f'{c.members[0].alias}."key {n}" = {other.alias}."key {n}"'
            for n, c in enumerate(query.classes)
            for other in c.members[1:]
        ]
        conditions = " AND ".join([*equal, *(r.sql for r in query.residuals)]) or "TRUE"
        outputs = ", ".join(f"{o.sql} AS c{n}" for n, o in enumerate(query.outputs))
        tables = ", ".join(ref.alias for ref in query.refs)
        return multiset(connection.sql(f"SELECT {outputs} FROM {tables} WHERE {conditions}").to_arrow_table())


def keys_of(query: Query, ref: Ref) -> dict[str, str]:
    return {
        f"key {n}": f"CAST({member.field.sql} AS {c.type})"
        for n, c in enumerate(query.classes)
        for member in c.members
        if member.alias == ref.alias
    }


def without_zones(rows: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def multiset(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [[comparable(value) for value in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True))


def expressions(depth: int) -> dict[str, st.SearchStrategy[str]]:
    """SQL by kind of value; every operator on every nasty input it may get."""
    leaves = {
        "number": st.sampled_from(
            ["t1", "h2", "i1", "i2", "l1", "l2", "f1", "d1", "d2", "0", "1", "-1", "1e0", "2.5e0"]
        ),
        "text": st.sampled_from(["s1", "s2", "''", "'a'", "'\\u00e9'"]),
        "truth": st.sampled_from(["b1", "b2", "TRUE", "NULL"]),
        "time": st.sampled_from(["u1", "u2", "TIMESTAMP '2024-03-10 02:30:00'"]),
    }
    if depth == 0:
        return leaves
    inner = expressions(depth - 1)
    number, text, truth, time = (inner[kind] for kind in ("number", "text", "truth", "time"))

    def form(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.tuples(*parts).map(lambda values: pattern.format(*values))

    binary = st.sampled_from(["+", "-", "*", "/", "%"])
    comparison = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    return {
        "number": leaves["number"]
        | form("({} {} {})", number, binary, number)
        | form("(- {})", number)
        | form("abs({})", number)
        | form("CASE WHEN {} THEN {} ELSE {} END", truth, number, number)
        | form("coalesce({}, {})", number, number)
        | form("greatest({}, {})", number, number)
        | form("CAST({} AS BIGINT)", number)
        | form("CAST({} AS INT)", text)
        | form("length({})", text)
        | form("floor({})", number)
        | form("unix_seconds({})", time),
        "text": leaves["text"]
        | form("concat({}, {})", text, text)
        | form("substring({}, 1, 2)", text)
        | form("trim({})", text)
        | form("nullif({}, {})", text, text),
        "truth": leaves["truth"]
        | form("({} {} {})", number, comparison, number)
        | form("({} {} {})", text, comparison, text)
        | form("({} {} {})", time, comparison, time)
        | form("({} AND {})", truth, truth)
        | form("({} OR {})", truth, truth)
        | form("(NOT {})", truth)
        | form("({} IS NULL)", number)
        | form("({} IN ({}, {}))", number, number, number),
        "time": leaves["time"] | form("({} + INTERVAL 90 MINUTES)", time),
    }


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(*expressions(3).values()), min_size=15, max_size=25))
def test_generated_expressions_have_one_meaning(spark: SparkSession, texts: list[str]) -> None:
    usable = [text for text in texts if text != "NULL"]
    rows = nasty_rows().slice(0, 150)
    query = bind(usable)
    types, from_spark = in_spark(spark, query, rows)
    assert types[1:] == [output.type for output in query.outputs[1:]]
    for text, left, right in zip(["k", *usable], from_spark, in_duckdb(query, rows), strict=True):
        assert left == right, text
