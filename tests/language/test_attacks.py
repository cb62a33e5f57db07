"""Text that would run code or read files if it reached an engine. None of it may be bound."""

from __future__ import annotations

import pytest

from anabranch.errors import QueryError
from anabranch.language.flow import bind_query, parse_flow
from anabranch.plan.logical import Column, Stream
from tests.language.streams import STREAMS, bind

ATTACKS = [
    "SELECT reflect('java.lang.Runtime', 'getRuntime') AS x FROM orders",
    "SELECT java_method('java.lang.System', 'exit', 1) AS x FROM orders",
    "SELECT `reflect`('java.lang.Runtime', 'getRuntime') AS x FROM orders",
    "SELECT system.builtin.reflect('a', 'b') AS x FROM orders",
    "SELECT length(reflect('a', 'b')) AS x FROM orders",
    "SELECT id FROM orders WHERE reflect('a', 'b') = 'c'",
    "SELECT id FROM orders WHERE id IN (1, java_method('a', 'b'))",
    "SELECT CASE WHEN TRUE THEN reflect('a', 'b') END AS x FROM orders",
    "SELECT TRANSFORM (id) USING 'sh -c id' AS x FROM orders",
    "SELECT id FROM parquet.`/etc/passwd`",
    "SELECT id FROM csv.`file:///etc/passwd`",
    "SELECT id FROM `/etc/passwd`",
    "SELECT id FROM catalog.db.orders",
    "SELECT id FROM read_csv('/etc/passwd')",
    "SELECT id FROM '/etc/passwd'",
    "SELECT id FROM identifier('orders')",
    "SELECT id FROM range(10)",
    "SELECT id FROM orders, LATERAL explode(tags)",
    "SELECT id FROM orders JOIN LATERAL (SELECT 1) ON TRUE",
    "SELECT id FROM VALUES (1)",
    "SELECT id FROM orders VERSION AS OF 1",
    "SELECT id FROM orders TIMESTAMP AS OF '2024-01-01'",
    "SELECT * FROM orders PIVOT (count(1) FOR id IN (1))",
    "SELECT /*+ BROADCAST(orders) */ id FROM orders",
    "SELECT filter(tags, x -> TRUE) AS x FROM orders",
    "SELECT transform(tags, x -> x) AS x FROM orders",
    "SELECT id -> id AS x FROM orders",
    "SELECT orders.id.x AS x FROM orders",
    "SELECT name:a.b AS x FROM orders",
    "SELECT tags[0] AS x FROM orders",
    "SELECT :p AS x FROM orders",
    "SELECT ? AS x FROM orders",
    "SELECT @v AS x FROM orders",
    "SELECT ${v} AS x FROM orders",
    "SELECT {v} AS x FROM orders",
    "SELECT current_user AS x FROM orders",
    "SELECT current_user() AS x FROM orders",
    "SELECT current_timestamp AS x FROM orders",
    "SELECT rand() AS x FROM orders",
    "SELECT uuid() AS x FROM orders",
    "SELECT input_file_name() AS x FROM orders",
    "SELECT getvariable('x') AS x FROM orders",
    "SELECT nextval('x') AS x FROM orders",
    "SELECT name COLLATE UTF8_LCASE AS x FROM orders",
    "SELECT collate(name, 'UTF8_LCASE') AS x FROM orders",
    "SELECT r'a' AS x FROM orders",
    "SELECT 'a' 'b' AS x FROM orders",
    "SELECT id FROM orders |> WHERE reflect('a', 'b')",
    "SELECT id FROM orders WHERE name LIKE ANY ('a', 'b')",
    "SELECT length(DISTINCT name) AS x FROM orders",
    "SELECT length(name) FILTER (WHERE TRUE) AS x FROM orders",
    "SELECT length(str => name) AS x FROM orders",
    "SELECT struct(*) AS x FROM orders",
    "SELECT CAST(name AS STRUCT<a: INT>) AS x FROM orders",
    "SELECT CAST(id AS STRING FORMAT 'x') AS x FROM orders",
    "SELECT id FROM orders; DROP TABLE orders",
    "SELECT id INTO x FROM orders",
    "FROM orders INSERT INTO x SELECT id",
    "INSERT INTO x SELECT id FROM orders",
    "SET spark.sql.ansi.enabled = false",
    "ADD JAR '/tmp/x.jar'",
    "CREATE FUNCTION f AS 'x'",
    "COPY orders TO '/tmp/x'",
    "ATTACH '/tmp/x'",
    "PRAGMA x",
    "CALL x()",
    "EXPLAIN SELECT id FROM orders",
    "TABLE orders",
    "VALUES (1)",
    "",
    ";",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_it_does_not_get_through(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        bind(text)
    assert caught.value.suggestion
    assert caught.value.line >= 1


AT_INGEST = [
    "reflect('java.lang.Runtime', 'getRuntime') AS x",
    "java_method('java.lang.System', 'exit', 1) AS x",
    "try_reflect('a', 'b') AS x",
    "`reflect`('a', 'b') AS x",
    "system.builtin.reflect('a', 'b') AS x",
    "lower(reflect('a', 'b')) AS x",
    "transform(a, i -> reflect(i, 'b')) AS x",
    "explode(array(reflect('a', 'b'))) AS x",
    "a[reflect('a', 'b')] AS x",
    "CASE WHEN TRUE THEN reflect('a', 'b') END AS x",
    "struct(reflect('a', 'b') AS y) AS x",
    "x LATERAL VIEW explode(array(reflect('a', 'b'))) t AS x",
    "x WHERE reflect('a', 'b') = 'c'",
    "CAST(reflect('a', 'b') AS INT) AS x",
    "from_json(reflect('a', 'b'), 'y INT').*",
    "TRANSFORM (value) USING 'sh -c id' AS x",
    "value FROM parquet.`/etc/passwd`",
    "value FROM other",
    "(SELECT max(id) FROM other) AS x",
    "value IN (SELECT id FROM other) AS x",
    "EXISTS (SELECT 1) AS x",
    "my_registered_udf(value) AS x",
    "rand() AS x",
    "uuid() AS x",
    "now() AS x",
    "current_timestamp AS x",
    "current_user AS x",
    "unix_timestamp() AS x",
    "input_file_name() AS x",
    "monotonically_increasing_id() AS x",
    "sum(value) AS x",
    "row_number() OVER (ORDER BY value) AS x",
    "from_xml(value, 'a INT', map('rowValidationXSDPath', '/etc/passwd')) AS x",
    "`a${env:HOME}` AS x",
    "`__anabranch_letter` AS x",
    ":p AS x",
    "value AS x; DROP TABLE x",
]


@pytest.mark.parametrize("items", AT_INGEST)
def test_it_does_not_get_through_at_ingest(items: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_flow(f"CREATE STREAM s FROM text 'in' AS SELECT {items}, to_timestamp(value) AS ts TIME ts")
    assert caught.value.suggestion
    assert caught.value.column > 20


@pytest.mark.parametrize("value", ["${env:HOME}", "${spark.app.id}", "a'b", "a\\\\", "`", "$.a"])
def test_spark_never_sees_the_text_of_a_select_at_ingest_as_it_is(value: str) -> None:
    written = value.replace("'", "\\'")
    flow = parse_flow(
        f"CREATE STREAM s FROM text 'in' AS SELECT '{written}' AS x, to_timestamp(value) AS ts TIME ts"
    )
    assert flow.streams[0].prepared is not None
    assert flow.streams[0].prepared.select is not None
    assert not set("$\\") & set(flow.streams[0].prepared.select.items[0])


@pytest.mark.parametrize("value", ["x' OR '1'='1", "x\\", "\\' OR 1=1 --", "`", '"', "/* */", "a\nb", "$"])
def test_text_stays_text(value: str) -> None:
    written = value.replace("\\", "\\\\").replace("'", "\\'")
    query = bind(
        f"SELECT o.id, '{written}' AS t FROM orders [NOW] o, clicks [NOW] c WHERE o.name = '{written}'"
    )
    doubled = value.replace("'", "''")
    assert query.outputs[1].sql == f"'{doubled}'"
    assert value.encode().hex().upper() in str(query.refs[0].filter) or f"'{value}'" in str(
        query.refs[0].filter
    )


@pytest.mark.parametrize("value", ["${env:HOME}", "${system:user.home}", "${spark.app.id}", "a ${x} b", "$"])
def test_spark_never_sees_a_variable_to_substitute(value: str) -> None:
    query = bind(f"SELECT '{value}' AS t FROM orders WHERE name = '{value}' OR name LIKE '{value}%'")
    assert "$" not in f"{query.refs[0].filter} {query.refs[0].fields}"


def test_columns_whose_names_spark_would_substitute_are_refused() -> None:
    stream = Stream(
        "s", (Column("id", "int"), Column("a${env:HOME}", "int"), Column("ts", "timestamp")), "ts"
    )
    with pytest.raises(QueryError, match=r"column named 'a\$\{env:HOME\}'"):
        bind_query("q", "SELECT id FROM s", {"s": stream})
    with pytest.raises(QueryError, match=r"would replace the \$\{…\} in column") as caught:
        parse_flow("CREATE STREAM s (`${env:HOME}` INT, ts TIMESTAMP) FROM json 'in' TIME ts;")
    assert (caught.value.line, caught.value.column) == (1, 18)


def test_names_of_columns_stay_names() -> None:
    odd = 'a`; DROP TABLE x; --"'
    stream = Stream("s", (Column(odd, "int"), Column("ts", "timestamp")), "ts")
    query = bind_query("q", "SELECT * FROM s", {"s": stream})
    assert query.refs[0].fields[0].sql == '`a``; DROP TABLE x; --"`'


def test_collated_columns_of_a_data_frame_are_refused() -> None:
    stream = Stream("s", (Column("name", "string collate UTF8_LCASE"), Column("ts", "timestamp")), "ts")
    with pytest.raises(QueryError, match="collate"):
        bind_query("q", "SELECT name FROM s", {**STREAMS, "s": stream})
