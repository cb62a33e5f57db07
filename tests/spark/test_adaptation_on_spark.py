"""Adaptation on Spark: partitions move, rows wait, sites come and go, and no result changes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.adapt.balance.worth import Worth
from anabranch.adapt.memory.admission import OPEN, Admission
from anabranch.adapt.memory.site_budgets import RowBudget
from anabranch.bench.joins.anabranch_join import start_join
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.workloads.crowded import crowded_streams
from anabranch.workloads.stream_files import Workload
from tests.support.eager_buffer import eager_buffer
from tests.support.fixed_admission import FixedAdmission
from tests.support.restless import RestlessDecider
from tests.support.spark_cluster import wait_until

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
    started(spark, work, tmp_path, sites=5, decider=RestlessDecider(7)).awaitTermination()
    check(tmp_path, undisturbed)


def test_a_crowd_of_few_keys_is_not_worth_moving(spark: SparkSession, work: Workload, tmp_path: Path) -> None:
    run = started(spark, work, tmp_path, sites=8)
    run.awaitTermination()
    assert "move_accepted" not in [e.kind for e in run.events]


def test_a_crowd_of_keys_is_spread_and_the_decisions_say_why(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path
) -> None:
    with mock.patch.object(Worth, "objection", return_value=None):  # as if the batches were large
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
    monkeypatch.setattr("anabranch.engine.settings.MEBIBYTE", 16_384)
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


def test_rows_put_off_come_out_although_no_more_input_comes(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path
) -> None:
    put_off = Admission({site: RowBudget(10, 1_000_000) for site in range(3)}, frozenset())
    last = work.batches - 1
    decider = FixedAdmission(lambda ended: OPEN if ended == last else put_off)
    run = started(spark, work, tmp_path, sites=3, ends=False, decider=decider)
    wait_until(
        lambda: any(e.kind == "finishing" and e.batch == last for e in run.events), "a step", timeout=60
    )
    assert run.lastProgress is not None
    assert run.lastProgress["state"]["numRowsPutOff"] == 0
    run.stop()
    check(tmp_path, undisturbed)


def test_a_skew_that_comes_and_goes_is_smoothed_and_changes_no_result(
    spark: SparkSession, work: Workload, undisturbed: Path, tmp_path: Path
) -> None:
    with eager_buffer() as decider:
        run = started(spark, work, tmp_path, sites=4, rebalance="off", decider=decider)
        run.awaitTermination()
    assert any(e.kind == "rows_put_off" for e in run.events)
    check(tmp_path, undisturbed)
