"""Streams as parquet files, one per stream and micro-batch, in the order in which Spark takes them.

Spark's file source takes files in the order of their modification times; the writer sets these, so
`maxFilesPerTrigger = 1` makes file *n* of every stream arrive in micro-batch *n*.

Rows are in order of arrival. Event time is the time of arrival minus a random delay of at most
`disorder_us`, so that a lateness of `disorder_us` makes no row late:

    arrival   |----- batch 0 -----|----- batch 1 -----|
    event      ≤ disorder earlier, never more
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]

START_US = 1_767_225_600_000_000
"""Event time of the first row: 2026-01-01 00:00 UTC."""


@dataclass(frozen=True, slots=True)
class StreamFiles:
    """One stream of a workload: where its files are and what is in them."""

    name: str
    path: Path
    ddl: str
    """Columns as Spark (and `CREATE STREAM`) writes them: `id BIGINT, …, ts TIMESTAMP`."""
    rows: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams that run side by side, with the clock they share."""

    streams: tuple[StreamFiles, ...]
    batches: int
    interval_us: int
    """Event time that one micro-batch covers."""
    disorder_us: int
    """The lateness to declare if no row shall be late."""

    def __getitem__(self, name: str) -> StreamFiles:
        """The stream of that name."""
        return next(s for s in self.streams if s.name == name)

    @property
    def paths(self) -> tuple[Path, ...]:
        """One directory per stream."""
        return tuple(s.path for s in self.streams)

    @property
    def rows(self) -> int:
        """Rows of all streams together."""
        return sum(s.rows for s in self.streams)


@dataclass(frozen=True, slots=True)
class Clock:
    """When the rows of one stream arrive, and what event time they carry."""

    batches: int
    rows_per_batch: int
    interval_us: int
    disorder_us: int
    seed: int

    def first_id(self, batch: int) -> int:
        return batch * self.rows_per_batch

    def rows_of(self, batch: int, *, stream: int) -> tuple[np.random.Generator, Ints, Ints]:
        """Random numbers of that file alone, arrival times (ascending) and event times."""
        rng = np.random.default_rng([self.seed, stream, batch])
        offset = np.sort(rng.integers(0, self.interval_us, self.rows_per_batch))
        arrival = START_US + batch * self.interval_us + offset
        delay = rng.integers(0, self.disorder_us + 1, self.rows_per_batch)
        return rng, arrival, np.maximum(arrival - delay, START_US)


def joined(left: pa.Array | str, separator: str, right: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(left, right, separator)


def utc_times(us: Ints) -> pa.Array:
    return pa.array(us).cast(pa.timestamp("us", tz="UTC"))


def write_stream(root: Path, name: str, batches: int, table_of: Callable[[int], pa.Table]) -> StreamFiles:
    """Write one file per batch, each visible to Spark only when complete and dated."""
    path = root / name
    path.mkdir(parents=True, exist_ok=True)
    rows, schema = 0, pa.schema([])
    for batch in range(batches):
        table = table_of(batch)
        hidden = path / f".{batch:06d}.parquet"
        pq.write_table(table, hidden, compression="snappy")
        dated = START_US // 1_000_000 + batch
        os.utime(hidden, (dated, dated))
        hidden.rename(path / f"{batch:06d}.parquet")
        rows, schema = rows + table.num_rows, table.schema
    ddl = ", ".join(f"{field.name} {_SPARK_TYPES[str(field.type)]}" for field in schema)
    return StreamFiles(name, path, ddl, rows)


_SPARK_TYPES = {
    "int64": "BIGINT",
    "double": "DOUBLE",
    "string": "STRING",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
}
