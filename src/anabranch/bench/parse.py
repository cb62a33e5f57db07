"""Parsing at ingest beside the same SELECT in a plain stream of Spark: same files, same session."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.bench.engine_run import EngineRun
from anabranch.bench.joins.join import JoinResult
from anabranch.bench.native_conf import native_conf
from anabranch.bench.peers import batch_times, count_parquet_rows
from anabranch.bench.same_results import difference
from anabranch.language.flow import parse_flow
from anabranch.spark.session import Session

ITEMS = (
    "from_json(value, 'id BIGINT, customer STRING, amount DOUBLE, note STRING, at STRING') AS j",
    "j.id AS id",
    "lower(j.customer) AS customer",
    "j.amount AS amount",
    "CAST(regexp_extract(j.note, 'weight=([0-9]+)', 1) AS INT) AS weight",
    "to_timestamp(j.at) AS ts",
)
COLUMNS = ("id", "customer", "amount", "weight")
WHERE = "amount < 10"
"""One row in a hundred is a result: writing results is not what is measured."""


@dataclass(frozen=True, slots=True)
class ParseBench:
    """What to measure."""

    rows: int = 50_000
    """Rows per micro-batch."""
    batches: int = 12
    warm_s: float = 60.0
    """For how long each engine runs the workload, again and again, before it counts."""

    @property
    def title(self) -> str:
        return f"JSON parsed at ingest, {self.rows:,} rows per batch, {self.batches} batches"

    def write(self, root: Path) -> None:
        """One file of lines of JSON per batch."""
        root.mkdir(parents=True)
        for batch in range(self.batches):
            numbers = range(batch * self.rows, (batch + 1) * self.rows)
            path = root / f"{batch:05d}.txt"
            path.write_text("\n".join(json.dumps(_order(n)) for n in numbers))
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))


def run_parse_bench(spark: SparkSession, bench: ParseBench, scratch: Path) -> Iterator[JoinResult]:
    """Run a flow with a SELECT at ingest, then Spark alone with the same SELECT."""
    files = scratch / "in"
    bench.write(files)
    engines: dict[str, Callable[[], EngineRun]] = {
        "anabranch": lambda: _anabranch(spark, files, scratch / "anabranch"),
        "spark": lambda: _spark(spark, files, scratch / "spark"),
    }
    for name, engine in engines.items():
        began = time.perf_counter()
        while time.perf_counter() - began < bench.warm_s:
            engine()
            shutil.rmtree(scratch / name)
        outcome = engine()
        yield JoinResult(outcome, difference(scratch / name / "out", scratch / "anabranch" / "out", COLUMNS))


def _order(number: int) -> dict[str, object]:
    return {
        "id": number,
        "customer": f"Customer {number % 1000}",
        "amount": float(number * 7919 % 1000),
        "note": f"weight={number % 90}kg;colour=blue",
        "at": f"2024-01-01 {number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}",
    }


def _anabranch(spark: SparkSession, files: Path, scratch: Path) -> EngineRun:
    began = time.perf_counter()
    session = Session(spark, scratch / "checkpoint")
    session.load(
        parse_flow(
            f"CREATE STREAM s FROM text '{files}' OPTIONS (maxFilesPerTrigger = 1) "
            f"AS SELECT {', '.join(ITEMS)} TIME ts; "
            f"CREATE QUERY q INTO parquet '{scratch / 'out'}' AS "
            f"SELECT {', '.join(COLUMNS)} FROM s WHERE {WHERE}"
        )
    )
    run = session.start(availableNow=True)
    run.awaitTermination()
    seconds = time.perf_counter() - began
    batches = batch_times(run.streamingQuery)
    rows = sum(t.rows for t in batches)
    return EngineRun("Anabranch", seconds, rows, count_parquet_rows(scratch / "out"), batches)


def _spark(spark: SparkSession, files: Path, scratch: Path) -> EngineRun:
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(files))
    selected = lines.selectExpr(*ITEMS).where(WHERE).select(*COLUMNS)
    with native_conf(spark):
        began = time.perf_counter()
        writer = selected.writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(scratch / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(scratch / "out"))
        query.awaitTermination()
        seconds = time.perf_counter() - began
    batches = batch_times(query)
    rows = sum(t.rows for t in batches)
    return EngineRun("Spark stream", seconds, rows, count_parquet_rows(scratch / "out"), batches)
