"""A job is planned once: what it makes of the rows of another batch is what a plan of its own would make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.engine.task.arrival.parcel import SCHEMA, Content
from anabranch.plan.states.state_id import KEEPS_NOTHING
from anabranch.spark.slot_job import SlotJob

pytestmark = pytest.mark.spark
PARCEL = "slot int, state string, content string, payload binary"


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A parcel from every task: its rows, as text beyond ASCII."""
    text = ",".join(sorted(str(n) for batch in batches for n in batch.column("n").to_pylist()))
    row = {"slot": 0, "state": KEEPS_NOTHING, "content": "report", "payload": f"«{text}»".encode()}
    yield pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def _made(rows: DataFrame) -> DataFrame:
    slots = rows.selectExpr("n + 1 AS n").repartitionById(2, F.expr("CAST(n % 2 AS INT)"))
    return slots.mapInArrow(_counted, PARCEL)  # type: ignore[arg-type]


def _session(spark: SparkSession) -> SparkSession:
    """As the session of a micro-batch: plans stay as they are."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    return own


def _rows(spark: SparkSession, numbers: range, *, partitions: int) -> DataFrame:
    """Rows as Spark hands a batch over: what a plan gives, and the plan no more."""
    rows: Any = spark.range(numbers.start, numbers.stop, numPartitions=partitions).selectExpr("id AS n")
    classic: Any = spark
    made = rows._jdf.queryExecution().toRdd()
    frame: Any = DataFrame
    return frame(classic._jsparkSession.internalCreateDataFrame(made, rows._jdf.schema(), False), spark)


def test_a_job_that_was_planned_on_one_batch_runs_on_others_through_its_shuffle(spark: SparkSession) -> None:
    spark = _session(spark)
    first = _rows(spark, range(3), partitions=1)
    job = SlotJob(_made(first), first)
    for numbers, partitions in ((range(10, 15), 2), (range(0), 1), (range(3), 0), (range(7), 3)):
        rows = _rows(spark, numbers, partitions=partitions) if partitions else first
        parcels = job.run(rows)
        wanted = [sorted((str(n + 1) for n in numbers if (n + 1) % 2 == slot), key=str) for slot in (0, 1)]
        assert sorted(p.payload.decode() for p in parcels) == sorted(f"«{','.join(w)}»" for w in wanted)
        assert {(p.slot, p.state, p.content) for p in parcels} == {(0, KEEPS_NOTHING, Content.REPORT)}


def test_rows_that_are_no_batch_of_spark_are_those_a_job_is_made_of_or_refused(spark: SparkSession) -> None:
    rows = spark.range(3, numPartitions=1).selectExpr("id AS n")
    job = SlotJob(rows.coalesce(1).mapInArrow(_counted, PARCEL), rows)  # type: ignore[arg-type]
    assert [p.payload.decode() for p in job.run(rows)] == ["«0,1,2»"]
    with pytest.raises(Py4JError, match="cannot be cast"):
        job.run(spark.range(4).selectExpr("id AS n"))
    with pytest.raises(Py4JError, match="one leaf of rows"):
        job.run(_rows(spark, range(4), partitions=1))


def test_settings_reach_the_tasks_of_a_job_which_is_an_execution(spark: SparkSession) -> None:
    """Spark takes back the stages of an execution when one of them runs again and makes something else."""

    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        list(batches)
        context = TaskContext.get()
        found = context and context.getLocalProperty("spark.anabranch.told")
        assert context
        assert context.getLocalProperty("spark.sql.execution.id")
        row = {"slot": 1, "state": KEEPS_NOTHING, "content": "report", "payload": str(found).encode()}
        yield pa.RecordBatch.from_pylist([row], schema=SCHEMA)

    own = _session(spark)
    rows = _rows(own, range(2), partitions=1)
    job = SlotJob(rows.mapInArrow(told, PARCEL), rows)  # type: ignore[arg-type]
    for word in ("first", "second"):
        own.conf.set("spark.anabranch.told", word)
        assert [p.payload for p in job.run(rows)] == [word.encode()]


def test_every_run_of_a_job_works_through_all_hops_again_also_on_the_same_rows(spark: SparkSession) -> None:
    """Otherwise a step would get what the first hop of the step before has sent."""

    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        list(batches)
        context = TaskContext.get()
        assert context
        row = {"slot": 0, "state": KEEPS_NOTHING, "content": "report"}
        row["payload"] = str(context.getLocalProperty("spark.anabranch.told")).encode()
        yield pa.RecordBatch.from_pylist([row], schema=SCHEMA)

    def passed_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    own = _session(spark)
    for rows in (_rows(own, range(2), partitions=1), own.range(2, numPartitions=1).selectExpr("id AS n")):
        first_hop = rows.mapInArrow(told, PARCEL)  # type: ignore[arg-type]
        job = SlotJob(first_hop.repartitionById(1, F.col("slot")).mapInArrow(passed_on, PARCEL), rows)  # type: ignore[arg-type]
        for word in ("first", "second"):
            own.conf.set("spark.anabranch.told", word)
            assert [p.payload for p in job.run(rows)] == [word.encode()]
