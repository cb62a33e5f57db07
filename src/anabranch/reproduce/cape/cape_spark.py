"""The CAPE join on Spark: the same rows from files, and migrations at chosen batches."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from anabranch.engine.progress import Progress
from anabranch.engine.sinks.parquet_sink import ParquetSink
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.reproduce.cape.cape_run import Change
from anabranch.reproduce.cape.cape_streams import NAMES, Arrivals, cape_text
from anabranch.spark.run import Run
from anabranch.spark.session import Session
from anabranch.spark.start.spark_session import spark_session
from anabranch.workloads.stream_files import write_stream


@dataclass(frozen=True, slots=True)
class SparkTrace:
    """What a run on Spark did: progress per batch, events by kind, and where the results are."""

    progress: list[Progress]
    events: list[tuple[int, str]]
    out: Path

    @property
    def critical_s(self) -> list[float]:
        return [p.critical_path_ms / 1000 for p in self.progress]

    def batches_of(self, kind: str) -> list[int]:
        return [batch for batch, found in self.events if found == kind]


class _Migrates:
    """A parquet sink that asks for the next migration when it has published a batch.

    So the request comes before the next batch runs and is followed at the boundary after it.
    """

    def __init__(self, sink: ParquetSink, changes: Mapping[int, Change]) -> None:
        self._sink = sink
        self._changes = changes
        self.run: Run | None = None

    def open(self, query: str, schema: pa.Schema) -> None:
        self._sink.open(query, schema)

    def publish(self, results: ResultBatch) -> None:
        self._sink.publish(results)
        change = self._changes.get(results.batch + 1)
        if change is not None and self.run is not None:
            self.run.migrate("q", change.plan, strategy=change.strategy)


def write_arrivals(root: Path, arrivals: Arrivals, batches: int) -> None:
    """One file per stream and batch."""
    tables = list(arrivals.batches(batches))
    for name in NAMES:
        write_stream(root, name, batches, lambda batch, name=name: tables[batch][name])  # type: ignore[misc]


def run_on_spark(
    data: Path,
    scratch: Path,
    *,
    window_us: int,
    changes: Mapping[int, Change],
    lateness_us: int = 0,
    sharded: bool = False,
    **settings: int | str,
) -> SparkTrace:
    """Run the join over the files; each change happens at the boundary after its batch."""
    spark = spark_session("local[2]")
    session = Session(spark, scratch / "checkpoint", rebalance="off", migration="off", **settings)
    for name in NAMES:
        schema = spark.read.parquet(str(data / name)).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(data / name))
        session.stream(name, frame, time="ts", lateness=f"{lateness_us} microseconds")
    sink = _Migrates(ParquetSink(scratch / "out"), changes)
    session.query("q", cape_text(window_us=window_us, sharded=sharded), sink)
    sink.run = run = session.start(availableNow=True)
    run.awaitTermination()
    shutil.rmtree(scratch / "checkpoint")
    return SparkTrace(run.recentProgress, [(e.batch, e.kind) for e in run.events], scratch / "out")
