from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.bench.engine_run import EngineRun, Skipped
from anabranch.bench.peers import (
    duckdb_batch_join,
    empty_foreach_batch,
    flink_interval_join,
    polars_batch_join,
    spark_native_join,
)
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.workloads.uniform import uniform_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW_US = 2_000_000


@pytest.mark.spark
@pytest.mark.parametrize("state_store", ["default", "rocksdb"])
def test_spark_and_duckdb_give_the_same_pairs(spark: SparkSession, tmp_path: Path, state_store: str) -> None:
    work = uniform_streams(
        tmp_path / "in", batches=5, rows_per_batch=300, key_space=100, disorder_us=500_000, seed=7
    )
    limit = duckdb_batch_join(work, window_us=WINDOW_US, scratch=tmp_path / "duckdb")
    native = spark_native_join(
        spark,
        work,
        window_us=WINDOW_US,
        scratch=tmp_path / "spark",
        state_store=state_store,  # type: ignore[arg-type]
    )
    assert_same_rows(tmp_path / "spark" / "out", tmp_path / "duckdb")
    assert native.result_rows == limit.result_rows > 0
    assert native.input_rows == limit.input_rows == 3_000
    assert [b.rows for b in native.batches][:5] == [600] * 5


def test_polars_gives_the_same_pairs_as_duckdb(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    work = uniform_streams(tmp_path / "in", batches=4, rows_per_batch=500, keys="string")
    duckdb_batch_join(work, window_us=WINDOW_US, scratch=tmp_path / "duckdb")
    assert isinstance(polars_batch_join(work, window_us=WINDOW_US, scratch=tmp_path / "polars"), EngineRun)
    assert_same_rows(tmp_path / "polars", tmp_path / "duckdb")


@pytest.mark.spark
def test_empty_micro_batches_are_batches(spark: SparkSession, tmp_path: Path) -> None:
    work = uniform_streams(tmp_path / "in", batches=5, rows_per_batch=0)
    run = empty_foreach_batch(spark, work.streams, scratch=tmp_path / "run")
    assert [b.rows for b in run.batches] == [0] * 5
    assert run.steady_batch_ms > 0


def test_flink_says_why_it_is_skipped() -> None:
    assert isinstance(flink_interval_join(), Skipped)
    assert str(flink_interval_join()).startswith("Flink SQL interval join: skipped, ")
