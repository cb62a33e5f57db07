"""Windows of GROUP BY on Spark: one oracle is DuckDB, the other what Spark itself makes of the same rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import expected_rows
from tests.spark.spark_sessions import write_batches
from tests.support.oracle_check import check_rows

pytestmark = pytest.mark.spark

COLUMNS = (
    Column("id", "int"),
    Column("k", "bigint"),
    Column("t", "string"),
    Column("x", "int"),
    Column("d", "double"),
    Column("ts", "timestamp"),
)
STREAMS = tuple(Stream(name, COLUMNS, "ts", lateness_us=60_000_000) for name in "sr")
"""So much lateness that no row is late: Spark knows another rule for those."""

PLAIN = {
    "tumbling": "SELECT k, window.start, window.end, COUNT(*) AS n, SUM(x) AS s, MIN(t) AS lo, MAX(d) AS hi "
    "FROM s GROUP BY k, window(ts, '2 seconds')",
    "hopping": "SELECT t, k, window.start AS b, COUNT(x) AS n, AVG(x) AS m, COUNT(DISTINCT x) AS c "
    "FROM s WHERE x > 0 GROUP BY t, k, window(ts, '5 seconds', '2 seconds') HAVING COUNT(*) > 1",
    "offset": "SELECT window.start, window.end AS e, COUNT(*) FILTER (WHERE k = 1) AS ones, "
    "SUM(x) FILTER (WHERE t = 'a') AS a FROM s GROUP BY window(ts, '4 seconds', '4 seconds', '1 second')",
    "session": "SELECT k, session_window.start, session_window.end, COUNT(*) AS n, MAX(id) AS newest "
    "FROM s GROUP BY k, session_window(ts, '250 milliseconds')",
    "ranked": "SELECT x % 2 AS odd, window.start, max_by(t, id) AS newest, min_by(d, id) AS oldest, "
    "median(x) AS m, percentile(x, 0.75) AS p FROM s GROUP BY odd, window(ts, '3 seconds')",
    "position": "SELECT k + 1 AS l, window_time(window) AS last, COUNT(*) AS n "
    "FROM s GROUP BY 1, window(ts, '3 seconds')",
    "long": "SELECT t, session_window.start, COUNT(DISTINCT k) AS c, median(d) AS m "
    "FROM s GROUP BY t, session_window(ts, '600 milliseconds')",
}
"""As they stand, these are Spark SQL."""
JOINED = (
    "SELECT a.k, window.start, COUNT(*) AS n, SUM(b.x) AS s, MAX(a.id) AS hi FROM {a}, {b} "
    "WHERE a.k = b.k {within}GROUP BY a.k, window(greatest(a.ts, b.ts), '3 seconds', '1 second')"
)
OURS = PLAIN | {"joined": JOINED.format(a="s [RANGE 2 SECONDS] a", b="r [RANGE 1 SECOND] b", within="")}
THEIRS = PLAIN | {
    # Spark takes window_time only of windows that an inner query has made.
    "position": PLAIN["position"].replace("window_time(window)", "window.end - INTERVAL 1 MICROSECOND"),
    "joined": JOINED.format(
        a="s AS a",
        b="r AS b",
        within="AND b.ts <= a.ts + INTERVAL 2 SECONDS AND a.ts <= b.ts + INTERVAL 1 SECOND ",
    ),
}


def batches(count: int, size: int) -> list[dict[str, pa.Table]]:
    rng = random.Random(5)
    pick: dict[str, tuple[Sequence[Any], pa.DataType]] = {
        "k": ((None, 1, 2, 42), pa.int64()),
        "t": ((None, "", "a", "é"), pa.string()),
        "x": ((None, 1, 2, 3, -7), pa.int32()),
        "d": ((None, 0.0, -0.0, float("nan"), 1.5), pa.float64()),
    }
    made = []
    for number in range(count):
        tables = {}
        for stream in STREAMS:
            columns = {
                name: pa.array([rng.choice(values) for _ in range(size)], kind)
                for name, (values, kind) in pick.items()
            }
            begun = 1_700_000_000_000_000 + 1_500_000 * number
            times = [begun + 125_000 * rng.randrange(16) for _ in range(size)]
            ids = pa.array(range(size * number, size * (number + 1)), pa.int32())
            when = pa.array(times).cast(pa.timestamp("us"))
            tables[stream.name] = pa.table({"id": ids} | columns | {"ts": when})
        made.append(tables)
    return made


def run(spark: SparkSession, root: Path, sinks: dict[str, Any], **more: Any) -> None:
    session = ab.Session(spark, root / "checkpoint", sites=3)
    for stream in STREAMS:
        schema = ", ".join(f"`{c.name}` {c.type}" for c in stream.columns)
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        session.stream(stream.name, reader.parquet(str(root / stream.name)), time="ts", lateness="1 minute")
    for name, text in OURS.items():
        session.query(name, text, sinks[name])
    session.start(availableNow=True, **more).awaitTermination()


def test_windows_are_what_duckdb_and_spark_itself_give_on_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = batches(5, 60)
    sinks = {name: ab.memory() for name in OURS}
    write_batches(tmp_path, STREAMS, rows[:3])
    run(spark, tmp_path, sinks)
    write_batches(tmp_path, STREAMS, rows[3:], first=3)
    run(spark, tmp_path, sinks, endOfInput=True)
    by_name = {s.name: s for s in STREAMS}
    tables = {s.name: pa.concat_tables([batch[s.name] for batch in rows]) for s in STREAMS}
    for stream in STREAMS:
        spark.read.parquet(str(tmp_path / stream.name)).createOrReplaceTempView(stream.name)
    for name, text in OURS.items():
        found = sinks[name].table()
        assert found.num_rows > 2, text
        check_rows(found, expected_rows(bind_query(name, text, by_name), STREAMS, tables), what=text)
        check_rows(found, spark.sql(THEIRS[name]).toArrow(), what=f"as Spark has it: {text}")
