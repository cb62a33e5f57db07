"""GROUP BY, HAVING, aggregates and DISTINCT: what they mean, and what is refused with which words."""

from __future__ import annotations

import pytest

from anabranch.errors import QueryError
from anabranch.language.flow import bind_query
from anabranch.language.oracle.oracle_sql import oracle_sql
from anabranch.plan.logical import UNBOUNDED_US, Column, Grouping, Query, Stream

COLUMNS = (
    Column("k", "bigint"),
    Column("i", "int"),
    Column("f", "float"),
    Column("d", "double"),
    Column("n", "decimal(10,2)"),
    Column("w", "decimal(38,2)"),
    Column("t", "string"),
    Column("ts", "timestamp"),
)
STREAMS = {"s": Stream("s", COLUMNS, "ts"), "r": Stream("r", COLUMNS, "ts")}


def bind(text: str) -> Query:
    return bind_query("q", text, STREAMS)


def grouping(text: str) -> Grouping:
    found = bind(text).grouping
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("COUNT(*)", "bigint"),
        ("count(t)", "bigint"),
        ("SUM(i)", "bigint"),
        ("SUM(f)", "double"),
        ("SUM(n)", "decimal(20,2)"),
        ("SUM(w)", "decimal(38,2)"),
        ("AVG(i)", "double"),
        ("AVG(n)", "double"),
        ("MIN(t)", "string"),
        ("MAX(f)", "float"),
        ("MAX(ts)", "timestamp"),
        ("STDDEV(i)", "double"),
        ("VAR_POP(n)", "double"),
        ("SUM(i) + COUNT(*)", "bigint"),
        ("SUM(CASE WHEN d > 0 THEN 1 ELSE 0 END)", "bigint"),
    ],
)
def test_aggregates_have_the_types_of_the_manual(call: str, type_: str) -> None:
    assert bind(f"SELECT {call} AS a FROM s [ROWS 5]").outputs[0].type == type_


def test_equal_aggregates_are_computed_once() -> None:
    found = grouping("SELECT k, SUM(i) AS a, SUM(i) + 1 AS b FROM s [NOW] GROUP BY k HAVING SUM(i) > 0")
    assert len(found.aggregates) == 1
    assert found.having is not None
    assert '"#.0"' in found.having


def test_a_key_may_be_an_expression_and_stand_inside_another() -> None:
    query = bind("SELECT floor(d) + 1 AS a, COUNT(*) AS n FROM s [NOW] GROUP BY floor(d)")
    assert query.grouping is not None
    assert query.refs[0].fields[query.grouping.keys[0].field].type == "bigint"


def test_keys_are_hashed_in_the_type_of_their_family() -> None:
    keys = grouping("SELECT COUNT(*) AS n FROM s [NOW] GROUP BY i, f, t").keys
    assert [k.hashed.type for k in keys] == ["bigint", "double", "string"]


def test_an_aggregate_without_a_name_is_called_after_its_function() -> None:
    assert [o.name for o in bind("SELECT k, COUNT(*) FROM s [NOW] GROUP BY k").outputs] == ["k", "count"]


def test_a_window_by_count_has_no_bound_in_time() -> None:
    query = bind("SELECT COUNT(*) AS n FROM s [ROWS 5]")
    assert query.grouping is not None
    assert (query.grouping.rows, query.refs[0].window_us) == (5, UNBOUNDED_US)


def test_distinct_groups_by_every_column_of_the_result() -> None:
    found = grouping("SELECT DISTINCT k, t AS u, k AS again FROM s [RANGE 1 HOUR] WHERE i > 0")
    assert found.distinct
    assert len(found.keys) == 2


REFUSED = [
    ("SELECT k, t, COUNT(*) AS n FROM s [NOW] GROUP BY k", 1, 11, "'t' is neither grouped by nor aggregated"),
    ("SELECT k + i AS a FROM s [NOW] GROUP BY k", 1, 12, "'i' is neither grouped by nor aggregated"),
    ("SELECT * FROM s [NOW] GROUP BY k", 1, 8, "neither grouped by nor aggregated"),
    ("SELECT COUNT(*) AS n FROM s [NOW] HAVING k > 1", 1, 42, "'k' is neither grouped by nor aggregated"),
    ("SELECT k FROM s [NOW] WHERE COUNT(*) > 1", 1, 29, "COUNT is an aggregate, which cannot stand in WHERE"),
    ("SELECT SUM(MAX(i)) AS a FROM s [NOW]", 1, 12, "MAX is an aggregate, which cannot stand in another"),
    ("SELECT COUNT(*) AS n FROM s [NOW] GROUP BY SUM(i)", 1, 44, "cannot stand in GROUP BY"),
    ("SELECT COUNT(*) AS n FROM s [NOW] GROUP BY 1", 1, 8, "cannot stand in GROUP BY"),
    ("SELECT COUNT(*) AS n FROM s [NOW] GROUP BY 2", 1, 44, "SELECT has no column 2"),
    ("SELECT k FROM s [NOW] GROUP BY 'k'", 1, 32, "not a constant"),
    ("SELECT k FROM s [NOW] GROUP BY ALL", 1, 23, "GROUP BY ALL is not supported"),
    ("SELECT k FROM s [NOW] GROUP BY CUBE (k)", 1, 23, "GROUP BY CUBE is not supported"),
    ("SELECT COUNT(DISTINCT k) AS n FROM s [NOW]", 1, 8, r"COUNT\(DISTINCT …\) over the window of a stream"),
    ("SELECT abs(k) FILTER (WHERE i > 0) AS a FROM s [NOW]", 1, 8, "FILTER belongs behind an aggregate"),
    ("SELECT SUM(i) FILTER (WHERE SUM(i) > 0) AS a FROM s [NOW]", 1, 29, "cannot stand in FILTER"),
    ("SELECT SUM(i) OVER (PARTITION BY k) AS a FROM s [NOW]", 1, 8, "a window function is not supported"),
    ("SELECT COUNT(*) AS n FROM s", 1, 27, "stream s has no window, and an aggregate needs one"),
    ("SELECT DISTINCT k FROM s", 1, 24, "stream s has no window, and DISTINCT needs one"),
    (
        "SELECT a.k AS k, b.k AS l, COUNT(*) AS n FROM s [NOW] a, r [NOW] b WHERE a.k = b.k GROUP BY a.k",
        1,
        18,
        "'b.k' is neither grouped by nor aggregated",
    ),
    ("SELECT COUNT(*) AS n FROM s [NOW] a, r b WHERE a.k = b.k", 1, 38, "stream r has no window"),
    (
        "SELECT COUNT(*) AS n FROM s [ROWS 5] a, r [NOW] b",
        1,
        29,
        r"\[ROWS n\] is not supported in a join",
    ),
    ("SELECT DISTINCT k, COUNT(*) AS n FROM s [NOW]", 1, 17, "DISTINCT of aggregates"),
    ("SELECT DISTINCT k FROM s [NOW] GROUP BY k", 1, 17, "DISTINCT and GROUP BY"),
    ("SELECT DISTINCT ON (k) i FROM s [NOW]", 1, 24, "DISTINCT ON is not supported"),
    ("SELECT DISTINCT k FROM s [ROWS 5]", 1, 24, r"DISTINCT over \[ROWS n\]"),
    ("SELECT k FROM s [ROWS 5]", 1, 17, r"\[ROWS n\] is a window for aggregates only"),
    (
        "SELECT a.k FROM s [ROWS 5] a, r [NOW] b WHERE a.k = b.k",
        1,
        19,
        r"\[ROWS n\] is not supported in a join",
    ),
    ("SELECT COUNT(*) AS n FROM s [ROWS 0]", 1, 29, r"\[ROWS n\] takes 1 to"),
    ("SELECT SUM(t) AS a FROM s [NOW]", 1, 8, "sum needs numbers, found string"),
    ("SELECT SUM(i, k) AS a FROM s [NOW]", 1, 8, "SUM takes 1 argument, not 2"),
    ("SELECT MEDIAN(i) AS a FROM s [NOW]", 1, 8, "a percentile over the window of a stream"),
    ("SELECT MODE(i) AS a FROM s [NOW]", 1, 8, "there is no such aggregate"),
    ("SELECT COUNT(*) AS n FROM s [NOW] HAVING SUM(i)", 1, 42, "expected a condition"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_a_grouping_cannot_be_is_refused(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        bind(text)
    assert (refused.value.line, refused.value.column) == (line, column)
    assert refused.value.suggestion


def test_the_oracle_is_a_window_function() -> None:
    query = bind(
        "SELECT k, COUNT(*) AS n FROM s [RANGE 5 MICROSECONDS] WHERE i > 0 GROUP BY k HAVING COUNT(*) > 1"
    )
    assert oracle_sql(query, STREAMS) == (
        'SELECT "s"."k" AS "k", "#0" AS "n"\n'
        'FROM (SELECT "s".*, count(*) OVER (PARTITION BY "s"."k" ORDER BY epoch_us("s"."ts") '
        'RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS "#0"\n'
        '  FROM (SELECT *, row_number() OVER () AS "#arrival" FROM "s") AS "s"\n'
        '  WHERE ("s"."i" > CAST(0 AS INTEGER))) AS "s"\n'
        'WHERE ("#0" > CAST(1 AS BIGINT))'
    )


JOIN = "FROM s [RANGE 5 MICROSECONDS] a, r [NOW] b"


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        (f"SELECT a.k, COUNT(*) AS n {JOIN} WHERE a.k = b.k GROUP BY a.k", (0,)),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.k = b.k GROUP BY b.k, a.i", (0,)),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.i = b.k GROUP BY a.i", (0,)),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.i = b.d GROUP BY a.i", (0,)),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.k = b.k AND a.t = b.t GROUP BY b.t", (1,)),
        (f"SELECT DISTINCT b.k AS x {JOIN} WHERE a.k = b.k", (0,)),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.k = b.k GROUP BY a.k + 1", ()),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.i = b.k GROUP BY CAST(a.i AS BIGINT)", (0,)),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.k = b.k GROUP BY CAST(a.k AS INT)", ()),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.k = b.k GROUP BY a.i", ()),
        (f"SELECT COUNT(*) AS n {JOIN} WHERE a.k = b.k", ()),
    ],
)
def test_groups_of_a_join_fix_the_keys_that_they_are_grouped_by(text: str, classes: tuple[int, ...]) -> None:
    assert grouping(text).classes == classes


def test_a_join_keeps_of_its_results_what_groups_and_aggregates_need() -> None:
    query = bind(f"SELECT SUM(a.i + b.i) + 1 AS x {JOIN} WHERE a.k = b.k AND a.d < b.d GROUP BY a.t")
    assert query.grouping is not None
    assert [v.name for v in query.grouping.values] == [
        '"a"."t"::string',
        'TRY("a"."i" + "b"."i")::int',
    ]


def test_the_oracle_of_a_grouped_join_compares_results_pair_by_pair() -> None:
    query = bind(f"SELECT a.k, COUNT(*) AS n {JOIN} WHERE a.k = b.k GROUP BY a.k")
    text = oracle_sql(query, STREAMS)
    assert 'greatest(epoch_us("a"."ts"), epoch_us("b"."ts")) AS "#time"' in text
    assert 'least(epoch_us("a"."ts") + 5, epoch_us("b"."ts") + 0) AS "#deadline"' in text
    assert 'ON c."#time" <= r."#time" AND r."#time" <= c."#deadline"' in text
