"""Running the slots of a batch as one Spark job."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch.engine.reports import SlotReport
from anabranch.engine.task.arrival.parcel import Parcel, opened
from anabranch.engine.task.arrival.sent_rows import Relabelling
from anabranch.engine.task.slot_task import SlotTask
from anabranch.exchange.router import Case
from anabranch.exchange.slot_map import SlotMap
from anabranch.plan.inputs import SEQUENCE
from anabranch.spark.reading.ingest import cases_of, relabelled, route
from anabranch.spark.slot_job import SlotJob
from anabranch.spark.slot_stages import SlotStages, tell

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
    cases = cases_of(task.routers())
    slot_map = None if task.gathers else task.slot_map()
    shape = (rows.sparkSession, read_as, task.wire.lanes, task.wire.sequenced, cases, slot_map, task.hops)
    job = stages.job(shape, rows, lambda: _parcels(rows, task, stages, read_as, cases, slot_map))
    left = opened(_collected(job, rows))
    assert not left, "rows that leave the last hop have nowhere to go"
    return left.reports


def _parcels(
    rows: DataFrame,
    task: SlotTask,
    stages: SlotStages,
    read_as: Relabelling | None,
    cases: Sequence[Case],
    slot_map: SlotMap | None,
) -> DataFrame:
    """What the slots make of the rows."""
    if read_as:
        rows = relabelled(rows, read_as)
    if task.wire.sequenced:
        # Not at ingest: Spark does not number the rows of a stream, only those of a micro-batch.
        rows = rows.withColumn(SEQUENCE, F.monotonically_increasing_id())
    parcels = stages.first(route(rows, cases, slot_map), task.wire)
    for hop in range(1, task.hops):
        parcels = stages.later(parcels.repartitionById(task.slots, F.col("slot")), hop)
    return parcels


def _collected(job: SlotJob, rows: DataFrame) -> list[Parcel]:
    """Run the job, anew if it has lost what one hop sent to the next.

    A hop that runs again gives its blocks other names, and perhaps its rows other ways. Spark sees that by
    checksums (`batch_conf`) and gives up when some task of the last hop has read what was there before.
    Nothing of such an attempt counts: only names in the reports of one that ends do.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return job.run(rows)
        except Py4JJavaError as error:
            if attempt == ATTEMPTS or _LOST not in str(error):
                raise
    raise AssertionError("an attempt ends or raises")
