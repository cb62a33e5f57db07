"""Running the slots of a batch as one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from anabranch.engine.reports import SlotReport
from anabranch.engine.task.arrival.parcel import SCHEMA, Content, Parcel, opened
from anabranch.engine.task.hop_run import run_hop
from anabranch.engine.task.slot_run import run_first_hop
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker.worker_process import give_back_surplus, keep_memory, spare_modules
from anabranch.plan.inputs import SEQUENCE
from anabranch.plan.states.state_id import StateId
from anabranch.spark.reading.ingest import route

ATTEMPTS = 3
"""Times that a job is run whose hops do not agree because shuffle files were lost between them."""
_LOST = "indeterminate output"
# Not as text, which Spark would parse in every batch.
_PARCELS = StructType(
    [
        StructField("slot", IntegerType()),
        StructField("state", StringType()),
        StructField("content", StringType()),
        StructField("payload", BinaryType()),
    ]
)
_Function = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def execute_on_spark(rows: DataFrame, task: SlotTask) -> Sequence[SlotReport]:
    """Route the wire rows of a micro-batch to its slots, run them, collect their reports.

    One action: a second one would read the sources again.
    """
    if task.wire.sequenced:
        # Not at ingest: Spark does not number the rows of a stream, only those of a micro-batch.
        rows = rows.withColumn(SEQUENCE, F.monotonically_increasing_id())
    routed = route(rows, task.routers(), task.slot_map(), gathers=task.gathers)
    parcels = routed.mapInArrow(first_hop(task), _PARCELS)
    for hop in range(1, task.hops):
        parcels = parcels.repartitionById(task.slots, F.col("slot")).mapInArrow(
            _later_hop(task, hop), _PARCELS
        )
    collected = [_parcel(row.asDict()) for row in _collected(parcels)]
    left = opened(collected)
    assert not left, "rows that leave the last hop have nowhere to go"
    return left.reports


def _parcel(row: Mapping[str, Any]) -> Parcel:
    """A parcel as it was sent: Spark knows of text, not of ids of states."""
    return Parcel(row["slot"], StateId(row["state"]), Content(row["content"]), bytes(row["payload"]))


def _collected(parcels: DataFrame) -> list[Row]:
    """Run the job, anew if it has lost what one hop sent to the next.

    A hop that runs again gives its blocks other names, and perhaps its rows other ways. Spark sees that by
    checksums (`batch_conf`) and gives up when some task of the last hop has read what was there before.
    Nothing of such an attempt counts: only names in the reports of one that ends do.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return parcels.collect()
        except Py4JJavaError as error:
            if attempt == ATTEMPTS or _LOST not in str(error):
                raise
    raise AssertionError("an attempt ends or raises")


def first_hop(task: SlotTask) -> _Function:
    """What Spark runs for every slot."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _in_task(lambda slot, attempt: run_first_hop(task, slot, batches, attempt=attempt))

    return run


def _later_hop(task: SlotTask, hop: int) -> _Function:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def work(slot: int, attempt: str) -> Iterator[Parcel]:
            arrived = [_parcel(row) for batch in batches for row in batch.to_pylist()]
            assert all(parcel.slot == slot for parcel in arrived), "a slot received rows of another slot"
            return run_hop(task, hop, slot, arrived, attempt=attempt)

        yield from _in_task(work)

    return run


def _in_task(work: Callable[[int, str], Iterator[Parcel]]) -> Iterator[pa.RecordBatch]:
    """Run a hop in a worker process of Spark."""
    keep_memory()
    context = TaskContext.get()
    assert context is not None
    attempt = f"{context.stageId()}.{context.attemptNumber()}.{context.taskAttemptId()}"
    for parcel in work(context.partitionId(), attempt):
        columns = ([parcel.slot], [parcel.state], [parcel.content], [parcel.payload])
        yield pa.record_batch(
            [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )
    spare_modules()
    give_back_surplus()
