"""How a run begins: what a session declares meets what its checkpoint knows, and Spark's query starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.json_log import JsonLog
from anabranch.engine.listener import Listener
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.shared_sink import placed
from anabranch.engine.sinks.sink import Sink
from anabranch.engine.step.batch_loop import BatchLoop
from anabranch.queries.catalog import Catalog
from anabranch.queries.changes import queries_at_start
from anabranch.queries.reconcile import reconcile
from anabranch.spark.checkpoint import check_spark_checkpoint
from anabranch.spark.declarations import Declarations
from anabranch.spark.failures import explain_failure
from anabranch.spark.ingest_query import IngestQuery
from anabranch.spark.kafka.broker_watch import watch_over
from anabranch.spark.live_queries import LiveQueries, sinks_at_start
from anabranch.spark.reading.repeatable import check_repeatable
from anabranch.spark.reading.sources import check_sources, open_sources, source_names
from anabranch.spark.run import Run
from anabranch.spark.run_driver import RunDriver
from anabranch.spark.start.warm_workers import warm_workers
from anabranch.spark.tables.table_reader import TableReader
from anabranch.state import Manifest, PosixStorage, newest
from anabranch.state.fence import acquire


def begin_run(
    spark: SparkSession,
    checkpoint: Path,
    declared: Declarations,
    settings: Settings,
    *,
    name: str | None,
    trigger: Mapping[str, Any],
    listeners: Sequence[Listener],
    decider: Decider | None,
) -> Run:
    """Take the checkpoint, and begin a run that goes on from it; if that fails, give it back."""
    streams = tuple(declared.streams.values())
    warm_up = warm_workers(spark, streams, tuple(declared.queries.values()))
    with source_names(spark, streams) as by_name:
        frames = open_sources(spark, streams, declared.frames, by_name=by_name)
        if settings.plan_ahead == "true":
            check_repeatable(frames)
        watch = watch_over(spark, checkpoint, frames, declared.sinks)
        storage = PosixStorage(checkpoint)
        fence = acquire(storage)
        try:
            manifest = newest(storage)
            check_spark_checkpoint(checkpoint, manifest)
            catalog, sinks = _reconciled(spark, declared, settings, manifest, by_name=by_name)
            told = (JsonLog(storage), *listeners)
            watch.start(told, batch=manifest.batch if manifest else -1)
            joined = declared.joined_tables(catalog)
            tables = TableReader(spark, storage, checkpoint, joined, declared.table_frames)
            tables.offer()
            query = IngestQuery(
                spark,
                checkpoint,
                frames,
                tables,
                warm_up.wait,
                plan_ahead=settings.plan_ahead == "true",
                name=name,
                trigger=trigger,
            )
            loop = BatchLoop(
                storage=storage,
                fence=fence,
                catalog=catalog,
                settings=settings,
                sinks=sinks,
                execute=query.execute,
                cores=spark.sparkContext.defaultParallelism,
                decider=decider,
                tables=tables.in_use,
            )
            driver = RunDriver(loop, fence, listeners=told, watch=watch)
            live = LiveQueries(spark, loop, dict(declared.streams))
            driver.read_mail, driver.settle = live.read_mail, warm_up.settle
            query.begin(driver, end_of_input=settings.end_of_input == "true")
            return Run(driver, live)
        except BaseException as error:
            watch.stop()
            warm_up.settle()  # a script that ends with this error would cut it off
            fence.release()
            if isinstance(error, PySparkException | Py4JError):
                raise explain_failure(error) from error
            raise


def _reconciled(
    spark: SparkSession,
    declared: Declarations,
    settings: Settings,
    manifest: Manifest | None,
    *,
    by_name: bool,
) -> tuple[Catalog, dict[str, Sink]]:
    """The streams, queries and sinks of the run: those declared, and those that came in an earlier run."""
    queries, submitted = queries_at_start(tuple(declared.queries.values()), manifest, declared.streams)
    running, sinks = sinks_at_start(spark, queries, declared.sinks, manifest)
    catalog = reconcile(
        tuple(declared.streams.values()),
        placed(running, sinks, manifest),
        manifest,
        sources_by_name=by_name,
        stations=settings.uses_stations,
        eddies=settings.uses_eddies,
        submitted=submitted,
        sharing=settings.sharing,
    )
    check_sources(catalog, manifest.catalog if manifest else {})
    return catalog, sinks
