"""The benchmark of many queries: its rules mean the same to us and to DuckDB."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from anabranch.bench.joins.tree_cpu import tree_cpu_s
from anabranch.bench.many import queries
from anabranch.bench.many.marginal import STREAMS, run_marginal
from anabranch.bench.many.queries import WINDOW_US, oracle, queries_table, run_queries
from anabranch.bench.report import plain_json
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.workloads.rules import rule, rule_streams, subscription

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES, BATCHES = 12, 3


def test_rules_in_one_session_have_the_results_that_duckdb_has(tmp_path: Path) -> None:
    workload = rule_streams(tmp_path / "in", rules=RULES, batches=BATCHES, rows_per_batch=400)
    texts = {f"q{i}": rule(i, rules=RULES, window_us=WINDOW_US) for i in range(RULES)}
    texts["subscription"] = subscription(1, rules=RULES)
    bound = [bind_query(name, text, STREAMS) for name, text in texts.items()]
    sink = MemorySink()
    settings = Settings(sites=2, slots=2, sharing="open")
    streams = tuple(STREAMS.values())
    run = LocalRun(tmp_path / "ck", streams, bound, sinks=dict.fromkeys(texts, sink), settings=settings)
    for number in range(BATCHES):
        run.batch({s.name: pq.read_table(s.path / f"{number:06d}.parquet") for s in workload.streams})
    run.close()
    assert len(run.loop.catalog.queries) == 2, "one representative for the rules, one for subscriptions"
    with duckdb.connect() as connection:
        for stream in workload.streams:
            connection.execute(f"CREATE VIEW {stream.name} AS FROM read_parquet('{stream.path}/*.parquet')")
        for number in range(RULES):
            found = sink.table().filter(pc.equal(sink.table().column("query"), f"q{number}"))
            mine = sorted(zip(found["x"].to_pylist(), found["y"].to_pylist(), strict=True))
            assert mine == sorted(connection.execute(oracle(number, RULES)).fetchall())
            assert mine


@pytest.mark.slow
@pytest.mark.spark
def test_all_of_it_runs_and_is_told(spark: SparkSession, tmp_path: Path) -> None:
    result = run_queries(
        spark, tmp_path, counts=(8, 16), subscriptions=8, rows=200, batches=6, turns=1, peers=False
    )
    assert result.failed == ()
    assert [m.queries for m in result.many] == [8, 16, 8]
    assert result.added is not None
    assert result.added.restart_s > 0
    assert queries_table(result).row_count > 6
    assert json.dumps(plain_json("queries", result))


def test_a_part_that_fails_leaves_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = queries.Measured("one", 1, 1, 1.0, 1.0, 1.0, 1.0)
    monkeypatch.setattr(queries, "_session", lambda *_: one)
    monkeypatch.setattr(queries, "_verify", lambda *_: None)
    monkeypatch.setattr(queries, "run_coming", lambda *_, **__: 1 / 0)
    no_spark: Any = None
    result = run_queries(no_spark, tmp_path, counts=(2,), rows=50, batches=6, peers=False)
    assert result.failed == ("queries that come: division by zero",)
    assert result.ratio == 1
    assert result.marginal is not None


def test_one_more_rule_is_measured_over_the_same_rows(tmp_path: Path) -> None:
    found = run_marginal(tmp_path, few=4, more=8, window_us=WINDOW_US, one_us=WINDOW_US, rows=100, batches=2)
    assert min(found.one_ms, found.few_ms, found.more_ms) > 0
    counts = [pq.read_table(tmp_path / f"{what}/out").num_rows for what in ("one", "rules4", "rules8")]
    assert all(counts)


def test_the_time_of_all_processes_is_not_less_than_that_of_the_jvm() -> None:
    whole, jvm = tree_cpu_s()
    assert whole > 0
    assert whole >= jvm
