"""The session: streams and continuous queries that run in one micro-batch loop."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from datetime import timedelta
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.json_log import JsonLog
from anabranch.engine.listener import Listener
from anabranch.engine.settings import CONF_PREFIX, Settings
from anabranch.engine.sinks.local_path import local_path
from anabranch.engine.sinks.shared_sink import placed
from anabranch.engine.sinks.sink import Sink
from anabranch.engine.step.batch_loop import BatchLoop, BatchSummary
from anabranch.errors import ConfigError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Connector, Flow, Query, Stream, Table
from anabranch.queries.catalog import Catalog, explain_query, reconcile
from anabranch.queries.changes import queries_at_start
from anabranch.spark.checkpoint import SPARK_CHECKPOINT, check_spark_checkpoint, spark_position
from anabranch.spark.execute import execute_on_spark
from anabranch.spark.failures import explain_failure
from anabranch.spark.interrupt import await_interrupt
from anabranch.spark.kafka.broker_watch import watch_over
from anabranch.spark.live_queries import LiveQueries, sinks_at_start
from anabranch.spark.reading.declared import (
    AnySink,
    as_sink,
    bound_by_spark,
    lateness_us,
    read_flow,
    stream_columns,
)
from anabranch.spark.reading.empty_files import EmptyFiles
from anabranch.spark.reading.ingest import ingest
from anabranch.spark.reading.prepared import same_everywhere
from anabranch.spark.reading.sources import check_sources, open_sources, source_names
from anabranch.spark.run import Run
from anabranch.spark.run_driver import RunDriver
from anabranch.spark.start.conf import await_sources, batch_conf, cheap_logs, conf_set
from anabranch.spark.start.log_files import log_files_known
from anabranch.spark.start.warm_workers import warm_workers
from anabranch.spark.tables.table_reader import TableReader, table_source
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

    Examples
    --------
    ::

        with ab.Session(spark, checkpoint="checkpoint", sites=4) as session:
            session.stream("orders", orders, time="ts", lateness="5 seconds")
            session.query("large", "SELECT id FROM orders WHERE amount > 200", sink="console")
            session.start(availableNow=True).awaitTermination()
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str | os.PathLike[str], **settings: int | str
    ) -> None:
        self.spark = spark
        self.checkpoint = local_path(checkpoint, what="checkpoint").absolute()
        self._given = {name: str(value) for name, value in settings.items()}
        self._streams: dict[str, Stream] = {}
        self._frames: dict[str, DataFrame] = {}
        self._tables: dict[str, Table] = {}
        self._table_frames: dict[str, DataFrame] = {}
        self._queries: dict[str, Query] = {}
        self._sinks: dict[str, Sink] = {}
        self._set: list[tuple[str, str]] = []
        self._run: Run | None = None
        self.decider: Decider | None = None
        """Decides between batches in the place of the policies, if it is set before the start."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Stop what still runs."""
        if self._run is not None:
            self._run.stop()

    def __repr__(self) -> str:
        names = (
            f"streams: {', '.join(self._streams) or 'none'}; queries: {', '.join(self._queries) or 'none'}"
        )
        return f"<Session {str(self.checkpoint)!r}, {names}>"

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str,
        lateness: str | timedelta = "0 seconds",
        replace: bool = False,
    ) -> None:
        """Register a streaming DataFrame as a stream.

        Parameters
        ----------
        time
            Column of the event time: a timestamp, with or without a zone, or a BIGINT of microseconds since
            1970, UTC.
        lateness
            How far rows may come behind the newest one: `"5 seconds"`, or a timedelta.
        replace
            Take the place of a stream of this name that no query reads.

        Examples
        --------
        ::

            session.stream("orders", spark.readStream.schema("…").parquet("in"), time="ts")
        """
        columns = stream_columns(name, frame, time)
        self._refuse_while_running("stream")
        if replace and name in self._streams:
            self._refuse_if_read(name)
        elif name in self._streams:
            raise ConfigError(_taken("stream", name))
        self._streams[name] = Stream(name, columns, time, lateness_us(lateness))
        self._frames[name] = frame

    def table(
        self,
        name: str,
        source: DataFrame | str | os.PathLike[str],
        *,
        refresh: str | timedelta | None = None,
    ) -> None:
        """Register a table: rows without a time that streams are joined with where they arrive.

        Parameters
        ----------
        source
            A DataFrame that is no stream, or the path of parquet files.
        refresh
            How often it is read anew while a run goes on, if it has changed: `"1 minute"`, or a timedelta.
            Without it, it is read when a run starts.

        Examples
        --------
        ::

            session.table("customers", "data/customers", refresh="1 minute")
        """
        self._refuse_while_running("table")
        if name in self._tables or name in self._streams:
            raise ConfigError(_taken("table or stream", name))
        frame, connector = table_source(self.spark, name, source)
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        every = None if refresh is None else lateness_us(refresh)
        self._tables[name] = Table(name, columns, connector, every)
        if connector is None:
            self._table_frames[name] = frame

    def query(self, name: str, select: str, sink: AnySink, *, replace: bool = False) -> None:
        """Register a continuous query.

        Parameters
        ----------
        sink
            `ab.parquet(path)`, `ab.memory()`, `ab.console()` or `"console"`, a function `(df, batch_id)`, or
            any object with the methods of `ab.Sink`.
        replace
            Take the place of a query of this name.

        Examples
        --------
        ::

            session.query("large", "SELECT id FROM orders WHERE amount > 200", sink=ab.parquet("out"))
        """
        self._refuse_while_running("query")
        if name in self._queries and not replace:
            raise ConfigError(_taken("query", name))
        connector = sink if isinstance(sink, Connector) else None
        query = bind_query(name, select, {**self._streams, **self._tables}, sink=connector)
        self._sinks[name] = as_sink(self.spark, name, sink)
        self._queries[name] = query

    def load(self, flow: Flow | str | os.PathLike[str]) -> Flow:
        """Register everything a flow file declares, or, if something is wrong with it, nothing.

        Parameters
        ----------
        flow
            The path of the file, or what `ab.parse_flow` made of its text.

        Returns
        -------
        Flow
            What was registered, with the columns that Spark told of every SELECT at ingest.

        Examples
        --------
        ::

            session.load("flow.sql")
        """
        self._refuse_while_running("load")
        flow = flow if isinstance(flow, Flow) else read_flow(flow)
        if any(stream.prepared is not None for stream in flow.streams):
            flow = bound_by_spark(self.spark, flow)
        for kind, known, new in (
            ("stream", set(self._streams), flow.streams),
            ("table", set(self._tables), flow.tables),
            ("query", set(self._queries), flow.queries),
        ):
            if taken := [declared.name for declared in new if declared.name in known]:
                raise ConfigError(_taken(kind, taken[0]))
        sinks = {q.name: as_sink(self.spark, q.name, q.sink) for q in flow.queries}
        self._set += flow.settings
        self._streams |= {stream.name: stream for stream in flow.streams}
        self._tables |= {table.name: table for table in flow.tables}
        self._queries |= {query.name: query for query in flow.queries}
        self._sinks |= sinks
        return flow

    def drop(self, name: str) -> None:
        """Forget a query, or a stream that no query reads."""
        self._refuse_while_running("drop")
        if name in self._queries:
            del self._queries[name], self._sinks[name]
        elif name in self._streams:
            self._refuse_if_read(name)
            del self._streams[name]
            self._frames.pop(name, None)
        else:
            known = ", ".join([*self._queries, *self._streams]) or "none"
            raise ConfigError(f"there is no query or stream {name!r}: choose from {known}")

    def start(
        self,
        *,
        queryName: str | None = None,  # noqa: N803
        endOfInput: bool | None = None,  # noqa: N803
        listeners: Sequence[Listener] = (),
        **trigger: Any,
    ) -> Run:
        """Start the loop; takes Spark's trigger words, such as `availableNow=True`.

        Parameters
        ----------
        queryName
            A name for Spark's streaming query: `run.name`, and what Spark's UI shows.
        endOfInput
            With `availableNow`: when all there is has been read, declare that nothing at or before
            the newest time of each stream will come, so that every row is final and aggregates of
            the last rows are emitted. Without it they wait for the next run.
        listeners
            Told of progress, events and the end.
        """
        self._refuse_while_running("start")
        if not self._queries:
            raise ConfigError("the session has no query: add one with session.query(…)")
        settings = self.settings()
        if endOfInput is not None:
            settings = replaced(settings, end_of_input=str(endOfInput).lower())
        if settings.end_of_input == "true" and not trigger.get("availableNow"):
            raise ConfigError("the end of input can only be declared for a run with availableNow=True")
        streams = tuple(self._streams.values())
        self._warm_up = warm_workers(self.spark, streams, tuple(self._queries.values()))
        with source_names(self.spark, streams) as by_name:
            frames = open_sources(self.spark, streams, self._frames, by_name=by_name)
            watch = watch_over(self.spark, self.checkpoint, frames, self._sinks)
            storage = PosixStorage(self.checkpoint)
            fence = acquire(storage)
            try:
                manifest = newest(storage)
                check_spark_checkpoint(self.checkpoint, manifest)
                queries, submitted = queries_at_start(tuple(self._queries.values()), manifest, self._streams)
                running, sinks = sinks_at_start(self.spark, queries, self._sinks, manifest)
                running = placed(running, sinks, manifest)
                catalog = reconcile(
                    streams,
                    running,
                    manifest,
                    sources_by_name=by_name,
                    stations=settings.uses_stations,
                    eddies=settings.uses_eddies,
                    submitted=submitted,
                    sharing=settings.sharing,
                )
                check_sources(catalog, manifest.catalog if manifest else {})
                told = (JsonLog(storage), *listeners)
                watch.start(told, batch=manifest.batch if manifest else -1)
                tables = TableReader(
                    self.spark, storage, self.checkpoint, self._joined_tables(catalog), self._table_frames
                )
                tables.offer()
                loop = self._loop(catalog, settings, storage, fence, sinks, tables)
                driver = RunDriver(loop, fence, listeners=told, watch=watch)
                live = LiveQueries(self.spark, loop, dict(self._streams))
                self._run = Run(driver, live)
                driver.read_mail = live.read_mail
                self._begin(driver, frames, settings, queryName, trigger, tables)
                return self._run
            except BaseException as error:
                watch.stop()
                fence.release()
                if isinstance(error, PySparkException | Py4JError):
                    raise explain_failure(error) from error
                raise

    def _joined_tables(self, catalog: Catalog) -> list[Table]:
        """The tables that some query reads."""
        names = {join.table for joins in catalog.table_joins.values() for join in joins}
        return [table for table in self._tables.values() if table.name in names]

    def _loop(
        self,
        catalog: Catalog,
        settings: Settings,
        storage: PosixStorage,
        fence: Fence,
        sinks: Mapping[str, Sink],
        tables: TableReader,
    ) -> BatchLoop:
        self._rows: list[DataFrame] = []
        return BatchLoop(
            storage=storage,
            fence=fence,
            catalog=catalog,
            settings=settings,
            sinks=sinks,
            execute=lambda task: execute_on_spark(self._rows[0], task),
            cores=self.spark.sparkContext.defaultParallelism,
            decider=self.decider,
            tables=tables.in_use,
        )

    def _begin(
        self,
        driver: RunDriver,
        frames: Mapping[str, DataFrame],
        settings: Settings,
        name: str | None,
        trigger: Mapping[str, Any],
        tables: TableReader,
    ) -> None:
        """Start Spark's streaming query, and let the driver watch over it."""
        loop, empty_files = driver.loop, EmptyFiles(self.checkpoint)
        wired: list[DataFrame] = []
        """What Spark's query sends, as long as no query comes."""

        def process(rows: DataFrame, batch: int) -> None:
            for key, value in batch_conf(loop.wire).items():
                rows.sparkSession.conf.set(key, value)
            offsets, source_id = spark_position(self.checkpoint, batch)
            self._warm_up.wait()
            changes = tables.note(batch)
            driver.process(
                batch,
                offsets=offsets,
                source_id=source_id,
                ready=lambda: self._hand_over(rows),
                stopped=lambda: await_interrupt(rows),
            )
            driver.note([*changes, *empty_files.events(batch)])

        def without_rows() -> None:
            self._hand_over(_no_rows(self.spark, wired[0], batch_conf(loop.wire)))

        def finish() -> Iterator[BatchSummary]:
            without_rows()
            if settings.end_of_input == "true":  # what is final anyway comes in the same steps
                yield from loop.end_of_input()
            yield from loop.drain()

        def step() -> BatchSummary:
            without_rows()
            return loop.step()

        def launch() -> StreamingQuery:
            with same_everywhere(self.spark):
                met = tables.joined(loop.catalog.table_joins)
                wired[:] = [ingest(loop.layout, loop.wire, loop.catalog.streams, frames, met)]
            writer = (
                wired[0]
                .writeStream.foreachBatch(process)
                .option("checkpointLocation", str(self.checkpoint / SPARK_CHECKPOINT))
            )
            writer = writer if name is None else writer.queryName(name)
            with (
                source_names(self.spark, loop.catalog.streams),
                log_files_known(self.spark),
                conf_set(self.spark, cheap_logs(self.spark)),
            ):
                query = (writer.trigger(**trigger) if trigger else writer).start()
                await_sources(query)
            tables.watch(lambda: query.isActive)
            return query

        if trigger.get("availableNow") or trigger.get("once"):
            driver.begin(launch, finish=finish)
        else:
            driver.begin(launch, step=step)

    def _hand_over(self, rows: DataFrame) -> None:
        """The rows that the next step works on."""
        self._rows[:] = [rows]

    def explain(self, name: str | None = None) -> None:
        """Print how a query will run, or all: keys, routing, plan, states."""
        names = list(self._queries)
        if name is not None and name not in names:
            raise ConfigError(f"there is no query {name!r}: choose from {', '.join(names) or 'none'}")
        manifest = newest(PosixStorage(self.checkpoint)) if self.checkpoint.exists() else None
        catalog = reconcile(
            tuple(self._streams.values()),
            tuple(self._queries.values()),
            manifest,
            stations=self.settings().uses_stations,
            eddies=self.settings().uses_eddies,
            sharing=self.settings().sharing,
        )
        chosen, sites = names if name is None else [name], self.settings().sites
        print(
            "\n\n".join(explain_query(catalog, n, sites=sites) for n in chosen) or "the session has no query"
        )

    def settings(self) -> Settings:
        """Settings in force: Spark conf, then SET, then the arguments of the session."""
        # A Spark session begins with what the application was started with.
        ours = [(key, value) for key, value in self.spark.conf.getAll.items() if key.startswith(CONF_PREFIX)]
        settings = Settings().with_values(ours).with_values(self._set).with_values(self._given.items())
        return settings.resolved(self.spark.sparkContext.defaultParallelism)

    def _refuse_while_running(self, what: str) -> None:
        if self._run is not None and self._run.isActive:
            raise ConfigError(f"the session is running, so that {what}(…) comes too late: stop the run first")

    def _refuse_if_read(self, stream: str) -> None:
        readers = [q.name for q in self._queries.values() if stream in {ref.stream for ref in q.refs}]
        if readers:
            raise ConfigError(f"stream {stream!r} is read by query {readers[0]!r}: drop that first")


def _taken(kind: str, name: str) -> str:
    return f"there is a {kind} {name!r} already: choose another name, or drop it first"


def _no_rows(spark: SparkSession, like: DataFrame, conf: Mapping[str, str]) -> DataFrame:
    """An empty batch of the same columns, in a session of its own: the user's keeps its conf."""
    own = spark.newSession()
    for key, value in conf.items():
        own.conf.set(key, value)
    # Not from a Python list: Spark would start another family of Python workers to read it.
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in like.schema]
    return own.range(1, numPartitions=1).where("id > 0").select(*columns)
