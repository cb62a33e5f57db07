"""The Python stages of a job: made once for a run, and used by every batch.

`DataFrame.mapInArrow` takes some forty calls of the JVM, a tenth of a batch that has little to do. So the
column that stands for the function is kept. What a batch tells its slots is a setting of its job, which Spark
takes along to every task.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType
from pyspark.util import PythonEvalType

from anabranch.engine.task.arrival.parcel import SCHEMA, Content, Parcel
from anabranch.engine.task.arrival.wire import DEAD, TAG, Wire
from anabranch.engine.task.hop_run import run_hop
from anabranch.engine.task.slot_run import run_first_hop
from anabranch.engine.task.slot_task import SlotTask
from anabranch.engine.task.worker.worker_process import (
    end_quietly,
    give_back_surplus,
    keep_memory,
    spare_loaded,
)
from anabranch.plan.inputs import HASH, SEQUENCE, TIME
from anabranch.plan.states.state_id import StateId
from anabranch.spark.slot_job import SlotJob

_TOLD = "spark.anabranch.slot.task"
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


def tell(spark: SparkSession, task: SlotTask) -> None:
    """Let the next jobs of a Spark session run this task."""
    spark.conf.set(_TOLD, packed(task))


def packed(task: SlotTask) -> str:
    """What travels to the slots."""
    return base64.b64encode(pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)).decode()


def unpacked(text: str) -> SlotTask:
    """The task; it comes from the driver of the same application."""
    task: SlotTask = pickle.loads(base64.b64decode(text))  # noqa: S301
    return task


class SlotStages:
    """The stages of the jobs of a run."""

    def __init__(self) -> None:
        self._columns: dict[tuple[int, tuple[str, ...]], Column] = {}
        self._job: tuple[Hashable, SlotJob] | None = None

    def job(self, shape: Hashable, rows: DataFrame, make: Callable[[], DataFrame]) -> SlotJob:
        """The job that makes something of the rows: that of the batch before, if its shape is the same."""
        if self._job is None or self._job[0] != shape:
            self._job = shape, SlotJob(make(), rows)
        return self._job[1]

    def first(self, rows: DataFrame, wire: Wire) -> DataFrame:
        """What the slots make of the rows that ingest sends them."""
        sequence = (SEQUENCE,) if wire.sequenced else ()
        names = (TAG, TIME, HASH, *(name for name, _ in wire.lanes), DEAD, *sequence)
        return self._mapped(rows, 0, names)

    def later(self, parcels: DataFrame, hop: int) -> DataFrame:
        """What they make of what the hop before has sent."""
        return self._mapped(parcels, hop, tuple(_PARCELS.names))

    def _mapped(self, rows: DataFrame, hop: int, names: tuple[str, ...]) -> DataFrame:
        """As `mapInArrow` does it, with a column that was made before."""
        if (hop, names) not in self._columns:
            make: Any = pandas_udf
            function = make(_hop(hop), _PARCELS, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
            self._columns[hop, names] = function(*(f"`{name}`" for name in names))
        classic: Any = rows
        column: Any = self._columns[hop, names]
        mapped = classic._jdf.mapInArrow(column._jc, False, None)
        return DataFrame(mapped, rows.sparkSession)


def parcel_of(row: dict[str, Any]) -> Parcel:
    """A parcel as it was sent: Spark knows of text, not of ids of states."""
    return Parcel(row["slot"], StateId(row["state"]), Content(row["content"]), bytes(row["payload"]))


def _hop(hop: int) -> _Function:
    """What Spark runs for every slot."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        end_quietly()
        keep_memory()
        context = TaskContext.get()
        assert context is not None
        told = context.getLocalProperty(_TOLD)
        assert told is not None, "Spark takes the settings of a session along to its tasks"
        task, slot = unpacked(told), context.partitionId()
        attempt = f"{context.stageId()}.{context.attemptNumber()}.{context.taskAttemptId()}"
        if hop:
            arrived = [parcel_of(row) for batch in batches for row in batch.to_pylist()]
            assert all(parcel.slot == slot for parcel in arrived), "a slot received rows of another slot"
            parcels = run_hop(task, hop, slot, arrived, attempt=attempt)
        else:
            parcels = run_first_hop(task, slot, batches, attempt=attempt)
        yield from map(_sent, parcels)
        spare_loaded(task.constants.name)
        give_back_surplus()

    return run


def _sent(parcel: Parcel) -> pa.RecordBatch:
    columns = ([parcel.slot], [parcel.state], [parcel.content], [parcel.payload])
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
