"""Static tables: read when a run starts and when they change, kept in versions, one version per batch.

A version is a copy of the table's rows in the checkpoint, named by its content. The driver offers the newest
versions; the first task of a batch that needs a table writes down, once for the batch, that it uses what is
offered then. A batch that runs again finds the note and uses the same versions, whatever has become of the
table since.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anabranch.adapt.events import Event, EventKind
from anabranch.errors import ConfigError
from anabranch.plan.logical import Connector, Table, TableJoin
from anabranch.spark.spark_reason import spark_reason
from anabranch.spark.tables.joined_table import JoinedTable
from anabranch.spark.tables.table_versions import (
    COPIES,
    NOTES,
    OFFERS,
    Versions,
    note_name,
    read_versions,
    version_rows,
)
from anabranch.state import PosixStorage

KEPT_NOTES = 8
MOST_BYTES = 1 << 30
"""Tables are sent to every task: a larger one is a stream."""
_BATCH = "streaming.sql.batchId"
"""The property in which Spark tells a task the number of its micro-batch."""


class TableReader:
    """The tables of a run, and the version of each that a batch uses.

    Attributes
    ----------
    in_use
        By table, the version of the batch under way, as the manifest records it.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: PosixStorage,
        checkpoint: Path,
        tables: Sequence[Table],
        given: Mapping[str, DataFrame],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark, self._storage, self._checkpoint = spark, storage, checkpoint
        self._tables, self._given, self._clock = tables, given, clock
        self._looked_at: dict[str, float] = {}
        self._stamps: dict[str, str] = {}
        self._offered: Versions = {}
        self._failures: list[Event] = []
        self.in_use: Versions = {}

    @property
    def any(self) -> bool:
        """Whether some query reads a table."""
        return bool(self._tables)

    def joined(self, joins: Mapping[str, Sequence[TableJoin]]) -> dict[str, list[JoinedTable]]:
        """By stream, the tables as its rows meet them."""
        frames = {table.name: self._frame(table) for table in self._tables}
        return {
            stream: [JoinedTable(join, frames[join.table]) for join in found]
            for stream, found in joins.items()
        }

    def offer(self) -> None:
        """Read the tables that are due and have changed, and offer the newest versions to batches to come."""
        found = {table.name: self._version(table) for table in self._tables}
        if found != self._offered:
            last = max((int(Path(name).stem) for name in self._storage.list(OFFERS)), default=-1)
            self._storage.put_if_absent(f"{OFFERS}/{last + 1:010d}.json", json.dumps(found).encode())
            self._offered = found

    def watch(self, is_active: Callable[[], bool]) -> None:
        """Offer new versions from time to time, as long as a run goes on."""
        lengths = [table.refresh_us for table in self._tables if table.refresh_us is not None]
        if not lengths:
            return
        pause = min(max(min(lengths) / 1e6, 0.05), 1.0)

        def run() -> None:
            while is_active():
                time.sleep(pause)
                self._offer_again()

        threading.Thread(target=run, name="anabranch-tables", daemon=True).start()

    def _offer_again(self) -> None:
        try:
            self.offer()
        except (ConfigError, OSError, PySparkException, Py4JError) as error:
            # It may be about to be replaced: the version at hand is used until it can be read again.
            self._failures.append(Event(-1, EventKind.TABLE_READ, f"{error}; the last version stays in use"))

    def note(self, batch: int) -> list[Event]:
        """Take note of the versions that a batch uses; what changed, as events."""
        if not self._tables:
            return []
        used = read_versions(self._checkpoint / NOTES / note_name(batch)) or self._offered
        failures, self._failures = self._failures, []
        events = [Event(batch, failure.kind, failure.message) for failure in failures]
        for table, version in used.items():
            if self.in_use.get(table, {}).get("version") != version["version"]:
                message = f"table {table} has {version['rows']:,} rows in version {version['version']}"
                events.append(Event(batch, EventKind.TABLE_READ, message, {"table": table, **version}))
        self.in_use.clear()
        self.in_use.update(used)
        self._forget()
        return events

    def _version(self, table: Table) -> dict[str, Any]:
        """The version that is offered, or a new one when the table is due and has changed."""
        now, last = self._clock(), self._looked_at.get(table.name)
        known = self._offered.get(table.name)
        due = last is None or (table.refresh_us is not None and now - last >= table.refresh_us / 1e6)
        if known is not None and not due:
            return known
        self._looked_at[table.name] = now
        stamp = None if table.source is None else _stamp(self._spark, table.source)
        if known is not None and stamp is not None and stamp == self._stamps.get(table.name):
            return known
        version = self._copied(table)
        if stamp is not None:
            self._stamps[table.name] = stamp
        return version

    def _copied(self, table: Table) -> dict[str, Any]:
        try:
            rows = _rows(self._spark, table, self._given).toArrow()
        except (PySparkException, Py4JError) as error:
            raise ConfigError(f"table {table.name!r} cannot be read: {spark_reason(error)}") from error
        if rows.nbytes > MOST_BYTES:
            raise ConfigError(
                f"table {table.name!r} has {rows.nbytes >> 20:,} MiB, and every task needs all of it: "
                "declare it as a stream, or select fewer rows and columns"
            )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        data = sink.getvalue()
        version = xxhash.xxh3_64_hexdigest(data)
        name = f"{COPIES}/{table.name}/{version}.arrow"
        self._storage.put_if_absent(name, data)
        return {"version": version, "file": name, "rows": rows.num_rows}

    def _frame(self, table: Table) -> DataFrame:
        """The version that a batch uses: read when the batch runs, not now."""
        root, name = str(self._checkpoint), table.name

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                pass
            context = TaskContext.get()
            batch = None if context is None else context.getLocalProperty(_BATCH)
            assert batch is not None, "Spark does not tell the number of the micro-batch"
            yield from version_rows(Path(root), int(batch), name)

        # One partition, and known to be one, so that grouping its rows needs no shuffle.
        return self._spark.range(0, 1, 1, 1).mapInArrow(read, _schema(table)).coalesce(1)

    def _forget(self) -> None:
        """Delete notes and offers of batches long past, and versions that none of the others names."""
        notes, offers = sorted(self._storage.list(NOTES)), sorted(self._storage.list(OFFERS))
        gone = [*notes[:-KEPT_NOTES], *offers[:-KEPT_NOTES]]
        if not gone:
            return
        kept = [*notes[-KEPT_NOTES:], *offers[-KEPT_NOTES:]]
        named = {v["file"] for n in kept for v in (read_versions(self._checkpoint / n) or {}).values()}
        for name in gone:
            self._storage.delete(name)
        for table in self._tables:
            for file in self._storage.list(f"{COPIES}/{table.name}"):
                if file not in named:
                    self._storage.delete(file)


def table_source(
    spark: SparkSession, name: str, source: DataFrame | str | os.PathLike[str]
) -> tuple[DataFrame, Connector | None]:
    """The rows of a table given in Python, and where they come from if that is a path."""
    if isinstance(source, DataFrame):
        if source.isStreaming:
            raise ConfigError(f"table {name!r} is streaming: register it with session.stream")
        return source, None
    path = os.fspath(source)
    try:
        return spark.read.parquet(path), Connector("parquet", path)
    except (PySparkException, Py4JError) as error:
        raise ConfigError(f"table {name!r} cannot be read: {spark_reason(error)}") from error


def _rows(spark: SparkSession, table: Table, given: Mapping[str, DataFrame]) -> DataFrame:
    if table.source is None:
        frame = given[table.name]
    else:
        reader = spark.read.format(table.source.format).options(**dict(table.source.options))
        frame = reader.schema(_schema(table)).load(table.source.path)
    return frame.select(*(f"`{c.name}`" for c in table.columns))


def _schema(table: Table) -> str:
    return ", ".join(f"`{c.name}` {c.type}" for c in table.columns)


def _stamp(spark: SparkSession, source: Connector) -> str | None:
    """Names, sizes and times of a table's files; None where they cannot be listed."""
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    try:
        path = jvm.org.apache.hadoop.fs.Path(source.path)
        files = path.getFileSystem(conf).listFiles(path, True)
        found = []
        while files.hasNext():
            file = files.next()
            found.append((file.getPath().toString(), file.getLen(), file.getModificationTime()))
    except Py4JError:
        return None
    return xxhash.xxh3_64_hexdigest(repr(sorted(found)).encode())
