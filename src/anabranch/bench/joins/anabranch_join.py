"""The window join on Anabranch, over the same files as its peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.adapt.boundary.decider import Decider
from anabranch.bench.engine_run import EngineRun
from anabranch.bench.peers import batch_times, count_parquet_rows
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.spark.run import Run
from anabranch.spark.session import Session
from anabranch.workloads.uniform import Workload

POLL_SECONDS = 0.1


def anabranch_join(
    spark: SparkSession,
    workload: Workload,
    *,
    window_us: int,
    scratch: Path,
    sites: int | None = None,
    watch: Callable[[Run], None] | None = None,
) -> EngineRun:
    """Join all streams of the workload on `k`, one file per stream and trigger, into `scratch/out`.

    Parameters
    ----------
    watch
        Called again and again while the run is active, and once after it, to measure something beside it.
    """
    settings: dict[str, Any] = {} if sites is None else {"sites": sites}
    # Spark forgets progress beyond this number.
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100000")
    began = time.perf_counter()
    run = start_join(spark, workload, scratch, window_us=window_us, **settings)
    while not run.awaitTermination(POLL_SECONDS):
        if watch is not None:
            watch(run)
    if watch is not None:  # the last batch may have ended since
        watch(run)
    seconds = time.perf_counter() - began
    batches = batch_times(run.streamingQuery)
    return EngineRun(
        "Anabranch", seconds, sum(t.rows for t in batches), count_parquet_rows(scratch / "out"), batches
    )


def start_join(
    spark: SparkSession,
    workload: Workload,
    scratch: Path,
    *,
    window_us: int,
    ends: bool = True,
    decider: Decider | None = None,
    **settings: int | str,
) -> Run:
    """Start the join, checkpoint and results below `scratch`; with `ends`, over the files there are."""
    session = Session(spark, scratch / "checkpoint", **settings)
    session.decider = decider
    add_streams(session, spark, workload)
    session.query("pairs", join_text(workload, window_us=window_us), ParquetSink(scratch / "out"))
    return session.start(availableNow=True) if ends else session.start()


def add_streams(session: Session, spark: SparkSession, workload: Workload) -> None:
    """Declare a workload's streams, a file per batch."""
    for stream in workload.streams:
        reader = spark.readStream.schema(stream.ddl).option("maxFilesPerTrigger", 1)
        session.stream(
            stream.name,
            reader.parquet(str(stream.path)),
            time="ts",
            lateness=f"{workload.disorder_us} microseconds",
        )


def join_text(workload: Workload, *, window_us: int) -> str:
    """The query: equal keys, all within the window of each other.

    >>> from anabranch.workloads.uniform import StreamFiles
    >>> streams = tuple(StreamFiles(n, Path(n), "", 0) for n in ("a", "b"))
    >>> print(join_text(Workload(streams, 1, 1, 0), window_us=10_000_000))
    SELECT a.k, a.id AS a_id, b.id AS b_id
    FROM a [RANGE 10000000 MICROSECONDS], b [RANGE 10000000 MICROSECONDS]
    WHERE a.k = b.k
    """
    names = [s.name for s in workload.streams]
    ids = ", ".join(f"{name}.id AS {name}_id" for name in names)
    windows = ", ".join(f"{name} [RANGE {window_us} MICROSECONDS]" for name in names)
    keys = " AND ".join(f"{names[0]}.k = {name}.k" for name in names[1:])
    return f"SELECT {names[0]}.k, {ids}\nFROM {windows}\nWHERE {keys}"
