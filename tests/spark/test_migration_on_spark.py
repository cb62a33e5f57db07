"""Plans change and partitions move between slots on Spark: rows go to two slots while old tracks end."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.slot_task import SlotTask
from anabranch.exchange.slot_map import SlotMap
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.directed_runs import STREAMS, joined, steady_batches
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider

pytestmark = pytest.mark.spark


def test_random_migrations_and_moves_with_rows_sent_to_two_slots_change_no_result(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = steady_batches(5)
    queries = [joined("a", "b", "c")]
    write_batches(tmp_path, STREAMS, batches)
    sinks = {q.name: MemorySink() for q in queries}
    doubled: list[int] = []
    rebuilt: list[int] = []
    real = SlotTask.slot_map

    def slot_map(task: SlotTask) -> SlotMap:
        found = real(task)
        doubled.append(sum(len(slots) == 2 for slots in found.slots_of))
        rebuilt.append(sum(len(w.rebuilds) for works in task.work.values() for w in works))
        return found

    decider = RestlessDecider(25, rescales=False, waits=False)  # so that every batch has its rows
    with mock.patch.object(SlotTask, "slot_map", slot_map):
        texts = {q.name: q.text for q in queries}
        run_to_the_end(spark, tmp_path, STREAMS, texts, sinks, decider=decider, sites=4, slots=2)
    assert max(doubled) > 10, "no partition worked in two slots: nothing was shown"
    assert max(rebuilt) > 0
    models = accepted_rows(STREAMS, batches)
    tables = {name: pa.concat_tables(model.accepted) for name, model in models.items()}
    for query in queries:
        assert sinks[query.name].table().num_rows
        check_rows(sinks[query.name].table(), expected_rows(query, STREAMS, tables), what=query.name)
