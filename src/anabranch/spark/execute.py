"""Running the slots of a batch as one Spark job."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from anabranch.engine.reports import SlotReport
from anabranch.engine.task.arrival.parcel import opened
from anabranch.engine.task.arrival.sent_rows import Relabelling
from anabranch.engine.task.slot_task import SlotTask
from anabranch.plan.inputs import SEQUENCE
from anabranch.spark.reading.ingest import relabelled, route
from anabranch.spark.slot_stages import SlotStages, parcel_of, tell

ATTEMPTS = 3
"""Times that a job is run whose hops do not agree because shuffle files were lost between them."""
_LOST = "indeterminate output"


def execute_on_spark(
    rows: DataFrame, task: SlotTask, stages: SlotStages, read_as: Relabelling | None = None
) -> Sequence[SlotReport]:
    """Route the wire rows of a micro-batch to its slots, run them, collect their reports.

    One action: a second one would read the sources again.

    Parameters
    ----------
    read_as
        How rows are read that were sent for another layout.
    """
    tell(rows.sparkSession, task)
    if read_as:
        rows = relabelled(rows, read_as)
    if task.wire.sequenced:
        # Not at ingest: Spark does not number the rows of a stream, only those of a micro-batch.
        rows = rows.withColumn(SEQUENCE, F.monotonically_increasing_id())
    routed = route(rows, task.routers(), task.slot_map(), gathers=task.gathers)
    parcels = stages.first(routed, task.wire)
    for hop in range(1, task.hops):
        parcels = stages.later(parcels.repartitionById(task.slots, F.col("slot")), hop)
    collected = [parcel_of(row.asDict()) for row in _collected(parcels)]
    left = opened(collected)
    assert not left, "rows that leave the last hop have nowhere to go"
    return left.reports


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
