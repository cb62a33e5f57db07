"""A SELECT at ingest: Spark's built-ins over a source, before its rows are a stream's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import QueryError
from anabranch.language.flow import parse_flow
from anabranch.language.ingest.built_ins import AGGREGATES, DETERMINISTIC, GENERATORS, REFUSED, WORDS
from anabranch.testing.oracle_compare import assert_same_rows
from tests.spark.test_malformed import CSV, JSON, letters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def orders() -> list[dict[str, Any]]:
    """Orders with a customer, several items, and text that must be taken apart."""
    return [
        {
            "head": {"id": n, "customer": f"Customer {n % 5}"},
            "at": f"2024-03-10 0{n // 30}:{n % 30:02d}:00",
            "items": [{"sku": f"S-{n % 7}", "price": n % 4 + 0.5}, {"sku": "S-0", "price": 1.0}][: n % 3],
            "note": f"weight={n % 9}kg" if n % 4 else None,
        }
        for n in range(90)
    ]


FLOW = """
CREATE STREAM items (head STRUCT<id: BIGINT, customer: STRING>, at STRING,
    items ARRAY<STRUCT<sku: STRING, price: DOUBLE>>, note STRING)
  FROM json '{root}/in' AS
  SELECT head.id, lower(head.customer) AS customer, to_timestamp(at) AS ts, hour(to_timestamp(at)) AS hour,
    item.sku, item.price, CAST(regexp_extract(note, 'weight=([0-9]+)', 1) AS INT) AS weight,
    size(items) AS many, element_at(items, 5).price AS none, try_cast('x' AS INT) + 1 AS nothing
  LATERAL VIEW explode(items) t AS item
  WHERE t.item.price < 3
  TIME ts LATENESS 1 HOUR;
CREATE QUERY cheap INTO parquet '{root}/cheap' AS
  SELECT id, customer, hour, sku, price, weight, many, none, nothing
  FROM items WHERE customer <> 'customer 3';
CREATE QUERY pairs INTO parquet '{root}/pairs' AS
  SELECT a.id, b.id AS other, a.sku FROM items [RANGE 5 MINUTES] a, items [RANGE 5 MINUTES] b
  WHERE a.sku = b.sku AND a.id < b.id AND a.weight < b.weight;
"""
RIGHT = """
CREATE TABLE items AS SELECT head.id AS id, lower(head.customer) AS customer, "at"::TIMESTAMP AS ts,
  hour("at"::TIMESTAMP)::INT AS hour, item.sku AS sku, item.price AS price,
  TRY_CAST(NULLIF(regexp_extract(note, 'weight=([0-9]+)', 1), '') AS INT) AS weight,
  len(items)::INT AS many, NULL::DOUBLE AS none, NULL::INT AS nothing
FROM (SELECT *, unnest(items) AS item FROM read_json('{root}/in/*.json', columns = {{
  'head': 'STRUCT(id BIGINT, customer VARCHAR)', 'at': 'VARCHAR',
  'items': 'STRUCT(sku VARCHAR, price DOUBLE)[]', 'note': 'VARCHAR'}})) WHERE item.price < 3
"""
QUERIES = {
    "cheap": """SELECT id, customer, hour, sku, price, weight, many, none, nothing FROM items
        WHERE customer <> 'customer 3'""",
    "pairs": """SELECT a.id, b.id AS other, a.sku FROM items a, items b
        WHERE a.sku = b.sku AND a.id < b.id AND a.weight < b.weight
        AND abs(epoch(a.ts) - epoch(b.ts)) <= 300""",
}


def test_structs_arrays_and_text_are_taken_apart_before_rows_are_a_streams(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = orders()
    for number in range(3):
        lines = [json.dumps(row) for row in rows[number * 30 : number * 30 + 30]]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # 02:30 does not exist there on that day
    try:
        run_flow(spark, tmp_path, FLOW.format(root=tmp_path))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    with duckdb.connect() as connection:
        connection.execute(RIGHT.format(root=tmp_path))
        for name, sql in QUERIES.items():
            expected = connection.sql(sql).to_arrow_table()
            assert expected.num_rows > 10
            assert_same_rows(tmp_path / name, expected, what=name)


def run_flow(spark: SparkSession, root: Path, text: str) -> ab.Run:
    session = ab.Session(spark, root / "checkpoint", sites=2)
    session.load(parse_flow(text))
    run = session.start(availableNow=True)
    run.awaitTermination()
    return run


def test_a_column_may_have_the_name_of_a_function_without_parentheses(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"user": "Ann", "now": n, "ts": f"2024-01-01 00:00:0{n}"} for n in range(3)]
    (tmp_path / "in" / "a.json").write_text("\n".join(map(json.dumps, rows)))
    flow = """
        CREATE STREAM s (user STRING, now INT, ts TIMESTAMP) FROM json '{root}/in' AS
          SELECT lower(user) AS user, now, USER AS same, {more}ts WHERE now > 0 TIME ts;
        CREATE QUERY q INTO parquet '{root}/q' AS SELECT user, now, same FROM s WHERE user = 'ann';
    """
    run_flow(spark, tmp_path, flow.format(root=tmp_path, more=""))
    assert sorted(map(tuple, (r.values() for r in pq.read_table(tmp_path / "q").to_pylist()))) == [
        ("ann", 1, "Ann"),
        ("ann", 2, "Ann"),
    ]
    with pytest.raises(QueryError, match="function current_user is not supported"):
        parse_flow(flow.format(root=tmp_path, more="current_user AS me, "))


@pytest.mark.parametrize(("kind", "lines"), [("json", JSON), ("csv", CSV)], ids=["json", "csv"])
def test_bytes_are_read_as_declared_and_malformed_ones_are_kept(
    spark: SparkSession, tmp_path: Path, kind: str, lines: dict[str, str | None]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("\n".join(lines))
    flow = f"""
    CREATE STREAM s (k BIGINT, v DOUBLE, ts TIMESTAMP) FROM text '{tmp_path}/in' FORMAT {kind} TIME ts;
    CREATE QUERY plain INTO parquet '{tmp_path}/plain' AS SELECT k, v FROM s;
    """
    run = run_flow(spark, tmp_path, flow)
    good = sum(reason is None for reason in lines.values())
    assert pq.read_table(tmp_path / "plain").num_rows == good
    told = run.lastProgress["streams"]["s"]  # type: ignore[index]
    assert (told["accepted"], told["rejected"]) == (good, len(lines) - good)
    malformed = sorted((line, why) for line, why in lines.items() if why is not None and "malformed" in why)
    assert [letter for letter in letters(tmp_path) if "malformed" in letter[1]] == malformed


def test_malformed_rows_pass_a_select_that_explodes_and_filters_once_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    good = {"k": 1, "tags": ["a", "b"], "ts": "2024-01-01T00:00:00Z"}
    bad = {"k": "one", "tags": ["a", "b", "c"], "ts": "2024-01-01T00:00:00Z"}
    empty = {"k": 3, "tags": [], "ts": "2024-01-01T00:00:00Z"}
    (tmp_path / "in" / "a.json").write_text("\n".join(map(json.dumps, [good, bad, empty])) + "\n{")
    flow = f"""
    CREATE STREAM s (k BIGINT, tags ARRAY<STRING>, ts TIMESTAMP) FROM json '{tmp_path}/in'
      AS SELECT k, ts, explode(tags) AS tag WHERE k < 5 TIME ts;
    CREATE QUERY q INTO parquet '{tmp_path}/q' AS SELECT k, tag FROM s;
    """
    run = run_flow(spark, tmp_path, flow)
    assert sorted(pq.read_table(tmp_path / "q")["tag"].to_pylist()) == ["a", "b"]
    assert run.lastProgress["streams"]["s"]["rejected"] == 2  # type: ignore[index]
    assert letters(tmp_path) == [
        ("{", "malformed json: no JSON object"),
        (json.dumps(bad), "malformed json: k cannot be read as declared"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "AS SELECT value, to_timestamp(value) AS ts, ^lower(vaule) AS v TIME ts",
            "`vaule` cannot be resolved",
        ),
        ("AS SELECT value, ^array_max(value) AS v, to_timestamp(value) AS ts TIME ts", "array_max"),
        ("AS ^SELECT value AS a, to_timestamp(value) AS ts, lower(value) AS a TIME ts", "called 'a'"),
        ("AS SELECT value, CAST(value AS INT) AS ts TIME ^ts", "TIME needs a TIMESTAMP, and ts is a int"),
    ],
)
def test_what_spark_refuses_is_told_with_its_place(
    spark: SparkSession, tmp_path: Path, text: str, message: str
) -> None:
    text = f"CREATE STREAM s FROM text '{tmp_path}' {text}"
    with pytest.raises(QueryError, match=message) as caught:
        ab.Session(spark, tmp_path / "checkpoint").load(parse_flow(text.replace("^", "")))
    assert caught.value.column == text.index("^") + 1


def test_every_built_in_function_of_spark_is_listed_as_taken_or_refused(spark: SparkSession) -> None:
    state: Any = spark._jsparkSession  # type: ignore[attr-defined]
    found = state.sessionState().functionRegistry().listFunction()
    names = {found.apply(i).funcName() for i in range(found.size())}
    listed = DETERMINISTIC | GENERATORS | set(REFUSED) | WORDS
    assert {name for name in names if name.isidentifier()} - listed == set()
    assert listed - names <= {"json_tuple", "when", "between"} | listed & names
    assert not DETERMINISTIC & (set(REFUSED) | AGGREGATES)
