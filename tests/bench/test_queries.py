"""The benchmark of many queries: its rules mean the same to us and to DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.bench.joins.tree_cpu import tree_cpu_s
from anabranch.bench.many.queries import WINDOW_US, oracle
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.workloads.rules import rule, rule_streams, subscription

RULES, BATCHES = 12, 3
KINDS = {"id": "bigint", "k": "bigint", "item": "bigint", "price": "double", "ts": "timestamp"}
STREAMS = {name: Stream(name, tuple(Column(*c) for c in KINDS.items()), "ts") for name in "ab"}


def test_rules_in_one_session_have_the_results_that_duckdb_has(tmp_path: Path) -> None:
    workload = rule_streams(tmp_path / "in", rules=RULES, batches=BATCHES, rows_per_batch=400)
    texts = {f"q{i}": rule(i, rules=RULES, window_us=WINDOW_US) for i in range(RULES)}
    texts["subscription"] = subscription(1, rules=RULES)
    queries = [bind_query(name, text, STREAMS) for name, text in texts.items()]
    sink = MemorySink()
    settings = Settings(sites=2, slots=2, sharing="open")
    streams = tuple(STREAMS.values())
    run = LocalRun(tmp_path / "ck", streams, queries, sinks=dict.fromkeys(texts, sink), settings=settings)
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


def test_the_time_of_all_processes_is_not_less_than_that_of_the_jvm() -> None:
    whole, jvm = tree_cpu_s()
    assert whole > 0
    assert whole >= jvm
