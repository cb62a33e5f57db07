"""What a session declares: its streams, tables and queries, by name."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from anabranch.engine.sinks.sink import Sink
from anabranch.errors import ConfigError
from anabranch.plan.logical import Flow, Query, Stream, Table
from anabranch.queries.catalog import Catalog


@dataclass(slots=True)
class Declarations:
    """Streams, tables and queries, each with what was handed over in Python."""

    streams: dict[str, Stream] = field(default_factory=dict)
    frames: dict[str, DataFrame] = field(default_factory=dict)
    """Of streams that are not from a flow file."""
    tables: dict[str, Table] = field(default_factory=dict)
    table_frames: dict[str, DataFrame] = field(default_factory=dict)
    """Of tables that have no path."""
    queries: dict[str, Query] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    """Of every query."""

    def refuse_repetition(self, flow: Flow) -> None:
        """Names that a flow file declares are not declared yet."""
        for kind, known, new in (
            ("stream", set(self.streams), flow.streams),
            ("table", set(self.tables), flow.tables),
            ("query", set(self.queries), flow.queries),
        ):
            if repeated := [declared.name for declared in new if declared.name in known]:
                raise taken(kind, repeated[0])

    def refuse_if_read(self, stream: str) -> None:
        """No query reads the stream."""
        readers = [q.name for q in self.queries.values() if stream in {ref.stream for ref in q.refs}]
        if readers:
            raise ConfigError(f"stream {stream!r} is read by query {readers[0]!r}: drop that first")

    def add_flow(self, flow: Flow, sinks: dict[str, Sink]) -> None:
        """Add what a flow file declares, with the sinks of its queries."""
        self.streams |= {stream.name: stream for stream in flow.streams}
        self.tables |= {table.name: table for table in flow.tables}
        self.queries |= {query.name: query for query in flow.queries}
        self.sinks |= sinks

    def drop(self, name: str) -> None:
        """Forget a query, or a stream that no query reads."""
        if name in self.queries:
            del self.queries[name], self.sinks[name]
        elif name in self.streams:
            self.refuse_if_read(name)
            del self.streams[name]
            self.frames.pop(name, None)
        else:
            known = ", ".join([*self.queries, *self.streams]) or "none"
            raise ConfigError(f"there is no query or stream {name!r}: choose from {known}")

    def joined_tables(self, catalog: Catalog) -> list[Table]:
        """The tables that some query reads."""
        names = {join.table for joins in catalog.table_joins.values() for join in joins}
        return [table for table in self.tables.values() if table.name in names]


def taken(kind: str, name: str, instead: str = "drop it first") -> ConfigError:
    """The error of a name that is declared already."""
    return ConfigError(f"there is a {kind} {name!r} already: choose another name, or {instead}")
