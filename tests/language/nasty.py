"""A stream of the values that engines disagree on, and two ways to evaluate a SELECT over it."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from anabranch.language.flow import bind_query
from anabranch.language.oracle.oracle_sql import oracle_sql
from anabranch.plan.logical import Column, Query, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN, INF = math.nan, math.inf
DOUBLES = [
    0.0,
    -0.0,
    0.49999999999999994,
    4503599627370495.5,
    4503599627370497.5,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    2.675,
    1e-320,
    5e-324,
    1e15,
    1e300,
    -1e300,
    1.7976931348623157e308,
    2.0**31,
    2.0**31 - 0.5,
    -(2.0**31) - 0.5,
    2.0**53 + 2,
    2.0**63,
    -(2.0**63),
    9223372036854774784.0,
    127.9,
    128.0,
    -128.5,
    NAN,
    INF,
    -INF,
]
FLOATS = [
    0.0,
    -0.0,
    1.5,
    -2.5,
    0.10000000149011612,
    3.4028234663852886e38,
    1.401298464324817e-45,
    16777216.0,
    NAN,
    INF,
    -INF,
]
STRINGS = [
    "",
    " ",
    "a",
    "A",
    "abc",
    "  abc  ",
    "a%b",
    "a_b",
    "a\\b",
    "100%",
    "it's",
    "\u00e9",
    "e\u0301",
    "\U0001f926\U0001f3fc",
    "\u00df",
    "\u0130",
    "\u0391\u03a3",
    "\n",
    "a\nb",
    "\t5\n",
    "5",
    "+5",
    "-5",
    " 5 ",
    "5.7",
    "1e3",
    "1_000",
    "0x1F",
    "007",
    "-0",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "128",
    "1e400",
    "-1e400",
    "1e-400",
    ".5",
    "5.",
    ".",
    "1d",
    "1.5f",
    "nan",
    "NaN",
    "inf",
    "Infinity",
    "true",
    "\u00a0x\u00a0",
    "\u0665",
    "\x00",
    "x" * 70,
]
NOT_UTF8 = [
    b"a\xff",
    b"  a\xff ",
    b" \x80 ",
    b"\xe2\x82 ",
    b" \xf0\x9f\x98",
    b"\xc3",
    b"\x01 \xff\x01",
    b"\xed\xa0\x80",
]
"""Text as a careless source delivers it: no engine looks at the bytes of a string when it reads them."""
INT64 = [
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    10,
    127,
    128,
    -128,
    255,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**62,
    2**63 - 1,
    -(2**63),
]
DECIMALS = [
    "0.00",
    "0.01",
    "-0.01",
    "1.50",
    "2.50",
    "-2.50",
    "0.50",
    "99999999.99",
    "-99999999.99",
    "12345678.91",
]
WIDE = [
    "0.00000",
    "0.00001",
    "-1.23456",
    "999999999999999.99999",
    "-999999999999999.99999",
    "900719925474099.30001",
    "2.50000",
]
TIMES = [
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 3, 10, 7, 30),
    datetime(2024, 11, 3, 6, 30, 0, 1),
    datetime(2024, 2, 29),
    datetime(1900, 2, 28, 23, 0, 0, 5),
    datetime(1582, 10, 10),
]

POOLS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "t": ("tinyint", pa.int8(), [0, 1, -1, 2, 7, 127, -128]),
    "h": ("smallint", pa.int16(), [0, 1, -1, 3, 200, 32767, -32768]),
    "i": ("int", pa.int32(), [v for v in INT64 if -(2**31) <= v < 2**31]),
    "l": ("bigint", pa.int64(), INT64),
    "f": ("float", pa.float32(), FLOATS),
    "d": ("double", pa.float64(), DOUBLES),
    "n": ("decimal(10,2)", pa.decimal128(10, 2), [Decimal(v) for v in DECIMALS]),
    "w": ("decimal(20,5)", pa.decimal128(20, 5), [Decimal(v) for v in WIDE]),
    "s": ("string", pa.string(), STRINGS),
    "b": ("boolean", pa.bool_(), [True, False]),
    "x": ("binary", pa.binary(), [b"", b"\x00", b"\xff", b"a", b"ab"]),
    "e": ("date", pa.date32(), [d.date() for d in TIMES] + [date(2024, 12, 31)]),
    "u": ("timestamp", pa.timestamp("us", tz="UTC"), [t.replace(tzinfo=UTC) for t in TIMES]),
}

COLUMNS = (
    Column("k", "int"),
    *(Column(f"{name}{n}", kind) for name, (kind, _, _) in POOLS.items() for n in (1, 2)),
    Column("ts", "timestamp"),
)
STREAM = Stream("nasty", COLUMNS, "ts")
STREAMS = {"nasty": STREAM}


def nasty_rows(seed: int = 7) -> pa.Table:
    """Every pair of doubles and of longs, and for other types enough random pairs to meet each other."""
    rng = random.Random(seed)
    size = len(DOUBLES) ** 2
    arrays = {"k": pa.array(range(size), pa.int32())}
    for name, (_, kind, values) in POOLS.items():
        pool = [*values, None]
        pairs = [(left, right) for left in pool for right in pool]
        rng.shuffle(pairs)
        chosen = (pairs * (size // len(pairs) + 1))[:size]
        for n in (0, 1):
            arrays[f"{name}{n + 1}"] = pa.array([pair[n] for pair in chosen], kind)
    arrays["ts"] = pa.array([TIMES[0].replace(tzinfo=UTC)] * size, pa.timestamp("us", tz="UTC"))
    return pa.table(arrays)


def with_text_that_is_not_utf8(rows: pa.Table) -> pa.Table:
    """The first rows, with s1 and s2 made of such bytes and of others."""
    texts = [*NOT_UTF8, *(text.encode() for text in STRINGS), None]
    pairs = [(left, right) for left in texts for right in (*NOT_UTF8, b"a", b" ", b"", None)][: rows.num_rows]
    for n in (0, 1):
        # Arrow would look at them too if they came as text.
        column = pa.array([pair[n] for pair in pairs], pa.binary()).view(pa.string())
        name = f"s{n + 1}"
        rows = rows.slice(0, len(pairs)).set_column(rows.column_names.index(name), name, column)
    return rows


def bind(expressions: list[str]) -> Query:
    """A query with one output per expression, the first being the row's number."""
    outputs = ", ".join(f"{text} AS c{n}" for n, text in enumerate(expressions))
    return bind_query("q", f"SELECT k, {outputs} FROM nasty", STREAMS)


def in_spark(spark: SparkSession, query: Query, rows: pa.Table) -> tuple[list[str], list[list[Any]]]:
    """Types and values, by output, of the fields as ingest computes them."""
    fields = [query.refs[0].fields[output.field[1]] for output in query.outputs if output.field]
    frame = spark.createDataFrame(rows).selectExpr(*(f"{f.sql} AS c{n}" for n, f in enumerate(fields)))
    table = frame.toArrow()
    return [field.dataType.simpleString() for field in frame.schema], _by_output(table)


def in_duckdb(query: Query, rows: pa.Table) -> list[list[Any]]:
    """Values, by output, of the oracle."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Kathmandu'")
        naive = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in rows.schema]
        connection.register("nasty", rows.cast(pa.schema(naive)))
        return _by_output(connection.sql(oracle_sql(query, STREAMS)).to_arrow_table())


def _by_output(table: pa.Table) -> list[list[Any]]:
    columns = [[comparable(value) for value in _readable(column).to_pylist()] for column in table.columns]
    order = sorted(range(len(columns[0])), key=lambda row: columns[0][row])
    return [[column[row] for row in order] for column in columns]


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as bytes: some of it Python could not read."""
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column


def comparable(value: Any) -> Any:
    """A value that equals its like: NaN equals NaN, -0.0 equals 0.0, times have no zone."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value
