"""Aggregates and DISTINCT above joins on Spark: plans and sites change below them, and a restart comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.runtime.directed_runs import STREAMS, steady_batches
from tests.runtime.spark_sessions import run_to_the_end, write_batches

from anabranch.language.flow import bind_query
from anabranch.runtime.sinks import MemorySink
from anabranch.runtime.slot_task import SlotTask
from anabranch.testing.oracle_check import accepted_rows, check_rows, expected_rows
from anabranch.testing.restless import restless

pytestmark = pytest.mark.spark

JOIN = (
    "FROM a [RANGE 12 MICROSECONDS], b [RANGE 25 MICROSECONDS], c [RANGE 8 MICROSECONDS] "
    "WHERE a.k = b.k AND b.k = c.k"
)
QUERIES = {
    "by_key": f"SELECT a.k, COUNT(*) AS n, SUM(a.id + c.id) AS s, MAX(b.id) AS hi {JOIN} GROUP BY a.k",
    "often": f"SELECT b.k, c.id AS c, AVG(a.id) AS m {JOIN} GROUP BY b.k, c.id HAVING COUNT(*) > 1",
    "all": "SELECT COUNT(*) AS n, MIN(b.id) AS lo FROM a [NOW], b [RANGE 9 MICROSECONDS] WHERE a.id < b.id",
    "first": f"SELECT DISTINCT c.k, a.id % 3 AS third {JOIN}",
}


def test_groups_of_join_results_survive_migrations_moves_and_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = steady_batches(6)
    sinks = {name: MemorySink() for name in QUERIES}
    doubled: list[int] = []
    real = SlotTask.destinations

    def destinations(task: SlotTask) -> Any:
        slots_of = real(task)
        doubled.append(sum(len(slots) == 2 for slots in slots_of))
        return slots_of

    with restless(25, rescales=False), mock.patch.object(SlotTask, "destinations", destinations):
        write_batches(tmp_path, STREAMS, batches[:3])
        run_to_the_end(spark, tmp_path, STREAMS, QUERIES, sinks, sites=4, slots=2)
        write_batches(tmp_path, STREAMS, batches[3:], first=3)
        run_to_the_end(spark, tmp_path, STREAMS, QUERIES, sinks, sites=3, slots=2, end_of_input="true")
    assert max(doubled) > 10, "no partition worked in two slots: nothing was shown"
    models = accepted_rows(STREAMS, batches)
    tables = {name: pa.concat_tables(model.accepted) for name, model in models.items()}
    for name, text in QUERIES.items():
        query = bind_query(name, text, {s.name: s for s in STREAMS})
        assert sinks[name].table().num_rows
        check_rows(sinks[name].table(), expected_rows(query, STREAMS, tables), what=text)
