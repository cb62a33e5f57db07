"""Every benchmark runs with small parameters, and checks what it compares."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.bench.empty import run_empty
from anabranch.bench.engine_run import EngineRun, Skipped
from anabranch.bench.joins.join import JoinBench, JoinResult, run_join_bench
from anabranch.bench.joins.window_scale import run_window_scale
from anabranch.bench.memory import run_memory
from anabranch.bench.parse import ParseBench, run_parse_bench
from anabranch.bench.report import (
    empty_table,
    engines_json,
    engines_notes,
    engines_table,
    memory_table,
    plain_json,
)
from anabranch.bench.same_results import difference
from anabranch.bench.window import WindowBench, run_window_bench
from anabranch.bench.worker_memory import python_workers
from anabranch.workloads.uniform import uniform_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("streams", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_all_engines_give_the_same_join(spark: SparkSession, tmp_path: Path, streams: int) -> None:
    bench = JoinBench(
        rows=200, batches=5, window_batches=2, streams=3 if streams == 3 else 2, keys="string", warm_s=0
    )
    results = list(run_join_bench(spark, bench, tmp_path))
    ran = [r for r in results if isinstance(r.outcome, EngineRun)]
    assert [r.difference for r in ran] == [None] * len(ran)
    assert {r.outcome.engine.split()[0].strip(",") for r in ran} >= {"Anabranch", "Spark", "DuckDB"}
    assert len({r.outcome.result_rows for r in ran if isinstance(r.outcome, EngineRun)}) == 1
    assert engines_table(bench.title, results).row_count == len(ran)
    assert any("skipped" in note for note in engines_notes(bench, results))
    assert json.dumps(engines_json(bench, results))


@pytest.mark.spark
def test_a_select_at_ingest_gives_what_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    bench = ParseBench(rows=500, batches=2, warm_s=0)
    results = list(run_parse_bench(spark, bench, tmp_path))
    assert [r.difference for r in results] == [None, None]
    assert [r.outcome.result_rows for r in results if isinstance(r.outcome, EngineRun)] == [10, 10]
    assert json.dumps(engines_json(bench, results))


@pytest.mark.spark
def test_all_engines_give_the_same_windows(spark: SparkSession, tmp_path: Path) -> None:
    bench = WindowBench(rows=300, keys=20, batches=9, window_batches=2, warm_s=0)
    results = list(run_window_bench(spark, bench, tmp_path))
    assert [r.difference for r in results] == [None, None, None]
    names = [r.outcome.engine for r in results]
    assert names[:2] == ["Anabranch", "Anabranch, plan_ahead"]
    assert names[2].startswith("Spark")
    runs = [r.outcome for r in results if isinstance(r.outcome, EngineRun)]
    assert {run.input_rows for run in runs} == {9 * 300}
    assert all(run.result_rows >= 20 for run in runs)
    assert engines_table(bench.title, results).row_count == 3
    assert json.dumps(engines_json(bench, results))


@pytest.mark.spark
def test_a_wider_window_holds_more_state_and_gives_as_many_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = run_window_scale(spark, tmp_path, rows=500, window_batches=2, scale=3, measured=3)
    assert found.wide.state_rows >= 2 * found.narrow.state_rows
    assert found.wide.result_rows == pytest.approx(found.narrow.result_rows, rel=0.5)
    assert json.dumps(plain_json("window-scale", found))


@pytest.mark.spark
def test_empty_batches_of_both_sides_are_timed(spark: SparkSession, tmp_path: Path) -> None:
    found = run_empty(spark, tmp_path, batches=5, rounds=1)
    assert found.batches == 2
    assert found.ratio > 0
    assert empty_table(found).row_count == 3


@pytest.mark.spark
def test_workers_are_weighed_while_the_state_is_there(spark: SparkSession, tmp_path: Path) -> None:
    found = run_memory(spark, tmp_path, rows=4_000, batches=2)
    assert found.state_rows == 4_000
    assert found.at_end.rss >= found.at_end.anonymous > 0
    assert found.at_end.pid in [w.pid for w in python_workers(os.getpid())]
    assert memory_table(found).row_count > 0


def test_a_difference_between_results_is_described(tmp_path: Path) -> None:
    one = uniform_streams(tmp_path / "one", batches=1, rows_per_batch=20, seed=1)["a"].path
    other = uniform_streams(tmp_path / "other", batches=1, rows_per_batch=20, seed=2)["a"].path
    assert difference(one, one, ("id", "k")) is None
    found = difference(one, other, ("id", "k"))
    assert found is not None
    assert "20 rows, expected 20" in found


def test_a_skipped_peer_is_a_note_not_a_row() -> None:
    results = [
        JoinResult(EngineRun("Anabranch", 1.0, 100, 5)),
        JoinResult(Skipped("Flink", "it is not installed")),
        JoinResult(EngineRun("Spark", 2.0, 100, 5), "5 rows, expected 6"),
    ]
    table = engines_table(JoinBench().title, results)
    assert table.row_count == 2
    assert list(table.columns[-1].cells) == ["equal", "DIFFERENT"]
    assert engines_notes(JoinBench(), results)[1:] == [
        "Flink: skipped, it is not installed",
        "5 rows, expected 6",
    ]
