"""Queries that come and go while a run goes on: what users ask for, checked, and asked of the batch loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from anabranch.engine.live.mailbox import Letter, change_of
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.shared_sink import SharedSink
from anabranch.engine.sinks.sink import Sink
from anabranch.engine.step.batch_loop import BatchLoop
from anabranch.errors import ConfigError, StateError
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Connector, Query, Stream
from anabranch.queries.turnover import Add, Change, Drop, Replace
from anabranch.spark.reading.declared import AnySink, as_sink
from anabranch.spark.reading.sources import EVOLUTION
from anabranch.spark.sinks.connected_sink import connected_sink
from anabranch.state import Manifest, QueryStatus


class LiveQueries:
    """The queries of a run, to be changed at its next boundary.

    Parameters
    ----------
    streams
        All streams that the session knows, by name.
    """

    def __init__(self, spark: SparkSession, loop: BatchLoop, streams: Mapping[str, Stream]) -> None:
        self._spark = spark
        self._loop = loop
        self._streams = streams

    def add(self, name: str, select: str, sink: AnySink, *, history: bool = False) -> None:
        query = bind_query(name, select, self._streams, sink=_written_down(sink))
        self._ask(Add(query, history), as_sink(self._spark, name, sink))

    def drop(self, name: str) -> None:
        self._ask(Drop(name))

    def replace(self, name: str, select: str) -> None:
        known = {query.name: query.sink for query in self._loop.catalog.answered}
        self._ask(Replace(bind_query(name, select, self._streams, sink=known.get(name))))

    def read_mail(self) -> None:
        """Take up what other processes ask for."""
        self._loop.read_mail(self._read)

    def _read(self, letter: Letter) -> tuple[Change, Sink | None]:
        change = change_of(letter, self._loop.catalog, self._streams)
        self._check_sources(change)
        if not isinstance(change, Add):
            return change, None
        if change.query.sink is None:
            raise ConfigError(f"query {change.name!r} has no sink: write CREATE QUERY … INTO format 'path'")
        return change, connected_sink(self._spark, change.name, change.query.sink)

    def _ask(self, change: Change, sink: Sink | None = None) -> None:
        self._check_sources(change)
        self._loop.ask(change, sink)

    def _check_sources(self, change: Change) -> None:
        catalog = self._loop.catalog
        if not catalog.sources_by_name:
            ended = catalog.failed() | {change.name}
            left = [q for q in catalog.queries if q.name not in ended]
            left += [] if isinstance(change, Drop) else [change.query]
            used = {ref.stream for query in left for ref in query.refs}
            if [s.name for s in catalog.streams if s.name in used] != catalog.sources:
                raise ConfigError(
                    f"with this change of {change.name!r} other streams would be read than so far, and Spark "
                    "tells sources without names apart by position: declare the streams in a flow file, or "
                    f"name the sources (.name(…)) with {EVOLUTION} = true"
                )


def _written_down(sink: AnySink) -> Connector | None:
    """A sink that a later run can open by itself; None for objects that only this program has."""
    if isinstance(sink, SharedSink):
        inner = _written_down(sink.sink)
        return inner and replace(inner, options=(*inner.options, ("shared", "true")))
    if isinstance(sink, ParquetSink):
        return Connector("parquet", str(sink.path.absolute()), sink.options)
    return sink if isinstance(sink, Connector) else None


def sinks_at_start(
    spark: SparkSession, queries: list[Query], sinks: Mapping[str, Sink], manifest: Manifest | None
) -> tuple[list[Query], dict[str, Sink]]:
    """The queries that a run begins with, each with its sink.

    A query that came while an earlier run went on brings its sink along, unless that was an object.
    """
    found = dict(sinks)
    left = []
    dropped = {s.name for s in manifest.queries if s.status is QueryStatus.DROPPED} if manifest else set()
    known = manifest.catalog["queries"] if manifest else {}
    owners = {file.query for file in manifest.results} if manifest else set()
    owed = {name for name in dropped if known.get(name, {}).get("place", name) in owners}
    for query in queries:
        if query.name not in found:
            if query.sink is None and query.name in dropped - owed:
                continue  # it is gone, and its sink has everything
            if query.sink is None:
                raise StateError(
                    f"query {query.name!r} came while an earlier run went on, with a sink that only that "
                    "program has: register it with session.query(…) before the start"
                )
            found[query.name] = connected_sink(spark, query.name, query.sink)
        left.append(query)
    return left, found
