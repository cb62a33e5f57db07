"""Aggregates and DISTINCT above joins on Spark: plans and sites change below them, and a restart comes."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.slot_task import SlotTask
from anabranch.exchange.slot_map import SlotMap
from anabranch.language.flow import bind_query
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, steady_batches
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider

pytestmark = pytest.mark.spark

JOIN = (
    "FROM a [RANGE 12 MICROSECONDS], b [RANGE 25 MICROSECONDS], c [RANGE 8 MICROSECONDS] "
    "WHERE a.k = b.k AND b.k = c.k"
)
ALONE = JOIN.replace("25", "24").replace("8", "9")
"""Nothing in common with the others, so that parallel tracks may run."""
QUERIES = {
    "by_key": f"SELECT a.k, COUNT(*) AS n, SUM(a.id + c.id) AS s, MAX(b.id) AS hi {ALONE} GROUP BY a.k",
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
    real = SlotTask.slot_map

    def slot_map(task: SlotTask) -> SlotMap:
        found = real(task)
        doubled.append(sum(len(slots) == 2 for slots in found.slots_of))
        return found

    decider = RestlessDecider(25, rescales=False)
    with mock.patch.object(SlotTask, "slot_map", slot_map):
        write_batches(tmp_path, STREAMS, batches[:3])
        run_to_the_end(spark, tmp_path, STREAMS, QUERIES, sinks, decider=decider, sites=4, slots=2)
        write_batches(tmp_path, STREAMS, batches[3:], first=3)
        run_to_the_end(
            spark, tmp_path, STREAMS, QUERIES, sinks, decider=decider, sites=3, slots=2, end_of_input="true"
        )
    assert max(doubled) > 10, "no partition worked in two slots: nothing was shown"
    models = accepted_rows(STREAMS, batches)
    tables = {name: pa.concat_tables(model.accepted) for name, model in models.items()}
    for name, text in QUERIES.items():
        query = bind_query(name, text, {s.name: s for s in STREAMS})
        assert sinks[name].table().num_rows
        check_rows(sinks[name].table(), expected_rows(query, STREAMS, tables), what=text)
