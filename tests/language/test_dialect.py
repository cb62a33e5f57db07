"""Reading flow files."""

from __future__ import annotations

import pytest

from anabranch.errors import QueryError
from anabranch.language.flow import parse_flow
from anabranch.plan.logical import UNBOUNDED_US, Column, Connector

FLOW = """
-- two streams and a query
CREATE STREAM orders (id BIGINT, amount DECIMAL(10, 2), `odd name` STRING, ts TIMESTAMP)
  FROM parquet 'data/orders'
  OPTIONS (maxFilesPerTrigger = 1, kafka.bootstrap.servers = 'a:1,b:2', deep = TRUE,
           low = -1.5, 'with-dash' = 'x')
  TIME ts LATENESS 5 SECONDS; -- comment behind
/* a comment; with a semicolon */
create stream payments (order_id bigint, ts timestamp) from kafka 'payments' time TS;
SET spark.anabranch.sites = 8;
SET mode = 'fast';
CREATE QUERY matched INTO parquet 'out' OPTIONS (compression = 'zstd') AS
  SELECT o.id FROM orders [RANGE 1 HOUR] AS o, payments [NOW] p WHERE o.id = p.order_id;
CREATE QUERY shown INTO console AS SELECT id FROM orders
"""


def test_a_flow_file_becomes_streams_queries_and_settings() -> None:
    flow = parse_flow(FLOW)
    orders, payments = flow.streams
    assert orders.columns == (
        Column("id", "bigint"),
        Column("amount", "decimal(10,2)"),
        Column("odd name", "string"),
        Column("ts", "timestamp"),
    )
    assert (orders.time, orders.lateness_us, payments.time, payments.lateness_us) == (
        "ts",
        5_000_000,
        "ts",
        0,
    )
    assert orders.source == Connector(
        "parquet",
        "data/orders",
        (
            ("maxFilesPerTrigger", "1"),
            ("kafka.bootstrap.servers", "a:1,b:2"),
            ("deep", "true"),
            ("low", "-1.5"),
            ("with-dash", "x"),
        ),
    )
    assert [(q.name, q.sink) for q in flow.queries] == [
        ("matched", Connector("parquet", "out", (("compression", "zstd"),))),
        ("shown", Connector("console")),
    ]
    assert flow.settings == (("spark.anabranch.sites", "8"), ("mode", "fast"))


def test_a_query_keeps_the_select_as_it_was_written() -> None:
    text = "SELECT  o.id /* why */\n FROM orders [NOW] o"
    flow = parse_flow(FLOW + f"; CREATE QUERY third INTO console AS {text} ;")
    assert flow.queries[2].text == text


@pytest.mark.parametrize(
    ("window", "size"),
    [
        ("[RANGE 1 HOUR]", 3_600_000_000),
        ("[range 10 minutes]", 600_000_000),
        ("[RANGE 500 MILLISECONDS]", 500_000),
        ("[RANGE 1 MICROSECOND]", 1),
        ("[RANGE 2 DAYS]", 172_800_000_000),
        ("[RANGE 0 SECONDS]", 0),
        ("[NOW]", 0),
        ("[RANGE UNBOUNDED]", UNBOUNDED_US),
    ],
)
@pytest.mark.parametrize(
    "shape",
    [
        "orders {} AS o, payments [NOW] AS p",
        "orders {} o JOIN payments [NOW] p ON o.id = p.order_id",
        "orders{}o CROSS JOIN payments[NOW]p",
        "orders {} AS o INNER JOIN orders [NOW] AS p ON o.id = p.id",
    ],
    ids=["comma", "join", "no blanks", "self join"],
)
def test_a_window_stands_behind_the_name_of_its_stream(window: str, size: int, shape: str) -> None:
    query = f"CREATE QUERY w INTO console AS SELECT o.id FROM {shape.format(window)}"
    refs = parse_flow(FLOW + ";" + query).queries[-1].refs
    assert [ref.window_us for ref in refs] == [size, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("^DROP TABLE x", "expected CREATE STREAM"),
        ("^SELECT 1", "expected CREATE STREAM"),
        ("^CREATE VIEW x (a INT)", "expected CREATE STREAM"),
        ("CREATE STREAM ^s FROM json 'x' TIME ts", "does not say the stream's columns"),
        ("CREATE STREAM ^s FROM json 'x' AS SELECT ts TIME ts", "does not say the columns of its files"),
        ("CREATE STREAM s ^TIME ts", "expected the stream's columns"),
        ("CREATE STREAM s FROM kafka 'x' AS ^lower(a) TIME ts", "expected a SELECT"),
        ("CREATE STREAM s (a INT, ts TIMESTAMP) FROM kafka 'x' FORMAT ^xml TIME ts", "FORMAT xml"),
        ("CREATE STREAM s (a INT, ts TIMESTAMP) FROM json 'x' FORMAT ^json TIME ts", "read as declared"),
        ("CREATE STREAM s (ts ^) FROM json TIME ts", "expected the type of column ts"),
        ("CREATE STREAM s (^tags ARRAY<INT>, ts TIMESTAMP) FROM json TIME ts", "is not supported"),
        ("CREATE STREAM s (^a VARCHAR(10), ts TIMESTAMP) FROM json TIME ts", "is not supported"),
        ("CREATE STREAM s (^a STRING COLLATE UTF8_LCASE, ts TIMESTAMP) FROM json TIME ts", "collated"),
        ("CREATE STREAM s (^a DECIMAL(39, 0), ts TIMESTAMP) FROM json TIME ts", "is not a type"),
        ("CREATE STREAM s (a INT, ^A INT, ts TIMESTAMP) FROM json TIME ts", "declared twice"),
        ("CREATE STREAM s (ts TIMESTAMP) FROM json TIME ^time", "unknown column 'time'"),
        ("CREATE STREAM s (ts BIGINT) FROM json TIME ^ts", "TIME needs a TIMESTAMP"),
        ("CREATE STREAM s (ts TIMESTAMP) FROM json ^LATENESS 1 SECOND", "expected TIME"),
        ("CREATE STREAM s (ts TIMESTAMP) FROM json TIME ts LATENESS 1 ^MONTH", "not a length of time"),
        ("CREATE STREAM s (ts TIMESTAMP) FROM json TIME ts LATENESS ^x", "expected a whole number"),
        ("CREATE STREAM s (ts TIMESTAMP) FROM json OPTIONS (a ^b) TIME ts", "expected ="),
        ("CREATE STREAM s (ts TIMESTAMP) FROM json OPTIONS (a = ^b) TIME ts", "expected a number"),
        ("CREATE STREAM ^`../s` (ts TIMESTAMP) FROM json TIME ts", "is not a stream name"),
        ("CREATE QUERY ^`a/b` INTO console AS SELECT id FROM orders", "is not a query name"),
        ("CREATE QUERY q ^AS SELECT id FROM orders", "expected INTO"),
        ("CREATE QUERY q INTO ^consol AS SELECT id FROM orders", "write INTO console"),
        ("CREATE QUERY q INTO parquet ^AS SELECT id FROM orders", "expected a directory"),
        ("CREATE QUERY q INTO console ^SELECT id FROM orders", "expected AS"),
        ("CREATE QUERY ^matched INTO console AS SELECT id FROM orders", "declared twice"),
        ("CREATE STREAM ^ORDERS (ts TIMESTAMP) FROM json TIME ts", "declared twice"),
        ("SET a ^8", "expected ="),
        ("SET a = ^'8", "not closed"),
        ("^/* never", "comment is not closed"),
        ("CREATE QUERY q INTO console AS SELECT id FROM orders ^extra words", "unexpected"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(text: str, message: str) -> None:
    prefix = FLOW + ";\n"
    with pytest.raises(QueryError, match=message) as caught:
        parse_flow(prefix + text.replace("^", "", 1), path="flow.sql")
    error = caught.value
    expected = text.index("^") + (6 if "extra" in text else 0)
    assert (error.line, error.column) == (prefix.count("\n") + 1, expected + 1)
    assert error.suggestion
    assert "\x1b" not in str(error)
    assert str(error).startswith("flow.sql: line ")


def test_text_nested_too_deeply_is_refused() -> None:
    text = "CREATE QUERY deep INTO console AS SELECT id FROM orders WHERE " + "(" * 3000 + "TRUE" + ")" * 3000
    with pytest.raises(QueryError, match="nested too deeply"):
        parse_flow(FLOW + ";" + text)
