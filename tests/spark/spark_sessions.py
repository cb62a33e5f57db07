"""Sessions on a real Spark: rows in files, one file per stream and batch, results in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.adapt.boundary.decider import Decider
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.plan.logical import Stream
from tests.support.generated import Batch


def write_batches(root: Path, streams: Sequence[Stream], batches: Sequence[Batch], *, first: int = 0) -> None:
    """One file per stream and batch; the file source takes them in the order of their age."""
    for number, batch in enumerate(batches, start=first):
        for stream in streams:
            folder = root / stream.name
            folder.mkdir(parents=True, exist_ok=True)
            # A session that runs already must not see a file before it has its time: others would be too old.
            hidden = folder / f"_{number:05d}.parquet"
            pq.write_table(_typed(batch[stream.name], stream), hidden)
            os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
            hidden.rename(folder / f"{number:05d}.parquet")


def run_to_the_end(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    queries: Mapping[str, str],
    sinks: Mapping[str, MemorySink],
    *,
    decider: Decider | None = None,
    **settings: Any,
) -> ab.Run:
    """Run everything that lies in the files and is not yet in the checkpoint."""
    session = _session(spark, root, streams, queries, sinks, settings)
    session.decider = decider
    run = session.start(availableNow=True)
    run.awaitTermination()
    return run


@contextmanager
def session_over_files(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    queries: Mapping[str, str],
    sinks: Mapping[str, MemorySink],
    **settings: Any,
) -> Iterator[ab.Run]:
    """A run that takes up files as they come."""
    for stream in streams:
        (root / stream.name).mkdir(parents=True, exist_ok=True)
    run = _session(spark, root, streams, queries, sinks, settings).start()
    try:
        yield run
    finally:
        run.stop()


def _session(
    spark: SparkSession,
    root: Path,
    streams: Sequence[Stream],
    queries: Mapping[str, str],
    sinks: Mapping[str, MemorySink],
    settings: Mapping[str, Any],
) -> ab.Session:
    session = ab.Session(spark, root / "checkpoint", **settings)
    for stream in streams:
        schema = ", ".join(f"`{c.name}` {c.type}" for c in stream.columns)
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(root / stream.name))
        session.stream(stream.name, frame, time=stream.time, lateness=f"{stream.lateness_us} microseconds")
    for name, text in queries.items():
        session.query(name, text, sinks[name])
    return session


def _typed(rows: pa.Table, stream: Stream) -> pa.Table:
    """Spark tells instants from wall-clock times by whether the file says UTC."""
    instants = {c.name for c in stream.columns if c.type == "timestamp"}
    utc = pa.timestamp("us", tz="UTC")
    return rows.cast(pa.schema([f.with_type(utc) if f.name in instants else f for f in rows.schema]))
