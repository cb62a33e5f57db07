"""Adaptation on Spark: partitions move, rows wait, sites come and go, and no result changes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.bench.anabranch_join import start_join
from anabranch.testing.crowded import crowded_streams
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.testing.restless import restless
from anabranch.testing.stream_files import Workload

pytestmark = pytest.mark.spark


def started(spark: SparkSession, work: Workload, root: Path, **settings: Any) -> ab.Run:
    return start_join(spark, work, root, window_us=3_000_000, **settings)


@pytest.fixture(scope="module")
def work() -> Any:
    with tempfile.TemporaryDirectory() as root:
        yield crowded_streams(Path(root), batches=8, rows_per_batch=1_000, shift_every=4)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, work: Workload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("undisturbed")
    started(spark, work, root, sites=1, rebalance="off").awaitTermination()
    return root / "out"


def check(root: Path, undisturbed: Path) -> None:
    assert_same_rows(pq.read_table(root / "out"), pq.read_table(undisturbed))


def test_random_moves_spills_and_rescales_change_no_result(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path
) -> None:
    with restless(7):
        started(spark, work, tmp_path, sites=5).awaitTermination()
    check(tmp_path, undisturbed)


def test_a_crowd_of_keys_is_spread_and_the_decisions_say_why(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path
) -> None:
    run = started(spark, work, tmp_path, sites=8)
    run.awaitTermination()
    moves = [e for e in run.events if e.kind == "move_accepted"]
    assert moves
    assert all("site" in e.message for e in moves)
    check(tmp_path, undisturbed)


def test_a_memory_budget_spills_and_everything_still_comes_out(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The state of this small run is less than a mebibyte: let one count as a few bytes.
    monkeypatch.setattr("anabranch.runtime.adaptation.MEBIBYTE", 16_384)
    run = started(spark, work, tmp_path, sites=2, memory_budget_mb=1)
    run.awaitTermination()
    assert any(e.kind == "memory_planned" for e in run.events)
    assert any(e.kind == "finishing" for e in run.events)
    check(tmp_path, undisturbed)


def test_the_number_of_sites_changes_while_it_runs(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path
) -> None:
    run = started(spark, work, tmp_path, sites=2)
    run.rescale(7)
    run.awaitTermination()
    assert len(run.lastProgress["sites"]) == 7  # type: ignore[index]
    check(tmp_path, undisturbed)
