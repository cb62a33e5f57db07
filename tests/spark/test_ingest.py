"""What Spark makes of many queries with filters of their own on one stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch.engine.event_time import MAX_TIME_US
from anabranch.engine.local_ingest import wire_rows
from anabranch.engine.task.arrival.wire import TAG, Wire, wire_of
from anabranch.plan.logical import Column, Stream
from anabranch.queries.reconcile import reconcile
from anabranch.spark.reading.ingest import ingest
from tests.engine.nasty_runs import START, bind

pytestmark = pytest.mark.spark

A = Stream("a", (Column("k", "bigint"), Column("v", "int"), Column("ts", "bigint")), "ts", 0)
QUERIES = 20


def both_ways(spark: SparkSession, root: Path, filters: list[str]) -> tuple[DataFrame, pa.Table, Wire]:
    """Wire rows of one query per filter, as Spark makes them and as the other ingest does."""
    texts = {
        f"q{i}": f"SELECT x.v, y.v AS w FROM a [NOW] x, a [NOW] y WHERE x.k = y.k AND {f}"
        for i, f in enumerate(filters)
    }
    rows = some_rows()
    pq.write_table(rows, root / "a.parquet")
    layout = reconcile((A,), bind((A,), **texts), None).layout
    wire = wire_of(layout.inputs)
    frame = ingest(layout, wire, (A,), {"a": spark.read.parquet(str(root))})
    return frame, wire_rows(layout, wire, (A,), {"a": rows}), wire


def some_rows() -> pa.Table:
    times = [START, START + 1, None, -1, MAX_TIME_US]
    rows = [{"k": k, "v": v, "ts": t} for k in (1, None) for v in (0, 1, 7, None) for t in times]
    return pa.Table.from_pylist(rows, pa.schema({"k": pa.int64(), "v": pa.int32(), "ts": pa.int64()}))


@pytest.fixture
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Nothing is left out where plans are shown."""
    spark.conf.set("spark.sql.debug.maxToStringFields", 100_000)
    yield
    spark.conf.unset("spark.sql.debug.maxToStringFields")


@pytest.mark.usefixtures("whole_plans")
def test_each_filter_is_in_the_plan_once(spark: SparkSession, tmp_path: Path) -> None:
    sizes = []
    for queries in (QUERIES, 2 * QUERIES):
        filters = [f"x.v > {7000 + i}" for i in range(queries)]
        frame, _, _ = both_ways(spark, tmp_path, filters)
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert Counter(plan.count(f"> {7000 + i})") for i in range(queries)) == {1: queries}
        sizes.append(len(plan))
    assert sizes[1] < 2.5 * sizes[0]


def test_copies_go_to_the_inputs_whose_filter_is_true_and_the_first_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """NULL is not true, and a row that nobody wants, or without a usable time, goes once all the same."""
    filters = ["x.v > 0", "x.v IS NULL", "y.v < 7", "x.v > 100", "x.v = 1 AND x.k = y.v"]
    frame, expected, wire = both_ways(spark, tmp_path, filters)
    columns = [TAG, "ts", *(name for name, _ in wire.lanes if not name.startswith("bigint"))]
    found = frame.toArrow().select(columns)
    as_rows = [Counter(map(str, table.to_pylist())) for table in (found, expected.select(columns))]
    assert as_rows[0] == as_rows[1]
    assert {tag for tag in found.column(TAG).to_pylist() if tag < 0} == {-1, -2}
