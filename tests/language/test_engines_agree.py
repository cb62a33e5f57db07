"""A function is on the allow-list only while Spark and DuckDB compute the same values with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from anabranch.language.expressions.functions import FUNCTIONS
from anabranch.language.expressions.spark_functions import SIGNATURES
from tests.language.nasty import STREAM, bind, in_duckdb, in_spark, nasty_rows, with_text_that_is_not_utf8

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COMPARABLE = ["t", "h", "i", "l", "f", "d", "n", "w", "s", "b", "x", "e", "u"]
EMPTY = [[], ["CAST(NULL AS INT)"]]
NUMERIC = ["t", "h", "i", "l", "f", "d", "n", "w"]

CASES = {
    "comparisons": [f"{c}1 {op} {c}2" for c in COMPARABLE for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")],
    "comparisons of different types": [
        f"{a}1 {op} {b}2" for a in NUMERIC for b in NUMERIC if a < b for op in ("=", "<")
    ],
    # A product of the two wide ones would need more than 38 digits, and is refused.
    "arithmetic of one type": [f"{c}1 {op} {c}2" for c in NUMERIC for op in "+-*" if c + op != "w*"],
    "arithmetic of different types": [
        f"{a}1 {op} {b}2"
        for a in NUMERIC
        for b in NUMERIC
        if a < b
        for op in "+-*"
        if (a, op, b) != ("l", "*", "w")
    ],
    "division and modulo": [f"{a}1 {op} {b}2" for a in "thilfd" for b in "thilfd" for op in "/%"],
    "arithmetic with constants": [
        "i1 + 1",
        "l1 - 1",
        "n1 * 2",
        "n1 + 1.5",
        "d1 * 1.5",
        "d1 / 3",
        "i1 * 1.5",
        "l1 + 1L",
        "t1 + 1",
        "f1 * 2",
        "n1 * 1e0",
        "w1 - 0.5",
        "i1 % 7",
        "l1 / -1",
        "-i1",
        "-l1",
        "-t1",
        "-h1",
        "-d1",
        "-f1",
        "-n1",
        "d1 + 2.5D",
        "f1 + 0.1F",
        "n1 + 2.50BD",
        "h1 + 5S",
        "w1 * 3",
        "l1 * -9223372036854775808",
    ],
    "logic": [
        "b1 AND b2",
        "b1 OR b2",
        "NOT b1",
        "b1 IS NULL",
        "b1 IS NOT NULL",
        "b1 IS TRUE",
        "b1 IS NOT FALSE",
        "s1 IS NULL",
        "i1 IN (1, 2, NULL)",
        "i1 NOT IN (1, 2)",
        "d1 IN (0, d2)",
        "s1 IN ('a', s2)",
        "l1 BETWEEN i1 AND i2",
        "d1 NOT BETWEEN d2 AND 5",
        "d1 = CAST('1e400' AS DOUBLE)",
    ],
    "choices": [
        "CASE WHEN b1 THEN i1 WHEN b2 THEN l1 ELSE 0 END",
        "CASE i1 WHEN 1 THEN 'one' WHEN l2 THEN 'l' END",
        "IF(b1, d1, n1)",
        "coalesce(s1, s2, 'x')",
        "nullif(d1, d2)",
        "nullif(i1, l2)",
        "ifnull(n1, 0)",
        "nvl(s1, '')",
        "coalesce(i1, 1.5)",
        "isnull(s1)",
        "isnotnull(d1)",
        "coalesce(u1, u2)",
        "isnan(d1)",
        "isnan(f1)",
        "isnan(i1)",
        "coalesce(n1, w1)",
        "if(b1, u1, TIMESTAMP '2024-01-01 00:00:00')",
    ],
    "least and greatest": [f"{f}({c}1, {c}2)" for c in "thilfdnwseu" for f in ("least", "greatest")]
    + ["least(i1, l1, 5)"],
    "mathematics": [f"{f}({c}1)" for f in ("abs", "negative") for c in NUMERIC]
    + [f"{f}({c}1)" for f in ("floor", "ceil", "ceiling", "sqrt", "round") for c in "thilfd"]
    + [
        "mod(i1, i2)",
        "try_add(i1, i2)",
        "try_subtract(l1, l2)",
        "try_multiply(l1, l2)",
        "try_divide(d1, d2)",
        "try_mod(l1, l2)",
        "sqrt(n1)",
    ],
    "bits": [f"{a}1 {op} {b}2" for a, b in ("tt", "hi", "ii", "ll", "il") for op in "&|^"]
    + [f"~{c}1" for c in "thil"],
    "rounding": [f"round({c}1, {n})" for c in "fdnwil" for n in (0, 1, 2)],
    "distance": [
        "l2_distance(array(d1), array(d2))",
        "l2_distance(array(d1, f1, i1, n1), array(d2, f2, l2, -1.5))",
        "l2_distance(array(CASE WHEN b1 THEN d1 ELSE -d1 END, -1), array(d2 - 1, i1 + i2))",
    ],
    "text": [
        "s1 || s2",
        "concat(s1, i1, b1)",
        "concat(s1)",
        "length(s1)",
        "char_length(s1)",
        "character_length(s1)",
        "substring(s1, 1, 2)",
        "substring(s1, 2)",
        "substr(s1, 3, 0)",
        "left(s1, 1)",
        "trim(s1)",
        "ltrim(s1)",
        "rtrim(s1)",
        "trim(BOTH FROM s1)",
        "trim(LEADING FROM s1)",
        "startswith(s1, s2)",
        "endswith(s1, s2)",
        "contains(s1, s2)",
        r"s1 LIKE 'a%'",
        r"s1 LIKE 'a\\%b'",
        r"s1 LIKE '_'",
        r"s1 LIKE '%\\\\%'",
        "s1 NOT LIKE '%b%'",
        "s1 LIKE '100#%' ESCAPE '#'",
        "s1 LIKE 'a\\nb'",
        "s1 = 'it\\'s'",
        "s1 = '\U0001f926\U0001f3fc'",
        "substring('\U0001f926\U0001f3fcx', 2, 2) || s1",
        "s1 = 'a\\\\b'",
    ],
    "casts": [
        f"CAST({a}1 AS {b})"
        for a in "thil"
        for b in (
            "TINYINT",
            "SMALLINT",
            "INT",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "STRING",
            "BOOLEAN",
            "DECIMAL(5,1)",
            "DECIMAL(38,10)",
        )
    ]
    + [f"CAST({a}1 AS {b})" for a in "fd" for b in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE")]
    + [
        f"CAST({a}1 AS {b})"
        for a in "nw"
        for b in ("TINYINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(20,0)", "DECIMAL(38,6)")
    ]
    + [f"TRY_CAST(s1 AS {b})" for b in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE")]
    + [
        "CAST(b1 AS STRING)",
        "CAST(b1 AS INT)",
        "CAST(e1 AS TIMESTAMP)",
        "CAST(u1 AS DATE)",
        "CAST(NULL AS INT)",
        "d1::bigint",
    ],
    "time": [
        "u1 + INTERVAL 5 MINUTES",
        "u1 - INTERVAL '1' DAY",
        "u1 - u2 < INTERVAL 1 HOUR",
        "u1 BETWEEN u2 AND u2 + INTERVAL 10 SECONDS",
        "INTERVAL 2 WEEKS + u1",
        "unix_micros(u1)",
        "unix_millis(u1)",
        "unix_seconds(u1)",
        "timestamp_micros(l1)",
        "timestamp_millis(l1)",
        "timestamp_seconds(l1)",
        "timestamp_seconds(i1)",
        *(
            f"{part}({c}1)"
            for part in ("year", "month", "day", "dayofmonth", "hour", "minute", "second")
            for c in "ue"
        ),
        *(f"EXTRACT({part} FROM u1)" for part in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE")),
        "u1 > TIMESTAMP '2024-03-10 02:30:00'",
        "u1 = TIMESTAMP '1970-01-01T01:00:00+01:00'",
        "e1 >= DATE '2024-02-29'",
        "TIMESTAMP '2024-03-10 02:30:00'",
        "DATE '1582-10-10'",
    ],
}


@pytest.fixture
def far_from_utc(spark: SparkSession) -> Iterator[SparkSession]:
    """A session zone with daylight saving: what a query computes must not depend on it."""
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


NOT_OF_SPARK = ("distance",)
"""Functions that Spark has not: their SQL is made of what it has."""


@pytest.mark.parametrize("group", CASES)
def test_spark_and_duckdb_agree_on_types_and_values(far_from_utc: SparkSession, group: str) -> None:
    expressions, rows = CASES[group], nasty_rows()
    query = bind(expressions)
    types, from_spark = in_spark(far_from_utc, query, rows)
    from_duckdb = in_duckdb(query, rows)
    assert types == [query.refs[0].fields[output.field[1]].type for output in query.outputs if output.field]
    differences = [
        f"{text}: row {row}: Spark {left!r}, DuckDB {right!r}"
        for text, a, b in zip(["k", *expressions], from_spark, from_duckdb, strict=True)
        for row, (left, right) in enumerate(zip(a, b, strict=True))
        if left != right
    ]
    assert [
        text for text, values in zip(expressions, from_spark[1:], strict=True) if set(values) == {None}
    ] in ([], ["CAST(NULL AS INT)"])
    assert not differences, "\n".join(_first_of_each(differences))


@pytest.mark.parametrize("group", [group for group in CASES if group not in NOT_OF_SPARK])
def test_a_result_has_the_type_spark_gives_to_the_text_of_the_user(spark: SparkSession, group: str) -> None:
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(CASES[group]))
    schema = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in STREAM.columns)
    analysed = spark.sql(f"SELECT {columns} FROM (SELECT {schema})").schema
    ours = [output.type for output in bind(CASES[group]).outputs[1:]]
    theirs = [field.dataType.simpleString() for field in analysed]
    assert [(t, o, s) for t, o, s in zip(CASES[group], ours, theirs, strict=True) if o != s] == []


def test_they_agree_on_text_that_is_not_utf8(spark: SparkSession) -> None:
    # How many characters such bytes are is told differently; everything else goes by the bytes.
    counting = ("length(", "substring(s1", "left(")
    found = [text for group in CASES.values() for text in group if "s1" in text]
    expressions = [text for text in found if not any(word in text for word in counting)]
    expressions += ["trim(s1 || s2)", "rtrim(ltrim(trim(s1)))"]
    query, rows = bind(expressions), with_text_that_is_not_utf8(nasty_rows())
    _, from_spark = in_spark(spark, query, rows)
    differences = [
        text
        for text, a, b in zip(["k", *expressions], from_spark, in_duckdb(query, rows), strict=True)
        if a != b
    ]
    assert differences == []


CONSTANTS = [
    *(
        r"'\u0041'",
        r"'\101'",
        r"'\d'",
        r"'\n\t\r\b\Z'",
        r"'\%\_'",
        r"'\\\''",
        r'"a\"b"',
        r"'\f\v'",
        r"'\12'",
        r"'\x41'",
    ),
    *(
        "5.",
        ".5",
        "0.50",
        "00.5",
        "1e3",
        "1.5E-2",
        "00012",
        "2147483648",
        "-2147483648",
        "-9223372036854775808",
    ),
    *(
        "-5.5",
        "1.5D",
        "2.5F",
        "10L",
        "5S",
        "-128Y",
        "-32768S",
        "-9223372036854775808L",
        "127Y",
        "5BD",
        "1.50BD",
        "X'00ff'",
        "- -5",
        "TRUE",
    ),
]


def test_constants_mean_what_they_mean_to_spark(spark: SparkSession) -> None:
    query = bind(CONSTANTS)
    ours = [query.refs[0].fields[output.field[1]].sql for output in query.outputs[1:] if output.field]
    for text, sql in zip(CONSTANTS, ours, strict=True):
        theirs, mine = spark.sql(f"SELECT {text} AS x"), spark.sql(f"SELECT {sql} AS x")
        assert (mine.collect(), mine.schema[0].dataType) == (theirs.collect(), theirs.schema[0].dataType), (
            text
        )


def test_every_function_on_the_list_is_compared() -> None:
    text = " ".join(expression.lower() for group in CASES.values() for expression in group)
    compared = [name for name in FUNCTIONS if name not in SIGNATURES and name != "concat_ws"]
    assert [name for name in compared if f"{name}(" not in text] == []


def _first_of_each(differences: list[str]) -> list[str]:
    firsts: dict[str, str] = {}
    for line in differences:
        firsts.setdefault(line.split(": row")[0], line)
    return list(firsts.values())
