"""Spark's streaming query of a run: it reads the sources, and sends their rows to the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.engine.reports import SlotReport
from anabranch.engine.step.batch_loop import BatchLoop, BatchSummary
from anabranch.engine.task.slot_task import SlotTask
from anabranch.spark.batch_function import for_each_batch
from anabranch.spark.checkpoint import SPARK_CHECKPOINT, rewind_spark, spark_position
from anabranch.spark.execute import execute_on_spark
from anabranch.spark.interrupt import await_interrupt
from anabranch.spark.reading.empty_files import EmptyFiles
from anabranch.spark.reading.ingest import ingest
from anabranch.spark.reading.prepared import same_everywhere
from anabranch.spark.reading.sources import source_names
from anabranch.spark.run_driver import RunDriver
from anabranch.spark.slot_stages import SlotStages
from anabranch.spark.start.conf import await_sources, batch_conf, cheap_logs, conf_set
from anabranch.spark.start.log_files import log_files_known
from anabranch.spark.tables.table_reader import TableReader


class IngestQuery:
    """Starts Spark's query, anew when queries come, and hands every batch to the driver of the run.

    Parameters
    ----------
    frames
        By stream, what its source brings.
    warmed
        Waits until the workers are warm.
    plan_ahead
        Whether Spark plans the next batch while one runs.
    name, trigger
        Of Spark's query.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Path,
        frames: Mapping[str, DataFrame],
        tables: TableReader,
        warmed: Callable[[], None],
        *,
        plan_ahead: bool,
        name: str | None,
        trigger: Mapping[str, Any],
    ) -> None:
        self._spark, self._checkpoint, self._frames = spark, checkpoint, frames
        self._tables, self._warmed = tables, warmed
        self._plan_ahead, self._name, self._trigger = plan_ahead, name, trigger
        self._empty_files = EmptyFiles(checkpoint)
        self._stages = SlotStages()
        self._driver: RunDriver | None = None
        self._rows: DataFrame
        """What the next step works on."""
        self._wired: DataFrame
        """What Spark's query sends, as long as no query comes."""
        self._is_set = False
        """Whether the session of Spark's query has the settings of our jobs."""

    def execute(self, task: SlotTask) -> Sequence[SlotReport]:
        """Run the slots of a step over the rows that were handed over."""
        assert self._driver is not None, "steps come when Spark's query has begun"
        return execute_on_spark(self._rows, task, self._stages, self._driver.read_as)

    def begin(self, driver: RunDriver, *, end_of_input: bool) -> None:
        """Start Spark's query, and let the driver watch over it."""
        loop, self._driver = driver.loop, driver
        driver.without_rows = lambda: self._without_rows(loop)

        def launch() -> StreamingQuery:
            return self._launch(driver)

        def finish() -> Iterator[BatchSummary]:
            self._without_rows(loop)
            if end_of_input:  # what is final anyway comes in the same steps
                yield from loop.end_of_input()
            yield from loop.drain()

        def step() -> BatchSummary:
            self._without_rows(loop)
            return loop.step()

        if self._trigger.get("availableNow") or self._trigger.get("once"):
            driver.begin(launch, finish=finish)
        else:
            driver.begin(launch, step=step)

    def _launch(self, driver: RunDriver) -> StreamingQuery:
        """Start Spark's query for the queries there are now."""
        loop, self._is_set = driver.loop, False
        rewind_spark(self._checkpoint, loop.manifest)
        with same_everywhere(self._spark):
            met = self._tables.joined(loop.catalog.table_joins)
            self._wired = ingest(loop.layout, loop.wire, loop.catalog.streams, self._frames, met)
        self._stages = SlotStages()
        writer = self._wired.writeStream.option(
            "checkpointLocation", str(self._checkpoint / SPARK_CHECKPOINT)
        )
        for_each_batch(writer, self._spark, lambda rows, batch: self._process(driver, rows, batch))
        writer = writer if self._name is None else writer.queryName(self._name)
        with (
            source_names(self._spark, loop.catalog.streams),
            log_files_known(self._spark),
            conf_set(self._spark, cheap_logs(self._spark)),
        ):
            query = (writer.trigger(**self._trigger) if self._trigger else writer).start()
            await_sources(query)
        self._tables.watch(lambda: query.isActive)
        return query

    def _process(self, driver: RunDriver, rows: DataFrame, batch: int) -> None:
        """Run one micro-batch, or begin it; Spark calls it."""
        driver.beside.wait()
        if not self._is_set:  # Spark's query has a session of its own, the same in every batch
            for key, value in batch_conf(driver.loop.wire).items():
                rows.sparkSession.conf.set(key, value)
            self._is_set = True
        offsets, source_id = spark_position(self._checkpoint, batch)
        self._warmed()
        changes = self._tables.note(batch)

        def run(stopped: Callable[[], None] | None) -> None:
            driver.process(
                batch,
                offsets=offsets,
                source_id=source_id,
                ready=lambda: self._hand_over(rows),
                stopped=stopped,
            )
            driver.note([*changes, *self._empty_files.events(batch)])

        # A checkpoint without a manifest and with a batch that Spark has finished is refused: not the first.
        # With tables neither: the batch under way says which of their versions are in use.
        is_first = driver.loop.manifest is None
        if self._plan_ahead and driver.takes_batches and not is_first and not self._tables.any:
            driver.beside.begin(lambda: run(None))
        else:
            run(lambda: await_interrupt(rows))

    def _without_rows(self, loop: BatchLoop) -> None:
        """Let the next step work on no rows."""
        self._warmed()  # at a restart it may be the first one
        self._hand_over(no_rows(self._spark, self._wired, batch_conf(loop.wire)))

    def _hand_over(self, rows: DataFrame) -> None:
        self._rows = rows


def no_rows(spark: SparkSession, like: DataFrame, conf: Mapping[str, str]) -> DataFrame:
    """An empty batch of the same columns, in a session of its own: the user's keeps its conf."""
    own = spark.newSession()
    for key, value in conf.items():
        own.conf.set(key, value)
    # Not from a Python list: Spark would start another family of Python workers to read it.
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in like.schema]
    return own.range(1, numPartitions=1).where("id > 0").select(*columns)
