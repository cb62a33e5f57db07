"""The window join beside its peers: same files, same Spark session, results verified."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from anabranch.bench.engine_run import EngineRun, Skipped
from anabranch.bench.joins.anabranch_join import anabranch_join
from anabranch.bench.joins.three_way_peers import duckdb_three_way_join, spark_three_way_join
from anabranch.bench.peers import (
    duckdb_batch_join,
    flink_interval_join,
    polars_batch_join,
    spark_native_join,
)
from anabranch.bench.same_results import difference
from anabranch.workloads.uniform import KeyType, Workload, three_streams, uniform_streams

PEERS = ("spark", "rocksdb", "duckdb", "polars", "flink")
DEFAULT_PEERS = ("spark", "duckdb", "polars", "flink")

_ON_THE_JVM = ("anabranch", "spark", "rocksdb")

Outcome = EngineRun | Skipped


@dataclass(frozen=True, slots=True)
class JoinBench:
    """What to measure."""

    rows: int = 50_000
    """Rows per stream and micro-batch."""
    batches: int = 22
    window_batches: int = 10
    keys: KeyType = "int"
    streams: Literal[2, 3] = 2
    peers: tuple[str, ...] = DEFAULT_PEERS
    seed: int = 0
    warm_s: float = 60.0
    """For how long an engine on the JVM runs the workload, again and again, before it counts.

    The JVM compiles for about a minute. Counted in time and not in runs, so that a slow engine and a fast
    one get the same.
    """

    @property
    def title(self) -> str:
        return (
            f"{self.streams} streams, {self.rows:,} rows per stream and batch, {self.batches} batches, "
            f"window {self.window_batches} batches, {self.keys} keys"
        )

    def workload(self, root: Path) -> Workload:
        """Write the files."""
        make = uniform_streams if self.streams == 2 else three_streams
        return make(root, batches=self.batches, rows_per_batch=self.rows, keys=self.keys, seed=self.seed)


@dataclass(frozen=True, slots=True)
class JoinResult:
    """One engine's run, and how its result compares with DuckDB's."""

    outcome: Outcome
    difference: str | None = None


def run_join_bench(spark: SparkSession, bench: JoinBench, scratch: Path) -> Iterator[JoinResult]:
    """Run Anabranch and the chosen peers one after the other; DuckDB always runs, as the judge.

    Yields
    ------
    JoinResult
        As soon as each engine is through, Anabranch first.
    """
    workload = bench.workload(scratch / "in")
    window_us = bench.window_batches * workload.interval_us
    columns = ("k", *(f"{s.name}_id" for s in workload.streams))
    judge_dir = scratch / "duckdb"
    duckdb_join = duckdb_batch_join if bench.streams == 2 else duckdb_three_way_join
    judge = duckdb_join(workload, window_us=window_us, scratch=judge_dir)
    for name, engine in _engines(spark, bench, workload, window_us, scratch):
        began = time.perf_counter()
        while name in _ON_THE_JVM and time.perf_counter() - began < bench.warm_s:
            engine()
            shutil.rmtree(scratch / name)
        outcome = engine()
        if isinstance(outcome, Skipped):
            yield JoinResult(outcome)
        else:
            out = scratch / name / "out"
            yield JoinResult(outcome, difference(out if out.exists() else scratch / name, judge_dir, columns))
    if "duckdb" in bench.peers:
        yield JoinResult(judge)


def _engines(
    spark: SparkSession, bench: JoinBench, workload: Workload, window_us: int, scratch: Path
) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    yield (
        "anabranch",
        lambda: anabranch_join(spark, workload, window_us=window_us, scratch=scratch / "anabranch"),
    )
    if "spark" in bench.peers:
        yield "spark", lambda: _spark(spark, bench, workload, window_us, scratch / "spark")
    if "rocksdb" in bench.peers and bench.streams == 2:
        yield (
            "rocksdb",
            lambda: spark_native_join(
                spark, workload, window_us=window_us, scratch=scratch / "rocksdb", state_store="rocksdb"
            ),
        )
    if "polars" in bench.peers and bench.streams == 2:
        yield (
            "polars",
            lambda: polars_batch_join(workload, window_us=window_us, scratch=scratch / "polars"),
        )
    if "flink" in bench.peers:
        yield "flink", flink_interval_join


def _spark(
    spark: SparkSession, bench: JoinBench, workload: Workload, window_us: int, scratch: Path
) -> Outcome:
    if bench.streams == 2:
        return spark_native_join(spark, workload, window_us=window_us, scratch=scratch)
    return spark_three_way_join(spark, workload, window_us=window_us, scratch=scratch)
