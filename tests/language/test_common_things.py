"""Fifty things that people write with Spark: from its streaming guide and its page of built-in functions."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.language.flow import parse_flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = """
CREATE STREAM orders (id BIGINT, customer STRING, amount DOUBLE, price DECIMAL(10,2), at STRING, ts TIMESTAMP)
  FROM parquet '{root}' TIME ts LATENESS 10 SECONDS;
CREATE STREAM payments (order_id BIGINT, paid DOUBLE, note STRING, ts TIMESTAMP)
  FROM parquet '{root}' TIME ts LATENESS 10 SECONDS;
CREATE TABLE customers (name STRING, region STRING) FROM parquet '{root}' REFRESH EVERY 1 MINUTE;
CREATE STREAM nested (head STRUCT<id: BIGINT, tags: ARRAY<STRING>>, props MAP<STRING, STRING>,
  items ARRAY<STRUCT<sku: STRING, price: DOUBLE>>, body STRING, ts TIMESTAMP) FROM json '{root}'
  AS SELECT {items}, ts TIME ts;
"""
PLAIN = "head.id AS x"

FLOWS = {
    "read JSON files": "CREATE STREAM s (a INT, ts TIMESTAMP) FROM json '{root}' TIME ts",
    "read CSV files with a header": (
        "CREATE STREAM s (a INT, ts TIMESTAMP) FROM csv '{root}' OPTIONS (header = true) TIME ts"
    ),
    "read Parquet files, some at a time": (
        "CREATE STREAM s (a INT, ts TIMESTAMP) FROM parquet '{root}' OPTIONS (maxFilesPerTrigger = 1) TIME ts"
    ),
    "read lines of text and take them apart": (
        "CREATE STREAM s FROM text '{root}' AS SELECT split(value, ' ')[1] AS word, "
        "to_timestamp(split(value, ' ')[0]) AS ts TIME ts"
    ),
    "the word count of the guide": (
        "CREATE STREAM s FROM text '{root}' AS SELECT explode(split(substring(value, 20), ' ')) AS word, "
        "to_timestamp(left(value, 19)) AS ts TIME ts; "
        "CREATE QUERY w INTO console AS SELECT word, COUNT(*) AS n FROM s GROUP BY word, window(ts, '1 hour')"
    ),
    "the rate source": "CREATE STREAM s (value BIGINT, timestamp TIMESTAMP) FROM rate TIME timestamp",
    "event time from a column of milliseconds": (
        "CREATE STREAM s (ms BIGINT) FROM json '{root}' AS SELECT timestamp_millis(ms) AS ts TIME ts"
    ),
    "a watermark": ("CREATE STREAM s (a INT, ts TIMESTAMP) FROM json '{root}' TIME ts LATENESS 10 MINUTES"),
}
KAFKA = {
    "read a topic and parse its JSON": (
        "CREATE STREAM k FROM kafka 'orders' OPTIONS (kafka.bootstrap.servers = 'b:9092') AS SELECT "
        "from_json(CAST(value AS STRING), 'id BIGINT, ts TIMESTAMP').*, CAST(key AS STRING) AS key TIME ts"
    ),
    "read a topic of a known format": (
        "CREATE STREAM k (id BIGINT, ts TIMESTAMP) FROM kafka 'o' "
        "OPTIONS (kafka.bootstrap.servers = 'b:9092') FORMAT json TIME ts"
    ),
    "write to a topic": (
        "CREATE STREAM s (a INT, ts TIMESTAMP) FROM json 'in' TIME ts; CREATE QUERY q INTO kafka 'out' "
        "OPTIONS (kafka.bootstrap.servers = 'b:9092') AS SELECT CAST(a AS STRING) AS value FROM s"
    ),
}
QUERIES = {
    "select and where": "SELECT id, amount FROM orders WHERE amount > 15",
    "withColumn": "SELECT *, amount * 1.2 AS gross FROM orders",
    "tumbling windows": """SELECT customer, COUNT(*) AS n
        FROM orders GROUP BY customer, window(ts, '10 minutes')""",
    "sliding windows": """SELECT window.start, customer, COUNT(*) AS n FROM orders
        GROUP BY customer, window(ts, '10 minutes', '5 minutes')""",
    "session windows": """SELECT customer, COUNT(*) AS n
        FROM orders GROUP BY customer, session_window(ts, '5 minutes')""",
    "sum, avg, min, max": """SELECT SUM(amount) AS s, AVG(amount) AS a, MIN(id) AS l, MAX(id) AS h
        FROM orders GROUP BY window(ts, '1 hour')""",
    "distinct counts": "SELECT COUNT(DISTINCT customer) AS n FROM orders GROUP BY window(ts, '1 hour')",
    "spread and median": """SELECT stddev(amount) AS s, median(amount) AS m
        FROM orders GROUP BY window(ts, '1 hour')""",
    "the latest value of a group": """SELECT customer, max_by(amount, ts) AS amount FROM orders
        GROUP BY customer, window(ts, '1 hour')""",
    "conditional aggregates": """SELECT COUNT(*) FILTER (WHERE amount > 100) AS large,
        SUM(CASE WHEN amount > 100 THEN 1 ELSE 0 END) AS large2 FROM orders GROUP BY window(ts, '1 hour')""",
    "having": """SELECT customer, COUNT(*) AS n FROM orders
        GROUP BY customer, window(ts, '1 hour') HAVING COUNT(*) > 3""",
    "inner join of streams with a bound on time": """SELECT o.id, p.paid
        FROM orders [RANGE 1 HOUR] o JOIN payments [RANGE 1 HOUR] p ON o.id = p.order_id
        WHERE p.ts BETWEEN o.ts AND o.ts + INTERVAL 1 HOUR""",
    "join of a stream with a table": """SELECT o.id, c.region
        FROM orders o JOIN customers c ON o.customer = c.name""",
    "drop duplicates": "SELECT DISTINCT id, customer FROM orders [RANGE 10 MINUTES]",
    "an aggregate above a join": """SELECT o.customer, SUM(p.paid) AS paid
        FROM orders [RANGE 1 HOUR] o, payments [RANGE 1 HOUR] p
        WHERE o.id = p.order_id GROUP BY o.customer, window(greatest(o.ts, p.ts), '1 hour')""",
    "case, if, coalesce": """SELECT CASE WHEN id > 5 THEN 'a' ELSE coalesce(customer, '?') END AS x
        FROM orders""",
    "lower, upper, trim": "SELECT lower(trim(customer)) AS x FROM orders WHERE upper(customer) = 'ADA'",
    "concat and concat_ws": """SELECT concat(customer, '-', id) AS x, concat_ws('/', customer, id) AS y
        FROM orders""",
    "regular expressions": """SELECT regexp_extract(note, 'no ([0-9]+)', 1) AS x
        FROM payments WHERE note RLIKE '^no'""",
    "split": "SELECT split(note, ',')[0] AS x, split_part(note, ',', 2) AS y FROM payments",
    "substring, replace, lpad": """
        SELECT substring(note, -3, 3) AS x, replace(note, 'a', 'b') AS y, lpad(note, 5, '0') AS z
        FROM payments""",
    "get_json_object": "SELECT get_json_object(note, '$.a.b') AS x FROM payments",
    "to_timestamp and to_date": "SELECT to_timestamp(at, 'yyyy-MM-dd') AS x, to_date(at) AS y FROM orders",
    "date_trunc and date_format": """SELECT date_trunc('HOUR', ts) AS x, date_format(ts, 'yyyy-MM-dd') AS y
        FROM orders""",
    "date_add and datediff": "SELECT date_add(ts, 1) AS x, datediff(ts, DATE '2024-01-01') AS y FROM orders",
    "parts of a time": "SELECT year(ts) AS y, month(ts) AS m, hour(ts) AS h, dayofweek(ts) AS d FROM orders",
    "casts of text": "SELECT CAST(note AS INT) AS x, CAST(note AS DECIMAL(10,2)) AS y FROM payments",
    "round and other arithmetic": """
        SELECT round(amount, 2) AS x, price / 3 AS y, id % 7 AS z, abs(amount) AS a
        FROM orders""",
    "digests": "SELECT md5(customer) AS x, sha2(customer, 256) AS y FROM orders",
}
INGEST = {
    "explode an array": "explode(head.tags) AS x",
    "fields of structs, elements of arrays and maps": "head.id AS x, head.tags[0] AS y, props['k'] AS z",
    "functions with lambdas": (
        "aggregate(transform(items, i -> i.price), CAST(0 AS DOUBLE), (a, b) -> a + b) AS x"
    ),
    "from_json and to_json": "from_json(body, 'a INT, b STRING').*, to_json(head) AS x",
}
REFUSED = {
    "left outer join": (
        "SELECT o.id FROM orders [NOW] o LEFT JOIN payments [NOW] p ON o.id = p.order_id",
        "only inner joins",
    ),
    "left semi join": (
        "SELECT o.id FROM orders [NOW] o LEFT SEMI JOIN payments [NOW] p ON o.id = p.order_id",
        "JOIN",
    ),
    "union of streams": ("SELECT id FROM orders UNION ALL SELECT order_id FROM payments", "two queries"),
    "order by": ("SELECT id FROM orders ORDER BY id", "leave it out"),
    "limit": ("SELECT id FROM orders LIMIT 5", "filter in WHERE"),
    "an aggregate of an aggregate": (
        "SELECT MAX(n) AS m FROM (SELECT COUNT(*) AS n FROM orders) AS t",
        "name a stream",
    ),
    "current_timestamp": ("SELECT current_timestamp() AS x FROM orders", "a time that the source brings"),
    "a function of one's own": ("SELECT my_function(id) AS x FROM orders", "anabranch docs language"),
}
"""With a word of the suggestion, or of the message where that says it."""
EXPRESSIBLE = {**FLOWS, **KAFKA, **QUERIES, **INGEST}


def flow_of(name: str, root: str = "in") -> str:
    """A flow file in which the thing is written."""
    if name in KAFKA:
        return KAFKA[name]
    if name in FLOWS:
        return FLOWS[name].format(root=root)
    streams = STREAMS.format(root=root, items=INGEST.get(name, PLAIN))
    text = QUERIES.get(name) or REFUSED.get(name, ("SELECT ts FROM nested", ""))[0]
    return f"{streams} CREATE QUERY q INTO console AS {text};"


def test_there_are_fifty_and_most_of_them_can_be_written() -> None:
    assert len(EXPRESSIBLE) + len(REFUSED) >= 50
    assert len(EXPRESSIBLE) >= 42


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_it_can_be_written(name: str) -> None:
    flow = parse_flow(flow_of(name))
    assert flow.streams


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_what_to_write_instead(name: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_flow(flow_of(name))
    assert caught.value.suggestion
    assert REFUSED[name][1] in f"{caught.value.message} {caught.value.suggestion}"


@pytest.mark.spark
def test_spark_accepts_all_that_it_has_to_analyse(spark: SparkSession, tmp_path: Path) -> None:
    for name in (*FLOWS, *INGEST):
        (tmp_path / "in").mkdir(exist_ok=True)
        loaded = ab.Session(spark, tmp_path / "checkpoint").load(
            parse_flow(flow_of(name, str(tmp_path / "in")))
        )
        assert not loaded.unbound


UNBOUNDED = "the rate source"
"""Never ends; it is read in `tests/spark/test_sources_on_spark.py`."""


def write_sources(root: Path) -> None:
    """Rows for all: one Parquet file with the columns of orders, payments and customers, the rest as text."""
    count = 12
    times = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=i) for i in range(count)]
    columns = {
        "id": range(count),
        "order_id": range(count),
        "a": pa.array(range(count), pa.int32()),
        "customer": ["ada", "Bo"] * (count // 2),
        "amount": [10.0 * i for i in range(count)],
        "price": pa.array([f"{i}.25" for i in range(count)]).cast(pa.decimal128(10, 2)),
        "at": ["2024-01-02"] * count,
        "paid": [5.0] * count,
        "note": ["no 12,a"] * count,
        "name": ["ada"] * count,
        "region": ["north"] * count,
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
    }
    nested = {
        "head": {"id": 1, "tags": ["x"]},
        "props": {"k": "v"},
        "items": [{"sku": "a", "price": 1.5}],
        "body": '{"a": 1, "b": "two"}',
    }
    at = "2024-01-01T00:00:00"
    texts = {
        "json": json.dumps({"a": 1, "ms": 1_704_067_200_000, "ts": f"{at}Z"} | nested),
        "csv": f"a,ts\n1,{at}Z",
        "text": f"{at} some words",
    }
    for kind in (*texts, "parquet"):
        (root / kind).mkdir()
    pq.write_table(pa.table(columns), root / "parquet" / "rows.parquet")
    for kind, text in texts.items():
        (root / kind / f"rows.{kind}").write_text(text + "\n")


def everything(root: Path) -> tuple[str, list[str]]:
    """A flow file with all that needs no broker, and the names of its queries."""
    streams = [STREAMS.format(root=root, items=PLAIN).replace(f"json '{root}'", f"json '{root}/json'")]
    selects = dict(QUERIES)
    nested = streams[0][streams[0].index("CREATE STREAM nested") :]
    for i, (name, items) in enumerate(INGEST.items()):
        streams.append(nested.replace("STREAM nested", f"STREAM n{i}").replace(PLAIN, items))
        selects[name] = f"SELECT * FROM n{i}"
    for i, (name, text) in enumerate(FLOWS.items()):
        if name != UNBOUNDED:
            kind = re.findall(r"FROM (\w+) '", text)[0]
            declared, _, select = text.format(root=root / kind).partition("CREATE QUERY w INTO console AS ")
            streams.append(declared.replace("STREAM s ", f"STREAM f{i} ").rstrip("; ") + ";")
            selects[name] = select.replace("FROM s ", f"FROM f{i} ") or f"SELECT ts FROM f{i}"
    flow = "\n".join(streams).replace(f"parquet '{root}'", f"parquet '{root}/parquet'")
    names = [f"q{i}" for i in range(len(selects))]
    for query, select in zip(names, selects.values(), strict=True):
        flow += f"\nCREATE QUERY {query} INTO parquet '{root}/out/{query}' AS {select};"
    assert len(names) == len(EXPRESSIBLE) - len(KAFKA) - 1
    return flow, names


@pytest.mark.spark
def test_all_that_can_be_written_runs_and_has_results(spark: SparkSession, tmp_path: Path) -> None:
    write_sources(tmp_path)
    text, names = everything(tmp_path)
    session = ab.Session(spark, tmp_path / "checkpoint")
    session.load(parse_flow(text))
    session.start(availableNow=True, endOfInput=True).awaitTermination()
    empty = [name for name in names if not list((tmp_path / "out" / name).glob("*.parquet"))]
    assert not empty
