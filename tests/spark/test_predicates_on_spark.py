"""A predicate of a user on Spark: it travels to the workers, and is registered again after a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.expressions import user_predicates
from anabranch.plan.logical import Column, Stream
from tests.spark.spark_sessions import run_to_the_end, write_batches

pytestmark = pytest.mark.spark

COLUMNS = (Column("id", "bigint"), Column("x", "double"), Column("name", "string"), Column("ts", "timestamp"))
STREAMS = [Stream(name, COLUMNS, "ts") for name in "ab"]
TEXT = (
    "SELECT a.id AS a, b.id AS b FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] "
    "WHERE alike(a.name, b.name, a.x)"
)


def rows(draw: np.random.Generator, number: int) -> pa.Table:
    names = [
        None if draw.random() < 0.1 else str(draw.choice(["Ann", "ANN", "bob", "Bob", "eve"]))
        for _ in range(30)
    ]
    return pa.table(
        {
            "id": pa.array(30 * number + np.arange(30)),
            "x": pa.array(draw.random(30)),
            "name": pa.array(names, pa.string()),
            "ts": pa.array(number * 1_000_000 + np.arange(30)).cast(pa.timestamp("us")),
        }
    )


def test_a_predicate_travels_to_the_workers_and_is_asked_for_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw, least = np.random.default_rng(3), 0.4
    batches = [{name: rows(draw, number) for name in "ab"} for number in range(3)]
    # A closure: nothing that workers could import.
    same = lambda x, y, z: pc.and_kleene(  # noqa: E731
        pc.equal(pc.utf8_lower(x), pc.utf8_lower(y)), pc.greater(z, pa.scalar(least))
    )
    ab.predicate("alike", same)
    sinks = {"q": MemorySink()}
    write_batches(tmp_path, STREAMS, batches)
    run_to_the_end(spark, tmp_path, STREAMS, {"q": TEXT}, sinks, sites=4, slots=2)
    left, right = (pa.concat_tables(batch[name] for batch in batches).to_pylist() for name in "ab")
    expected = Counter(
        (a["id"], b["id"])
        for a in left
        for b in right
        if a["name"] and b["name"] and a["name"].lower() == b["name"].lower() and a["x"] > least
    )
    assert Counter((r["a"], r["b"]) for r in sinks["q"].table().to_pylist()) == expected
    with (
        mock.patch.dict(user_predicates._payloads, clear=True),
        pytest.raises(ab.QueryError, match=r"ab\.predicate"),
    ):
        run_to_the_end(spark, tmp_path, STREAMS, {"q": TEXT}, sinks, sites=4, slots=2)
