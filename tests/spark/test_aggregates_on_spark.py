"""Aggregates and DISTINCT through the public API, on Spark: its hashes, its order of arrival, its batches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.spark.spark_sessions import write_batches
from tests.support.oracle_check import check_rows

pytestmark = pytest.mark.spark

STREAM = Stream(
    "s",
    (
        Column("k", "bigint"),
        Column("d", "double"),
        Column("t", "string"),
        Column("x", "int"),
        Column("ts", "timestamp"),
    ),
    "ts",
    lateness_us=2_000_000,
)
QUERIES = {
    "by_two": "SELECT k, t, COUNT(*) AS n, SUM(x) AS s, MAX(t) AS hi FROM s [RANGE 3 SECONDS] GROUP BY k, t",
    "by_float": "SELECT d, COUNT(x) AS n, AVG(x) AS m, MIN(ts) AS first FROM s [RANGE UNBOUNDED] GROUP BY d",
    "newest": "SELECT t, SUM(x) AS s, MIN(x) AS lo FROM s [ROWS 4] GROUP BY t HAVING COUNT(*) > 1",
    "all": "SELECT COUNT(*) AS n, MAX(k) + 1 AS hi FROM s [ROWS 10] WHERE x > 1",
    "first": "SELECT DISTINCT k, d FROM s [RANGE 2 SECONDS]",
    "computed": "SELECT floor(d) AS f, x % 2 AS odd, COUNT(*) AS n FROM s [NOW] GROUP BY floor(d), x % 2",
    "joined": "SELECT a.k, b.x FROM s [NOW] a, s [RANGE 1 SECOND] b WHERE a.k = b.k AND a.x < b.x",
}


def batches(count: int, size: int) -> list[dict[str, pa.Table]]:
    rng = random.Random(11)
    pick: dict[str, tuple[Sequence[Any], pa.DataType]] = {
        "k": ((None, 1, 2, 42, 2**40), pa.int64()),
        "d": ((None, 0.0, -0.0, float("nan"), 1.5), pa.float64()),
        "t": ((None, "", "a", "b", "é"), pa.string()),
        "x": ((None, 1, 2, 3), pa.int32()),
    }
    made = []
    for number in range(count):
        table = {n: pa.array([rng.choice(v) for _ in range(size)], kind) for n, (v, kind) in pick.items()}
        # Few different times, so that arrival has to break ties.
        times = [
            1_700_000_000_000_000 + 1_500_000 * number + 250_000 * rng.randrange(12) for _ in range(size)
        ]
        made.append({"s": pa.table(table | {"ts": pa.array(times).cast(pa.timestamp("us"))})})
    return made


def session(spark: SparkSession, root: Path, sinks: dict[str, Any], **settings: int) -> ab.Session:
    found = ab.Session(spark, root / "checkpoint", sites=5, **settings)
    schema = ", ".join(f"`{c.name}` {c.type}" for c in STREAM.columns)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    found.stream("s", reader.parquet(str(root / "s")), time="ts", lateness="2 seconds")
    for name, text in QUERIES.items():
        found.query(name, text, sinks[name])
    return found


@pytest.mark.parametrize("budget", [0, 1], ids=["no budget", "a small memory budget"])
def test_aggregates_on_spark_give_what_the_oracle_gives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    monkeypatch.setattr("anabranch.engine.settings.MEBIBYTE", 16_384)
    rows = batches(5, 60)
    sinks = {name: ab.memory() for name in QUERIES}
    write_batches(tmp_path, [STREAM], rows[:3])
    session(spark, tmp_path, sinks, memory_budget_mb=budget).start(availableNow=True).awaitTermination()
    write_batches(tmp_path, [STREAM], rows[3:], first=3)
    run = session(spark, tmp_path, sinks, memory_budget_mb=budget).start(availableNow=True, endOfInput=True)
    run.awaitTermination()
    finishing = sum(e.kind == "finishing" for e in run.events)
    assert finishing > 1 if budget else finishing == 1  # with a budget, partitions take turns
    assert any(e.kind == "memory_planned" for e in run.events) == bool(budget)
    accepted = pa.concat_tables(accepted_rows([STREAM], rows)["s"].accepted)
    for name, text in QUERIES.items():
        expected = expected_rows(bind_query(name, text, {"s": STREAM}), [STREAM], {"s": accepted})
        check_rows(sinks[name].table(), expected, what=text)


def test_the_end_of_input_needs_a_run_that_ends(spark: SparkSession, tmp_path: Path) -> None:
    write_batches(tmp_path, [STREAM], batches(1, 5))
    with pytest.raises(ConfigError, match="availableNow=True"):
        session(spark, tmp_path, {name: ab.memory() for name in QUERIES}).start(endOfInput=True)
