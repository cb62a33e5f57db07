"""Sinks: where the results of a committed batch go.

A sink is called after a step has committed, with files that stay until it returns. After a
crash it may be called again for the last one; the parquet sink recognises what it has, functions are told a
number that no other step has.
"""

from __future__ import annotations

import difflib
import filecmp
import io
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import ConfigError, SinkError
from anabranch.runtime.local_path import local_path
from anabranch.state.layout import file_stem
from anabranch.state.storage import link_if_absent, make_folder, sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "xml")
"""Formats of files that every Spark has."""


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """The results of one query in one committed step.

    Attributes
    ----------
    batch, step
        Spark's batch, and the further step of it: steps bring results without new rows.
    number
        How many steps were committed before: ascending, and another for every step.
    """

    query: str
    batch: int
    step: int
    number: int
    schema: pa.Schema
    files: tuple[Path, ...]


class Sink(Protocol):
    def open(self, query: str, schema: pa.Schema) -> None:
        """Called once before the first batch of a session."""

    def publish(self, results: ResultBatch) -> None:
        """Take the results of a committed step; after a crash it may be called again for the last one."""


class ParquetSink:
    """A directory of parquet files, each result exactly once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path(path, what="parquet sink")
        self._compared: set[str] = set()
        """Queries whose files were compared with the checkpoint since the start."""

    def open(self, query: str, schema: pa.Schema) -> None:
        """Make the directory readable from the start: an empty file carries the schema."""
        try:
            make_folder(self.path.absolute())
            empty = self.path / f"{file_stem(query)}-schema.parquet"
            if not empty.exists():
                content = pa.BufferOutputStream()
                pq.write_table(schema.empty_table(), content)
                self._write(io.BytesIO(content.getvalue()), empty)
        except OSError as error:
            raise SinkError(f"cannot write to sink {self.path}: {error.strerror}") from error

    def publish(self, results: ResultBatch) -> None:
        prefix = f"{file_stem(results.query)}-{results.batch:010d}-{results.step:04d}"
        names = [f"{prefix}-{number:03d}.parquet" for number in range(len(results.files))]
        if results.query not in self._compared:
            self._refuse_later_results(results, names)
            self._compared.add(results.query)
        for staged, name in zip(results.files, names, strict=True):
            self._place(staged, self.path / name)

    def _refuse_later_results(self, results: ResultBatch, names: list[str]) -> None:
        """Nothing of this step or a later one can be there, unless the checkpoint is older than the sink."""
        pattern = re.compile(rf"{re.escape(file_stem(results.query))}-(\d{{10}})-(\d{{4,}})-\d{{3}}\.parquet")
        present = (pattern.fullmatch(file.name) for file in self.path.iterdir())
        steps = ((int(found[1]), int(found[2]), found[0]) for found in present if found)
        at = (results.batch, results.step)
        later = (step for step in steps if step[:2] >= at and step[2] not in names)
        if (first := min(later, default=None)) is not None:
            raise self._foreign(self.path / first[2])

    def _place(self, staged: Path, target: Path) -> None:
        if target.exists():
            if not target.samefile(staged) and not filecmp.cmp(target, staged, shallow=False):
                raise self._foreign(target)
            sync_folder(self.path)  # its writer may have died between naming it and syncing the name
        elif staged.stat().st_dev == self.path.stat().st_dev:
            link_if_absent(staged, target)
        else:
            with staged.open("rb") as source:
                self._write(source, target)

    def _write(self, source: BinaryIO, target: Path) -> None:
        """Write a file that is seen whole or not at all; readers skip names that start with _."""
        copy = target.with_name(f"_{target.name}.tmp")
        with copy.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        copy.rename(target)
        sync_folder(self.path)

    def _foreign(self, file: Path) -> SinkError:
        return SinkError(
            f"{file} holds results that this checkpoint does not know: it was written from another one, or "
            "the checkpoint was restored from an older copy. Give the query a directory of its own, or "
            "remove this file and the later ones; their rows will be computed again"
        )


class FunctionSink:
    """A Python function `(df, batch_id)`, like `foreachBatch`.

    The id is the number of the committed step, so that a function may skip ids that it has seen.
    """

    def __init__(self, spark: SparkSession, function: Callable[[DataFrame, int], Any]) -> None:
        self._spark = spark
        self._function = function

    def open(self, query: str, schema: pa.Schema) -> None:
        """Nothing to prepare."""

    def publish(self, results: ResultBatch) -> None:
        if results.files:
            self._function(read_results(self._spark, results), results.number)


class WriterSink:
    """Any format that Spark can append to; at least once, as the format allows."""

    def __init__(self, spark: SparkSession, kind: str, path: str | None, options: dict[str, str]) -> None:
        self._spark = spark
        self._format = kind
        self._path = path
        self._options = options

    def open(self, query: str, schema: pa.Schema) -> None:
        """Refuse a format that Spark does not have, before there are results for it."""
        if self._format.lower() in FILE_FORMATS:
            return
        try:
            self._spark.read.format(self._format).load()
        except Exception as error:
            # Any other complaint, about options or a path to read from, comes from a format that is there.
            if re.search(r"DATA_SOURCE_NOT_(FOUND|ENABLED)\]", str(error)):
                raise ConfigError(_unknown_format(query, self._format)) from error

    def publish(self, results: ResultBatch) -> None:
        if results.files:
            frame = read_results(self._spark, results)
            frame.write.format(self._format).options(**self._options).mode("append").save(self._path)


def _unknown_format(query: str, kind: str) -> str:
    near = difflib.get_close_matches(kind.lower(), (*FILE_FORMATS, "console", "memory"), n=1)
    hint = f"did you mean {near[0]}?" if near else "is its package in spark.jars.packages?"
    return f"query {query!r} cannot be written INTO {kind}: Spark has no such format; {hint}"


class ConsoleSink:
    """The first rows of every batch on standard output."""

    def __init__(self, rows: int = 20) -> None:
        self._rows = rows

    def open(self, query: str, schema: pa.Schema) -> None:
        """Nothing to prepare."""

    def publish(self, results: ResultBatch) -> None:
        if not results.files:
            return
        table = pa.concat_tables([pq.read_table(f) for f in results.files])
        print(f"-- {results.query}, batch {results.batch}: {table.num_rows:,} rows")
        for row in table.slice(0, self._rows).to_pylist():
            print("  " + "  ".join(f"{name}={value}" for name, value in row.items()))
        if table.num_rows > self._rows:
            print(f"  … and {table.num_rows - self._rows:,} more")


class MemorySink:
    """Results kept in the driver, for tests and notebooks."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._batches: dict[tuple[int, int], pa.Table] = {}

    def open(self, query: str, schema: pa.Schema) -> None:
        self._schema = schema

    def publish(self, results: ResultBatch) -> None:
        tables = [pq.read_table(f, schema=results.schema) for f in results.files]
        if tables:
            self._batches[results.batch, results.step] = pa.concat_tables(tables)

    def table(self) -> pa.Table:
        if self._schema is None:
            raise SinkError("nothing has run into this sink yet: start the session first")
        return pa.concat_tables([self._schema.empty_table(), *self._batches.values()])


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """A sink that writes parquet files, each result exactly once."""
    return ParquetSink(path)


def memory() -> MemorySink:
    """A sink that keeps results in the driver: `sink.table()`."""
    return MemorySink()


def console(rows: int = 20) -> ConsoleSink:
    """A sink that prints the first rows of every batch."""
    return ConsoleSink(rows)


def read_results(spark: SparkSession, results: ResultBatch) -> DataFrame:
    return spark.read.parquet(*(str(f.absolute()) for f in results.files))
