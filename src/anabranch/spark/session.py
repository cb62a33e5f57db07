"""The session: streams and continuous queries that run in one micro-batch loop."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace as replaced
from datetime import timedelta
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.listener import Listener
from anabranch.engine.settings import CONF_PREFIX, Settings
from anabranch.engine.sinks.local_path import local_path
from anabranch.errors import ConfigError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Connector, Flow, Stream, Table
from anabranch.queries.catalog import explain_query
from anabranch.queries.reconcile import reconcile
from anabranch.spark.declarations import Declarations, taken
from anabranch.spark.reading.declared import (
    AnySink,
    as_sink,
    bound_by_spark,
    lateness_us,
    read_flow,
    stream_columns,
    vectors_of,
)
from anabranch.spark.reading.prepared import with_vectors
from anabranch.spark.run import Run
from anabranch.spark.start.begin_run import begin_run
from anabranch.spark.tables.table_reader import table_source
from anabranch.state import PosixStorage, newest


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
        self._declared = Declarations()
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
        streams = ", ".join(self._declared.streams) or "none"
        queries = ", ".join(self._declared.queries) or "none"
        return f"<Session {str(self.checkpoint)!r}, streams: {streams}; queries: {queries}>"

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str,
        lateness: str | timedelta = "0 seconds",
        vectors: Mapping[str, int] | None = None,
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
        vectors
            Columns that are arrays of numbers, each with how many it has: `{"v": 40}`, for
            `l2_distance(a.v, b.v)` and `a.v[0]`. Rows with other arrays are malformed.
        replace
            Take the place of a stream of this name that no query reads.

        Examples
        --------
        ::

            session.stream("orders", spark.readStream.schema("…").parquet("in"), time="ts")
        """
        columns = stream_columns(name, frame, time)
        if vectors:
            frame = with_vectors(frame, vectors_of(name, frame, vectors))
            columns = stream_columns(name, frame, time)
        self._refuse_while_running("stream")
        if replace and name in self._declared.streams:
            self._declared.refuse_if_read(name)
        elif name in self._declared.streams:
            raise taken("stream", name, "pass replace=True")
        self._declared.streams[name] = Stream(name, columns, time, lateness_us(lateness))
        self._declared.frames[name] = frame

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
        if name in self._declared.tables or name in self._declared.streams:
            raise taken("table or stream", name)
        frame, connector = table_source(self.spark, name, source)
        columns = tuple(Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
        every = None if refresh is None else lateness_us(refresh)
        self._declared.tables[name] = Table(name, columns, connector, every)
        if connector is None:
            self._declared.table_frames[name] = frame

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
        if name in self._declared.queries and not replace:
            raise taken("query", name, "pass replace=True")
        connector = sink if isinstance(sink, Connector) else None
        query = bind_query(name, select, {**self._declared.streams, **self._declared.tables}, sink=connector)
        self._declared.sinks[name] = as_sink(self.spark, name, sink)
        self._declared.queries[name] = query

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
        self._declared.refuse_repetition(flow)
        sinks = {q.name: as_sink(self.spark, q.name, q.sink) for q in flow.queries}
        self._set += flow.settings
        self._declared.add_flow(flow, sinks)
        return flow

    def drop(self, name: str) -> None:
        """Forget a query, or a stream that no query reads."""
        self._refuse_while_running("drop")
        self._declared.drop(name)

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
        if not self._declared.queries:
            raise ConfigError("the session has no query: add one with session.query(…)")
        settings = self.settings()
        if endOfInput is not None:
            settings = replaced(settings, end_of_input=str(endOfInput).lower())
        if settings.end_of_input == "true" and not trigger.get("availableNow"):
            raise ConfigError("the end of input can only be declared for a run with availableNow=True")
        self._run = begin_run(
            self.spark,
            self.checkpoint,
            self._declared,
            settings,
            name=queryName,
            trigger=trigger,
            listeners=listeners,
            decider=self.decider,
        )
        return self._run

    def explain(self, name: str | None = None) -> None:
        """Print how a query will run, or all: keys, routing, plan, states."""
        names = list(self._declared.queries)
        if name is not None and name not in names:
            raise ConfigError(f"there is no query {name!r}: choose from {', '.join(names) or 'none'}")
        manifest = newest(PosixStorage(self.checkpoint)) if self.checkpoint.exists() else None
        catalog = reconcile(
            tuple(self._declared.streams.values()),
            tuple(self._declared.queries.values()),
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
            instead = "use run.add(…), or stop the run first" if what == "query" else "stop the run first"
            raise ConfigError(f"the session is running, so that {what}(…) comes too late: {instead}")
