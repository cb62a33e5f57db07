"""Running the slots of a batch as one Spark job."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.functions import monotonically_increasing_id

from anabranch.plan.layout import SEQUENCE
from anabranch.runtime.ingest import route
from anabranch.runtime.reports import SlotReport
from anabranch.runtime.slot_task import SlotTask, run_slot
from anabranch.runtime.worker_process import give_back_surplus, keep_memory, spare_modules

_REPORT = pa.schema([("report", pa.binary())])


def execute_on_spark(rows: DataFrame, task: SlotTask) -> Sequence[SlotReport]:
    """Route the wire rows of a micro-batch to its slots, run them, collect their reports.

    One action: a second one would read the sources again.
    """
    if task.wire.sequenced:
        # Not at ingest: Spark does not number the rows of a stream, only those of a micro-batch.
        rows = rows.withColumn(SEQUENCE, monotonically_increasing_id())
    routed = route(rows, task.destinations(), task.slots)
    reports = routed.mapInArrow(_slot_function(task), "report binary").collect()
    # Reports come from our own tasks over Spark's authenticated channel, like any collected row.
    return [pickle.loads(row.report) for row in reports]  # noqa: S301


def _slot_function(task: SlotTask) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_memory()
        context = TaskContext.get()
        assert context is not None
        attempt = f"{context.stageId()}.{context.attemptNumber()}.{context.taskAttemptId()}"
        report = run_slot(task, context.partitionId(), batches, attempt=attempt)
        spare_modules()
        give_back_surplus()
        yield pa.record_batch([pa.array([pickle.dumps(report)], pa.binary())], schema=_REPORT)

    return run
