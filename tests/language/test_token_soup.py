"""Whatever tokens a text is made of, it is read or refused in our own words."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.errors import QueryError
from anabranch.language.flow import bind_query, parse_flow
from anabranch.plan.logical import Column, Stream

WORDS = (  # noqa: SIM905
    "SELECT FROM WHERE GROUP BY HAVING AND OR NOT IN BETWEEN LIKE CASE WHEN THEN ELSE END CAST AS DISTINCT "
    "COUNT SUM EXTRACT TRIM INTERVAL DATE TIMESTAMP NULL TRUE RANGE NOW ROWS UNBOUNDED SECOND k d t ts s u "
    ". .. , ; ( ) [ ] + - * / % = < > <= <> != || :: : ? @ ! & | ^ ~ 1 1.5 1.5BD .5 1e5 1e999 9L 1S 2Y 3F "
    "4D 1e400BD 'x' \"q\" `k` x'ff' 0x1F ${a} -- /* */ \\ # $ { } => -> ->> @@ $1 :a INTO console CREATE "
    "QUERY STREAM SET OPTIONS TIME LATENESS parquet BIGINT DECIMAL(3,1) é OVER LATERAL VIEW JOIN ON LEFT "
    "USING UNION EXISTS ARRAY[1] MAP STRUCT TABLESAMPLE PIVOT QUALIFY WITH"
).split()
COLUMNS = (
    Column("k", "bigint"),
    Column("d", "decimal(10,2)"),
    Column("t", "string"),
    Column("p", "struct<a:int>"),
    Column("ts", "timestamp"),
)
STREAMS = {"s": Stream("s", COLUMNS, "ts")}
FLOW = "CREATE STREAM s (k BIGINT, ts TIMESTAMP) FROM json 'x' TIME ts;\nCREATE QUERY q INTO console AS "
soups = st.builds(
    lambda words, glue: glue.join(words),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=14),
    st.sampled_from(["", " "]),
)


@given(soups)
@example("SELECT k..1.5BD")
@example("SELECT k..1.5BD FROM s [NOW]")
def test_a_soup_of_tokens_is_read_or_refused(text: str) -> None:
    for select in (text, f"SELECT {text}", f"SELECT {text} FROM s [NOW]"):
        for read in (
            lambda select=select: bind_query("q", select, STREAMS),
            lambda select=select: parse_flow(FLOW + select),
            lambda select=select: parse_flow(select),
        ):
            with suppress(QueryError):
                read()


@pytest.mark.parametrize(
    "text", ["SELECT p.a FROM s", "SELECT s.p.a FROM s", "SELECT k FROM s WHERE p.a = 1"]
)
def test_a_field_of_a_struct_is_named_as_such(text: str) -> None:
    with pytest.raises(QueryError, match=r"column 'p' is a struct") as refused:
        bind_query("q", text, STREAMS)
    assert "p.a" in refused.value.suggestion
