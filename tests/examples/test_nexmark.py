"""The queries of Nexmark that are expressible give what plain SQL gives over the same files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.testing.oracle_compare import assert_same_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "nexmark"
_TEN, _MINUTE = "time_bucket(INTERVAL '10 seconds', ts)", "time_bucket(INTERVAL '1 minute', ts)"
_END = "+ INTERVAL '10 seconds'"
_COUNTS = """
    SELECT auction, s AS start, s + INTERVAL '10 seconds' AS end, count(*) AS bids
    FROM bids, unnest(generate_series(time_bucket(INTERVAL '2 seconds', ts) - INTERVAL '8 seconds',
        time_bucket(INTERVAL '2 seconds', ts), INTERVAL '2 seconds')) AS hop(s) GROUP BY ALL"""
RIGHT = {
    "q1": """SELECT auction, bidder,
        CAST(CAST(CAST(CAST(0.908 AS DOUBLE) * price AS VARCHAR) AS DECIMAL(38, 2)) AS DOUBLE) AS price, ts
        FROM bids""",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q10": """SELECT auction, bidder, price, strftime(ts, '%Y-%m-%d') AS day, strftime(ts, '%H:%M') AS minute
        FROM bids""",
    "q13": """SELECT a.id, a.item, upper(c.label) AS category FROM auctions a
        JOIN categories c ON a.category = c.id""",
    "q14": """SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price AS price,
        CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night'
          ELSE 'other' END AS daytime FROM bids WHERE CAST(0.908 AS DOUBLE) * price > 100""",
    "q5_counts": _COUNTS,
    "q5": f"""SELECT start, auction, bids FROM ({_COUNTS})
        QUALIFY row_number() OVER (PARTITION BY start ORDER BY bids DESC, auction DESC) = 1""",
    "q7": f"""
        SELECT {_TEN} {_END} AS end, price, bidder, auction FROM bids
        QUALIFY row_number() OVER (PARTITION BY {_TEN} ORDER BY price DESC, bidder DESC) = 1""",
    "q8": f"""
        SELECT p.id, p.name, p.start, count(*) AS opened
        FROM (SELECT *, {_TEN} AS start FROM persons) p JOIN (SELECT *, {_TEN} AS start FROM auctions) a
        ON p.id = a.seller AND p.start = a.start GROUP BY ALL""",
    "q11": """
        SELECT bidder, min(ts) AS start, max(ts) + INTERVAL '1 second' AS end, count(*) AS bids FROM (
          SELECT *, sum(pause) OVER (PARTITION BY bidder ORDER BY ts) AS session FROM (
            SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts) > INTERVAL '1 second',
              true)::INT AS pause FROM bids)) GROUP BY bidder, session""",
    "q12": f"SELECT bidder, {_TEN} AS start, {_TEN} {_END} AS end, count(*) AS bids FROM bids GROUP BY ALL",
    "q16": f"""
        SELECT seller, {_MINUTE} AS start, count(*) AS bids, count(*) FILTER (price < 20) AS low,
          count(*) FILTER (price >= 200) AS high, count(DISTINCT bidder) AS bidders,
          count(DISTINCT bidder) FILTER (price >= 200) AS high_bidders, count(DISTINCT auction) AS auctions
        FROM bids GROUP BY ALL""",
    "q17": f"""
        SELECT auction, {_MINUTE} AS start, count(*) AS bids, count(*) FILTER (price < 20) AS low,
          min(price) AS least, max(price) AS most, median(price) AS middle FROM bids GROUP BY ALL""",
    "q18": f"""
        SELECT bidder, auction, {_MINUTE} + INTERVAL '1 minute' AS end, price, ts FROM bids
        QUALIFY row_number() OVER (
          PARTITION BY bidder, auction, {_MINUTE} ORDER BY ts DESC, price DESC) = 1""",
}
"""Nexmark's definitions in DuckDB, written without our windows."""


@pytest.mark.spark
def test_queries_of_nexmark_give_what_plain_sql_gives(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("anabranch.cli.run.start_spark", lambda *_, **__: spark)
    spec = importlib.util.spec_from_file_location("make_data", EXAMPLE / "make_data.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_data(files=25, bids_per_file=300, root=tmp_path / "data")
    for name in ("flow", "hottest"):
        text = (EXAMPLE / f"{name}.sql").read_text().replace("'data/", f"'{tmp_path}/data/")
        text = text.replace("maxFilesPerTrigger = 1", "maxFilesPerTrigger = 5")
        flow = tmp_path / f"{name}.sql"
        flow.write_text(text.replace("'out/", f"'{tmp_path}/out/"))
        given = ["run", str(flow), "--checkpoint", str(tmp_path / f"checkpoint-{name}")]
        result = CliRunner().invoke(app, [*given, "--available-now", "--end-of-input"])
        assert result.exit_code == 0, result.stderr
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for stream in ("persons", "auctions", "bids"):
            files = f"read_parquet('{tmp_path}/data/{stream}/*.parquet')"
            connection.execute(
                f"CREATE VIEW {stream} AS SELECT * REPLACE (make_timestamp(epoch_us(ts)) AS ts) FROM {files}"
            )
        connection.execute(
            f"CREATE VIEW categories AS SELECT * FROM read_csv('{tmp_path}/data/categories/*.csv', "
            "columns = {'id': 'BIGINT', 'label': 'VARCHAR'}, header = false)"
        )
        for name, sql in RIGHT.items():
            expected = connection.sql(sql).to_arrow_table()
            assert expected.num_rows > 2
            assert_same_rows(tmp_path / "out" / name, expected, what=name)
