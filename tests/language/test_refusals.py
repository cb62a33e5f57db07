"""What a query may not contain, and where the message points. A ^ marks the place."""

from __future__ import annotations

import pytest

from anabranch.errors import QueryError
from tests.language.streams import bind

LONG = "9" * 5_000
REFUSALS = {
    "unknown column": ("SELECT ^amuont FROM orders", "unknown column 'amuont'", "did you mean amount"),
    "unknown column of an alias": ("SELECT o.^nme FROM orders o", "unknown column 'nme'", "name"),
    "unknown alias": ("SELECT ^x.id FROM orders o", "unknown alias 'x'", "o"),
    "a stream's name behind its alias": ("SELECT ^orders.id FROM orders o", "unknown alias", "o"),
    "ambiguous column": (
        "SELECT ^name FROM orders [NOW], payments [NOW]",
        "ambiguous",
        "orders.name or payments.name",
    ),
    "unknown stream": ("SELECT id FROM ^order", "unknown stream 'order'", "did you mean orders"),
    "missing window": ("SELECT o.id FROM ^orders o, payments [NOW] p", "no window", "[RANGE 1 HOUR]"),
    "rows window": ("SELECT id FROM orders ^[ROWS 5]", "[ROWS n]", "[RANGE n unit]"),
    "bad window": ("SELECT id FROM orders [RANGE 1 ^YEAR]", "not a length of time", "MINUTES"),
    "empty window": ("SELECT id FROM orders [^]", "expected [RANGE n unit]", ""),
    "one alias twice": (
        "SELECT o.id FROM orders [NOW] o, ^payments [NOW] o",
        "two streams are called 'o'",
        "AS o2",
    ),
    "nine streams": (
        "SELECT 1 AS x FROM " + ", ".join(f"clicks [NOW] c{n}" for n in range(8)) + ", ^clicks [NOW] c8",
        "at most 8",
        "split",
    ),
    "one result name twice": ("SELECT id, ^ID FROM orders", "two columns of the result", "AS ID_2"),
    "a star with shared names": (
        "SELECT ^* FROM clicks [NOW] a, clicks [NOW] b",
        "two columns of the result",
        "AS",
    ),
    "no name for a result": ("SELECT ^id + 1 FROM orders", "has no name", "AS"),
    "unusable column": ("SELECT ^tags FROM orders", "array<string>", "AS SELECT"),
    "a star with an unusable column": ("SELECT ^* FROM orders", "array<string>", "name the other columns"),
    "group by": ("SELECT name FROM ^orders GROUP BY name", "GROUP BY needs one", "[RANGE 1 HOUR]"),
    "having": ("SELECT name FROM ^orders HAVING name = 'x'", "HAVING needs one", "[RANGE 1 HOUR]"),
    "aggregate": ("SELECT count(*) AS n FROM ^orders", "an aggregate needs one", "[ROWS 100]"),
    "distinct": ("SELECT DISTINCT id FROM ^orders", "DISTINCT needs one", "[RANGE 1 HOUR]"),
    "order by": ("SELECT id FROM orders ^ORDER BY id", "ORDER BY is not supported", "leave it out"),
    "limit": ("SELECT id FROM orders ^LIMIT 5", "LIMIT is not supported", "leave it out"),
    "with": ("^WITH x AS (SELECT 1) SELECT id FROM orders", "WITH is not supported", "FROM"),
    "union": (
        "SELECT id FROM orders ^UNION ALL SELECT user FROM clicks",
        "UNION is not supported",
        "two queries",
    ),
    "sub-query in FROM": (
        "SELECT id FROM (^SELECT id FROM orders)",
        "FROM takes streams only",
        "sub-queries",
    ),
    "sub-query in WHERE": (
        "SELECT id FROM orders WHERE ^id IN (SELECT user FROM clicks)",
        "sub-query",
        "FROM",
    ),
    "scalar sub-query": ("SELECT (^SELECT 1) AS x FROM orders", "sub-query", "FROM"),
    "left join": (
        "SELECT o.id FROM orders [NOW] o ^LEFT JOIN payments [NOW] p ON TRUE",
        "LEFT JOIN",
        "JOIN … ON",
    ),
    "full join": (
        "SELECT o.id FROM orders [NOW] o ^FULL OUTER JOIN payments [NOW] p ON TRUE",
        "FULL",
        "JOIN … ON",
    ),
    "semi join": (
        "SELECT o.id FROM orders [NOW] o ^LEFT SEMI JOIN payments [NOW] p ON TRUE",
        "JOIN",
        "JOIN … ON",
    ),
    "natural join": (
        "SELECT o.id FROM orders [NOW] o ^NATURAL JOIN payments [NOW] p",
        "NATURAL",
        "JOIN … ON",
    ),
    "using": (
        "SELECT o.id FROM orders [NOW] o JOIN payments [NOW] p ^USING (name)",
        "USING",
        "ON a.id = b.id",
    ),
    "window function": (
        "SELECT ^rank() OVER (ORDER BY id) AS r FROM orders",
        "window function",
        "[RANGE 1 HOUR]",
    ),
    "lateral view": ("SELECT id FROM orders ^LATERAL VIEW explode(tags) AS t", "LATERAL VIEW", "explode"),
    "tablesample": ("SELECT id FROM ^orders TABLESAMPLE (10 PERCENT)", "SAMPLE", "stream only"),
    "type clash": (
        "SELECT id FROM orders WHERE ^name = 1",
        "string and int cannot be compared",
        "CAST the string to INT",
    ),
    "type clash of keys": (
        "SELECT o.id FROM orders [NOW] o, payments [NOW] p WHERE ^o.name = p.order_id",
        "cannot be compared",
        "CAST",
    ),
    "date with timestamp": (
        "SELECT paid FROM payments WHERE ^day = ts",
        "date and timestamp",
        "CAST the date",
    ),
    "text for a time": (
        "SELECT id FROM orders WHERE ^ts > '2024-01-01'",
        "cannot be compared",
        "TIMESTAMP '",
    ),
    "bad timestamp": (
        "SELECT id FROM orders WHERE ts > TIMESTAMP ^'24-1-1'",
        "no timestamp",
        "TIMESTAMP '2024",
    ),
    "no condition": ("SELECT id FROM orders WHERE ^id", "expected a condition", "compare"),
    "no condition in AND": ("SELECT id FROM orders WHERE ^id AND TRUE", "expected a condition", "compare"),
    "decimal division of two streams": (
        "SELECT ^price / fee AS x FROM orders [NOW], payments [NOW]",
        "divide_decimal over two streams",
        "each stream",
    ),
    "too many digits": ("SELECT ^price * id * id AS x FROM orders", "digits", "DOUBLE"),
    "unknown function": ("SELECT ^lenght(name) AS x FROM orders", "function lenght", "length"),
    "power of two streams": (
        "SELECT ^power(amount, paid) AS x FROM orders [NOW], payments [NOW]",
        "power over two streams",
        "each stream",
    ),
    "lower of an aggregate": (
        "SELECT ^lower(max(name)) AS x FROM orders [RANGE 1 HOUR]",
        "lower of an aggregate",
        "inside the aggregate",
    ),
    "upper of a group key": (
        "SELECT ^upper(name) AS x FROM orders [RANGE 1 HOUR] GROUP BY name",
        "before they are grouped",
        "whole expression",
    ),
    "lower of a constant": ("SELECT ^lower('A') AS x FROM orders", "lower of constants", "its value"),
    "explode": ("SELECT ^explode(tags) AS x FROM orders", "plain values", "AS SELECT"),
    "split": ("SELECT ^split(name, ',') AS x FROM orders", "no arrays", "split_part"),
    "element of an array": ("SELECT ^tags[0] AS x FROM orders", "access to an element", "AS SELECT"),
    "round by a column": ("SELECT ^round(amount, id) AS x FROM orders", "constant number", "round(x, 2)"),
    "bits of a double": ("SELECT ^amount & 1 AS x FROM orders", "expected an integer", "BIGINT"),
    "whole division of doubles": ("SELECT ^amount DIV 2 AS x FROM orders", "DIV needs integers", "floor"),
    "wrong number of arguments": ("SELECT ^sqrt(1, 2) AS x FROM orders", "takes 1 argument", "docs"),
    "vectors of two lengths": (
        "SELECT ^l2_distance(array(id, id), array(id)) AS x FROM orders",
        "2 and 1 numbers",
        "same number",
    ),
    "distance of numbers": ("SELECT ^l2_distance(id, id) AS x FROM orders", "two vectors", "array"),
    "array by itself": ("SELECT ^array(id) AS x FROM orders", "array", ""),
    "wrong argument": ("SELECT ^length(id) AS x FROM orders", "expected string", "CAST"),
    "impossible cast": ("SELECT CAST(^ts AS BIGINT) AS x FROM orders", "cannot be cast", "unix_micros"),
    "cast of a time to a number": ("SELECT CAST(^ts AS BIGINT) AS x FROM orders", "cannot be cast", "unix_"),
    "like with a column": ("SELECT id FROM orders WHERE ^name LIKE name", "pattern of LIKE", "contains"),
    "like with a bad escape": (r"SELECT id FROM orders WHERE ^name LIKE 'a\\b'", "must precede", "double it"),
    "months": (
        "SELECT id FROM orders WHERE ts > TIMESTAMP '2024-01-01' + INTERVAL 1 ^MONTH",
        "length of time",
        "MINUTES",
    ),
    "a length of time as a result": ("SELECT ^ts - ts AS x FROM orders", "interval", "unix_micros"),
    "a bare NULL as a result": ("SELECT ^NULL AS x FROM orders", "void", "CAST(NULL AS type)"),
    "a number beyond a double": ("SELECT ^1e400 AS x FROM orders", "larger than a DOUBLE", "smaller"),
    "a number beyond its suffix": ("SELECT ^300Y AS x FROM orders", "does not fit TINYINT", "larger type"),
    "a doubled quote": ("SELECT ^'it''s' AS x FROM orders", "two quoted parts", "for a quote inside"),
    "no FROM": ("SELECT ^1 AS x", "needs FROM", "FROM"),
    "unclosed text": ("SELECT id FROM orders WHERE name = ^'abc", "not closed", "'"),
    "unclosed parenthesis": ("SELECT id FROM orders WHERE ^(", "unexpected", "docs"),
    "a number of thousands of digits": (f"SELECT ^{LONG} AS x FROM orders", "larger than a BIGINT", "1e20"),
    "such a number with a sign": (f"SELECT -^{LONG} AS x FROM orders", "larger than a BIGINT", "1e20"),
    "such a number with a suffix": (f"SELECT ^{LONG}L AS x FROM orders", "not fit BIGINT", "larger type"),
    "such a number with both": (f"SELECT -^{LONG}L AS x FROM orders", "not fit BIGINT", "larger type"),
    "such a length of time": (f"SELECT id FROM orders [RANGE {LONG} ^DAYS]", "length of time", "MINUTES"),
    "such an interval": (
        f"SELECT id FROM orders WHERE ts > ts - INTERVAL {LONG} ^DAYS",
        "length of time",
        "MINUTES",
    ),
    "such a number of rows": (
        f"SELECT COUNT(*) AS n FROM orders [ROWS {LONG}^]",
        "whole number of rows",
        "[ROWS 100]",
    ),
    "a decimal of such a size": (f"SELECT CAST(^id AS DECIMAL({LONG})) AS x FROM orders", "not a type", "38"),
    "a decimal of a word": (
        "SELECT CAST(^id AS DECIMAL(a,2)) AS x FROM orders",
        "not a type",
        "DECIMAL(10,2)",
    ),
    "a decimal of three numbers": ("SELECT CAST(^id AS DECIMAL(5,2,1)) AS x FROM orders", "not a type", "38"),
    "too many operators in a row": (
        f"^SELECT id{' + id' * 3_000} AS x FROM orders",
        "nested too deeply",
        "fewer operators",
    ),
    "two statements": ("^SELECT id FROM orders; SELECT id FROM orders", "found 2", "one SELECT"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_where_and_what_instead(case: str) -> None:
    marked, message, suggestion = REFUSALS[case]
    # In front of it stand three lines, so that lines are counted too.
    with pytest.raises(QueryError) as caught:
        bind("-- one\n\n-- three\n" + marked.replace("^", "", 1))
    error = caught.value
    assert message in error.message
    assert suggestion in error.suggestion
    assert error.suggestion
    assert (error.line, error.column) == (4 if case != "two statements" else 1, marked.index("^") + 1)
    assert "\x1b" not in str(error)


def test_the_message_shows_the_line_with_a_caret_under_the_place() -> None:
    with pytest.raises(QueryError) as caught:
        bind("SELECT id,\n\tamuont\nFROM orders")
    assert str(caught.value).splitlines() == [
        "line 2, column 2: unknown column 'amuont' in stream orders",
        "  \tamuont",
        "  \t^",
        "Try: did you mean amount?",
    ]
