"""The session: streams and continuous queries that run in one micro-batch loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anabranch.errors import ConfigError
from anabranch.language.duration import DURATION_HINT, duration_us
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Connector, Flow, Query, Stream
from anabranch.runtime.batch_loop import BatchLoop, BatchSummary
from anabranch.runtime.catalog import Catalog, explain_query, reconcile
from anabranch.runtime.connected_sink import connected_sink
from anabranch.runtime.failures import explain_failure
from anabranch.runtime.ingest import TIME_TYPES, ingest
from anabranch.runtime.local_path import local_path
from anabranch.runtime.run import Run
from anabranch.runtime.settings import CONF_PREFIX, Settings
from anabranch.runtime.sinks import FunctionSink, Sink
from anabranch.runtime.sources import check_sources, open_sources, source_names
from anabranch.runtime.spark_checkpoint import SPARK_CHECKPOINT, check_spark_checkpoint, spark_position
from anabranch.runtime.spark_conf import await_sources, batch_conf, cheap_logs, conf_set
from anabranch.runtime.spark_execute import execute_on_spark
from anabranch.state import PosixStorage, newest
from anabranch.state.fence import Fence, acquire


class Session:
    """Continuous queries over streams, all run by one Structured Streaming query.

    Parameters
    ----------
    spark
        The Spark session to run in.
    checkpoint
        Directory of the state; a session that finds one there goes on from it.
    **settings
        Any of `Settings`, such as `sites=8`; Spark conf keys `spark.anabranch.*` set the rest.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str | os.PathLike[str], **settings: int | str
    ) -> None:
        self.spark = spark
        self.checkpoint = local_path(checkpoint, what="checkpoint").absolute()
        self._given = {name: str(value) for name, value in settings.items()}
        self._streams: dict[str, Stream] = {}
        self._frames: dict[str, DataFrame] = {}
        self._queries: dict[str, Query] = {}
        self._sinks: dict[str, Sink] = {}
        self._set: list[tuple[str, str]] = []

    def stream(self, name: str, frame: DataFrame, *, time: str, lateness: str = "0 seconds") -> None:
        """Register a streaming DataFrame as a stream.

        Parameters
        ----------
        time
            Column of the event time: a timestamp, with or without a zone, or a BIGINT of microseconds since
            1970, UTC.
        """
        if not frame.isStreaming:
            raise ConfigError(f"stream {name!r} is not streaming: pass a DataFrame from spark.readStream")
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        kind = next((c.type for c in columns if c.name.lower() == time.lower()), None)
        if kind is None:
            raise ConfigError(
                f"stream {name!r} has no column {time!r}: choose from {', '.join(frame.columns)}"
            )
        if kind not in TIME_TYPES:
            raise ConfigError(
                f"the time of stream {name!r} cannot be a {kind}: make {time!r} a timestamp, with "
                f"CAST({time} AS TIMESTAMP) or, of a number, timestamp_seconds or timestamp_millis({time})"
            )
        self._add_stream(Stream(name, columns, time, _lateness_us(lateness)), frame)

    def query(self, name: str, select: str, sink: Sink | Connector | Callable[[DataFrame, int], Any]) -> None:
        """Register a continuous query."""
        if name in self._queries:
            raise ConfigError(f"there is a query {name!r} already: choose another name")
        connector = sink if isinstance(sink, Connector) else None
        query = bind_query(name, select, self._streams, sink=connector)
        self._sinks[name] = self._as_sink(name, sink)
        self._queries[name] = query

    def load(self, flow: Flow) -> None:
        """Register everything a flow file declares."""
        self._set += flow.settings
        for stream in flow.streams:
            self._add_stream(stream)
        for query in flow.queries:
            assert query.sink is not None
            self._sinks[query.name] = self._as_sink(query.name, query.sink)
            self._queries[query.name] = query

    def start(self, *, endOfInput: bool | None = None, **trigger: Any) -> Run:  # noqa: N803
        """Start the loop; takes Spark's trigger words, such as `availableNow=True`.

        Parameters
        ----------
        endOfInput
            With `availableNow`: when all there is has been read, declare that nothing at or before
            the newest time of each stream will come, so that every row is final and aggregates of
            the last rows are emitted. Without it they wait for the next run.
        """
        if not self._queries:
            raise ConfigError("the session has no query: add one with session.query(…)")
        settings = self.settings()
        if endOfInput is not None:
            settings = replace(settings, end_of_input=str(endOfInput).lower())
        if settings.end_of_input == "true" and not trigger.get("availableNow"):
            raise ConfigError("the end of input can only be declared for a run with availableNow=True")
        streams = tuple(self._streams.values())
        with source_names(self.spark, streams) as by_name:
            frames = open_sources(self.spark, streams, self._frames, by_name=by_name)
            storage = PosixStorage(self.checkpoint)
            fence = acquire(storage)
            try:
                manifest = newest(storage)
                check_spark_checkpoint(self.checkpoint, manifest)
                catalog = reconcile(streams, tuple(self._queries.values()), manifest, sources_by_name=by_name)
                check_sources(catalog, manifest.catalog if manifest else {})
                return self._start(catalog, settings, storage, fence, frames, trigger)
            except BaseException as error:
                fence.release()
                if isinstance(error, PySparkException | Py4JError):
                    raise explain_failure(error) from error
                raise

    def _start(
        self,
        catalog: Catalog,
        settings: Settings,
        storage: PosixStorage,
        fence: Fence,
        frames: Mapping[str, DataFrame],
        trigger: Mapping[str, Any],
    ) -> Run:
        rows: list[DataFrame] = []
        loop = BatchLoop(
            storage=storage,
            fence=fence,
            root=self.checkpoint,
            catalog=catalog,
            settings=settings,
            sinks=self._sinks,
            execute=lambda task: execute_on_spark(rows[0], task),
            cores=self.spark.sparkContext.defaultParallelism,
        )
        run = Run(loop, fence)

        def process(batch_rows: DataFrame, batch: int) -> None:
            for key, value in batch_conf(loop.wire).items():
                batch_rows.sparkSession.conf.set(key, value)
            offsets, source_id = spark_position(self.checkpoint, batch)
            with run.turn:
                rows[:] = [batch_rows]
                run.process(batch, offsets=offsets, source_id=source_id)

        frame = ingest(loop.layout, loop.wire, catalog.streams, frames)
        writer = frame.writeStream.foreachBatch(process).option(
            "checkpointLocation", str(self.checkpoint / SPARK_CHECKPOINT)
        )
        with conf_set(self.spark, cheap_logs(self.spark)):
            run.attach((writer.trigger(**trigger) if trigger else writer).start())
            await_sources(run.streamingQuery)

        def without_rows() -> None:
            rows[:] = [_no_rows(self.spark, frame, batch_conf(loop.wire))]

        def finish() -> Iterator[BatchSummary]:
            without_rows()
            yield from loop.drain()
            if settings.end_of_input == "true":
                yield from loop.end_of_input()

        def step() -> BatchSummary:
            without_rows()
            return loop.step()

        if trigger.get("availableNow") or trigger.get("once"):
            run.finish_when_done(finish)
        else:
            run.step_when_idle(step)
        return run

    def explain(self, name: str) -> str:
        """How a query will run: keys, routing, plan, states."""
        if name not in self._queries:
            raise ConfigError(f"there is no query {name!r}: choose from {', '.join(self._queries)}")
        manifest = newest(PosixStorage(self.checkpoint)) if self.checkpoint.exists() else None
        catalog = reconcile(tuple(self._streams.values()), tuple(self._queries.values()), manifest)
        return explain_query(catalog, name, sites=self.settings().sites)

    def settings(self) -> Settings:
        """Settings in force: Spark conf, then SET, then the arguments of the session."""
        # What the application was started with, and over it what was set in the running Spark session.
        conf = {**dict(self.spark.sparkContext.getConf().getAll()), **self.spark.conf.getAll}
        ours = [(key, value) for key, value in conf.items() if key.startswith(CONF_PREFIX)]
        settings = Settings().with_values(ours).with_values(self._set).with_values(self._given.items())
        return settings.resolved(self.spark.sparkContext.defaultParallelism)

    def _add_stream(self, stream: Stream, frame: DataFrame | None = None) -> None:
        if stream.name in self._streams:
            raise ConfigError(f"there is a stream {stream.name!r} already: choose another name")
        self._streams[stream.name] = stream
        if frame is not None:
            self._frames[stream.name] = frame

    def _as_sink(self, query: str, sink: Sink | Connector | Callable[[DataFrame, int], Any]) -> Sink:
        if isinstance(sink, Connector):
            return connected_sink(self.spark, query, sink)
        return FunctionSink(self.spark, sink) if callable(sink) else sink


def _no_rows(spark: SparkSession, like: DataFrame, conf: Mapping[str, str]) -> DataFrame:
    """An empty batch of the same columns, in a session of its own: the user's keeps its conf."""
    own = spark.newSession()
    for key, value in conf.items():
        own.conf.set(key, value)
    return own.createDataFrame([], like.schema)


def _lateness_us(text: str) -> int:
    number, _, unit = text.strip().partition(" ")
    length = duration_us(number, unit.strip())
    if length is None:
        raise ConfigError(f"lateness {text!r} is no length of time: write it {DURATION_HINT}")
    return length
