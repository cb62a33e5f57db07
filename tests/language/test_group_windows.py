"""`window` and `session_window` in GROUP BY: what they mean, and what is refused with which words."""

from __future__ import annotations

import pytest

from anabranch.errors import QueryError
from anabranch.language.flow import bind_query
from anabranch.language.oracle.oracle_sql import oracle_sql
from anabranch.plan.logical import Column, GroupWindow, Query, Stream

COLUMNS = (
    Column("k", "bigint"),
    Column("i", "int"),
    Column("d", "double"),
    Column("t", "string"),
    Column("ts", "timestamp"),
)
STREAMS = {
    "s": Stream("s", COLUMNS, "ts"),
    "r": Stream("r", COLUMNS, "ts"),
    "n": Stream("n", (Column("k", "bigint"), Column("at", "timestamp_ntz")), "at"),
    "w": Stream("w", (Column("window", "string"), Column("ts", "timestamp")), "ts"),
}
MINUTE = 60_000_000


def bind(text: str) -> Query:
    return bind_query("q", text, STREAMS)


def window_of(written: str) -> GroupWindow | None:
    found = bind(f"SELECT COUNT(*) AS n FROM s GROUP BY {written}").grouping
    assert found is not None
    return found.window


@pytest.mark.parametrize(
    ("written", "window"),
    [
        ("window(ts, '5 minutes')", GroupWindow(5 * MINUTE, 5 * MINUTE)),
        ("WINDOW(s.TS, INTERVAL 5 MINUTES)", GroupWindow(5 * MINUTE, 5 * MINUTE)),
        ("window(ts, '1 hour 30 minutes', '1 minute')", GroupWindow(90 * MINUTE, MINUTE)),
        ("window(ts, '5 minutes', '2 minutes', '1 minute')", GroupWindow(5 * MINUTE, 2 * MINUTE, MINUTE)),
        ("session_window(ts, '5 minutes')", GroupWindow(5 * MINUTE, 5 * MINUTE, session=True)),
    ],
)
def test_windows_are_read_as_spark_writes_them(written: str, window: GroupWindow) -> None:
    assert window_of(written) == window


def test_a_window_is_no_group_key_and_may_stand_anywhere_in_group_by() -> None:
    for group in ("k, window(ts, '5 minutes')", "window(ts, '5 minutes'), k"):
        query = bind(f"SELECT k, window.start, window.end AS e, COUNT(*) FROM s GROUP BY {group}")
        assert query.grouping is not None
        assert len(query.grouping.keys) == 1
        assert [(o.name, o.type) for o in query.outputs] == [
            ("k", "bigint"),
            ("start", "timestamp"),
            ("e", "timestamp"),
            ("count", "bigint"),
        ]


def test_bounds_have_the_type_of_the_event_time() -> None:
    query = bind("SELECT window.end FROM n GROUP BY window(at, '5 minutes')")
    assert query.outputs[0].type == "timestamp_ntz"


def test_a_column_called_window_goes_before_the_window() -> None:
    query = bind("SELECT window, window.start FROM w GROUP BY window, window(ts, '5 minutes')")
    assert [o.type for o in query.outputs] == ["string", "timestamp"]


def test_group_by_takes_names_and_positions_and_columns_go_before_names() -> None:
    by_name = bind("SELECT floor(d) AS f, i AS k, COUNT(*) AS n FROM s [NOW] GROUP BY f, i")
    by_position = bind("SELECT floor(d) AS f, i AS k, COUNT(*) AS n FROM s [NOW] GROUP BY 1, 2")
    assert by_name.grouping == by_position.grouping
    with pytest.raises(QueryError, match="'i' is neither grouped by"):  # k is the stream's column
        bind("SELECT i AS k, COUNT(*) AS n FROM s [NOW] GROUP BY k")


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("COUNT(DISTINCT t)", "bigint"),
        ("MAX(DISTINCT t)", "string"),
        ("max_by(t, d)", "string"),
        ("min_by(d, t)", "double"),
        ("first(i)", "int"),
        ("last_value(t)", "string"),
        ("median(i)", "double"),
        ("percentile(d, 0.99)", "double"),
        ("percentile(d, 1)", "double"),
        ("SUM(i) FILTER (WHERE t = 'a')", "bigint"),
        ("COUNT(*) FILTER (WHERE i > 0)", "bigint"),
    ],
)
def test_aggregates_of_windows_have_the_types_of_the_manual(call: str, type_: str) -> None:
    query = bind(f"SELECT {call} AS a FROM s GROUP BY window(ts, '5 minutes')")
    assert query.outputs[0].type == type_


def test_a_filter_is_a_value_that_is_null_elsewhere() -> None:
    filtered = bind("SELECT SUM(i) FILTER (WHERE k > 1) AS a FROM s [NOW]")
    spelled = bind("SELECT SUM(CASE WHEN k > 1 THEN i END) AS a FROM s [NOW]")
    assert filtered.refs == spelled.refs
    assert filtered.grouping == spelled.grouping


def test_the_oracle_puts_rows_into_windows_and_groups() -> None:
    sql = oracle_sql(bind("SELECT k FROM s GROUP BY k, window(ts, '5 minutes', '1 minute')"), STREAMS)
    assert 'unnest(range("#time" - ' in sql
    assert sql.count("GROUP BY") == 1


JOIN = "SELECT COUNT(*) AS n FROM s [NOW] a, r [NOW] b WHERE a.k = b.k GROUP BY"
REFUSED = [
    ("SELECT window, k FROM s GROUP BY k, window(ts, '5 minutes')", 8, "window has two parts"),
    ("SELECT window.middle FROM s GROUP BY window(ts, '5 minutes')", 8, "a window has no 'middle'"),
    ("SELECT window.start FROM s [NOW] GROUP BY k", 8, "there is no window"),
    ("SELECT session_window.start FROM s GROUP BY window(ts, '5 minutes')", 8, "groups by window, not"),
    ("SELECT window(ts, '5 minutes') AS w FROM s GROUP BY window(ts, '5 minutes')", 8, "in GROUP BY only"),
    ("SELECT window(ts, '5 minutes') AS w FROM s", 8, "window stands in GROUP BY"),
    (
        "SELECT k FROM s WHERE window.end > ts GROUP BY k, window(ts, '5 minutes')",
        23,
        "cannot stand in WHERE",
    ),
    ("SELECT MAX(window.end) AS m FROM s GROUP BY window(ts, '5 minutes')", 12, "cannot stand in another"),
    ("SELECT k FROM s [NOW] GROUP BY k, window(ts, '5 minutes')", 17, "says which rows count"),
    ("SELECT k FROM s GROUP BY k, window(ts, '5 minutes'), window(ts, '1 day')", 54, "one window"),
    ("SELECT k FROM s GROUP BY k, window(ts)", 29, "window takes 2 to 4 arguments, not 1"),
    ("SELECT k FROM s GROUP BY k, session_window(ts, '1 day', '1 day')", 29, "takes 2 arguments, not 3"),
    ("SELECT k FROM s GROUP BY k, window(k, '5 minutes')", 36, "window goes by the event time"),
    ("SELECT k FROM s GROUP BY k, window(ts, '5 moons')", 40, "not a length of time"),
    ("SELECT k FROM s GROUP BY k, window(ts, '5')", 40, "not a length of time"),
    ("SELECT k FROM s GROUP BY k, window(ts, 5)", 40, "not a length of time"),
    ("SELECT k FROM s GROUP BY k, window(ts, '1 month')", 40, "not a length of time"),
    ("SELECT k FROM s GROUP BY k, window(ts, '0 seconds')", 29, "no length"),
    ("SELECT k FROM s GROUP BY k, window(ts, '5 minutes', '6 minutes')", 53, "windows with gaps"),
    ("SELECT k FROM s GROUP BY k, window(ts, '1 day', '1 microsecond')", 49, "86,400,000,000 windows"),
    ("SELECT k FROM s GROUP BY k, window(ts, '5 days', '1 day', '1 day')", 59, "cannot start later"),
    (f"{JOIN} window(a.ts, '5 minutes')", 80, "the largest event time of a result"),
    ("SELECT DISTINCT k FROM s GROUP BY k, window(ts, '5 minutes')", 17, "DISTINCT and GROUP BY"),
    (
        "SELECT SUM(DISTINCT i) AS a FROM s GROUP BY window(ts, '5 minutes')",
        8,
        r"SUM\(DISTINCT …\) is not supported",
    ),
    ("SELECT COUNT(DISTINCT i, k) AS a FROM s GROUP BY window(ts, '1 day')", 8, "takes 1 argument, not 2"),
    ("SELECT percentile(i, 2) AS a FROM s GROUP BY window(ts, '1 day')", 8, "a constant from 0 to 1"),
    ("SELECT percentile(t, 0.5) AS a FROM s GROUP BY window(ts, '1 day')", 8, "needs numbers"),
    ("SELECT max_by(i) AS a FROM s GROUP BY window(ts, '1 day')", 8, "max_by takes 2 arguments, not 1"),
    ("SELECT approx_percentile(i, 0.5) AS a FROM s GROUP BY window(ts, '1 day')", 8, "no such aggregate"),
    ("SELECT first(i) IGNORE NULLS AS a FROM s GROUP BY window(ts, '1 day')", 8, "IGNORE NULLS"),
    ("SELECT first(i) AS a FROM s [NOW]", 8, "min_by or first over the window of a stream"),
]


@pytest.mark.parametrize(("text", "column", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_a_window_cannot_be_is_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        bind(text)
    assert (refused.value.line, refused.value.column) == (1, column)
    assert refused.value.suggestion


def test_above_a_join_the_suggestion_names_the_time() -> None:
    with pytest.raises(QueryError) as refused:
        bind(f"{JOIN} window(b.ts, '5 minutes')")
    assert refused.value.suggestion == "write window(greatest(a.ts, b.ts), '5 minutes')"
