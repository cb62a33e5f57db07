"""A query that goes too far on Spark: its worker's memory is held, the others go on, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from anabranch.engine.sinks.memory_sink import MemorySink
from tests.engine.nasty_runs import rows, stream
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.generated import Batch

pytestmark = pytest.mark.spark

STREAMS = tuple(stream(name) for name in "abc")
SIZE = 1_000
"""Rows of one key in two streams: their million pairs take up 40 MB."""
_W = "[RANGE 9 SECONDS]"
TEXTS = {
    "probed": f"SELECT a.id AS a, c.id AS c FROM a {_W}, b {_W}, c {_W} WHERE a.k = b.k AND b.k = c.k",
    "travelling": (
        f"SELECT a.id AS a, b.id AS b, c.id AS c FROM a {_W}, b {_W}, c {_W} "
        "WHERE abs(a.k - b.k) <= 0 AND abs(a.id - c.id) <= 0"
    ),
    "ended": f"SELECT a.k, COUNT(*) AS n FROM a {_W}, b {_W} WHERE a.k = b.k GROUP BY a.k",
    "small": f"SELECT a.id AS a, c.id AS c FROM a {_W}, c {_W} WHERE a.k = c.k AND a.id = c.id",
}
SETTINGS = {
    "sites": 2,
    "slots": 2,
    "work_memory_mb": 16,
    "rebalance": "off",
    "skew_buffer_rows": 0,
    "routing": "coordinated",
}


def _batch(size: int, at_us: int) -> Batch:
    sizes = {"a": size, "b": size, "c": 1}
    return {name: _rows(size, at_us) for name, size in sizes.items()}


def _rows(size: int, at_us: int) -> pa.Table:
    return rows(*[(7, at_us)] * size)


def test_a_query_that_keeps_too_much_ends_or_goes_on_without_and_the_others_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    sinks = {name: MemorySink() for name in TEXTS}
    write_batches(tmp_path, STREAMS, [_batch(1, 0), _batch(SIZE, 1_000)])
    run = run_to_the_end(spark, tmp_path, STREAMS, TEXTS, sinks, **SETTINGS)
    kinds = [event.kind for event in run.events]
    assert kinds.count("plan_abandoned") == 1
    (told,) = [event.message for event in run.events if event.kind == "query_failed"]
    assert "query 'ended' made more than 16.0 MiB" in told
    write_batches(tmp_path, STREAMS, [_batch(1, 2_000)], first=2)
    again = run_to_the_end(spark, tmp_path, STREAMS, TEXTS, sinks, **SETTINGS)
    assert "plan_abandoned" not in [event.kind for event in again.events]
    assert sinks["probed"].table().num_rows == (SIZE + 2) ** 2 * 3
    assert sinks["travelling"].table().num_rows == (SIZE + 2) * 9
    assert sinks["small"].table().num_rows == 9
    assert not sinks["ended"].table().num_rows
