"""Routers on Spark: the SQL of each places rows as its arrays do, and sessions give what the oracle gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.task.arrival.routing import routed
from anabranch.engine.task.arrival.sent_rows import ReadAs, Relabelling
from anabranch.engine.task.arrival.wire import TAG
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.router import Router
from anabranch.exchange.slot_map import SlotMap
from anabranch.exchange.split_router import HotKey, SplitInput, SplitRouter
from anabranch.exchange.station_router import Redirect, Ways
from anabranch.language.flow import bind_query
from anabranch.plan.inputs import HASH, TIME
from anabranch.spark.reading.ingest import cases_of, relabelled, route
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.stations import names_of
from tests.engine.test_hot_groups import TEXTS as GROUPS
from tests.engine.test_hot_keys import KEYS, TEXTS
from tests.engine.theta_joins import STREAMS, random_batches
from tests.exchange.test_aligned_router import TIMES, random_router
from tests.exchange.test_coordinated_router import random_coordinated_router, random_members
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider
from tests.support.restless_homes import RestlessHomes
from tests.support.restless_routing import RestlessRouting

pytestmark = pytest.mark.spark

HOT = (5, -(1 << 63), 77)
"""Addresses, the least of all among them."""
THETA = {
    "near": (
        "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], "
        "c [RANGE 1 SECONDS] WHERE abs(a.x - b.x) <= 1 AND b.k = c.k"
    ),
    "counts": (
        "SELECT a.k AS k, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
        "WHERE a.x < b.x GROUP BY a.k"
    ),
}


def wire_table(draw: np.random.Generator, rows: int) -> pa.Table:
    """Rows of inputs 0 to 9 but one, ticks and dead rows."""
    addresses = np.where(
        draw.random(rows) < 0.6, draw.choice(HOT, rows), draw.integers(-(2**62), 2**62, rows)
    )
    tags = draw.integers(-4, 20, rows)
    tags = np.where(tags >> 1 == 5, tags - 2, tags)  # only redirected rows are of the second alternative
    lane = [None if draw.random() < 0.1 else int(v) for v in draw.integers(-(2**60), 2**60, rows)]
    return pa.table(
        {
            "id": np.arange(rows),
            TAG: pa.array(tags, pa.int32()),
            TIME: draw.integers(0, TIMES, rows),
            HASH: addresses,
            "bigint#1": pa.array(lane, pa.int64()),
            "bigint#2": draw.integers(-(2**60), 2**60, rows),
        }
    )


@pytest.mark.parametrize("copies", [1, 2], ids=["each row once", "some rows twice"])
def test_rows_of_another_layout_are_read_alike_in_both_languages(spark: SparkSession, copies: int) -> None:
    rows = wire_table(np.random.default_rng(copies), 400)
    draw = random.Random(copies)
    addresses = [None, "bigint#2", -77]
    read_as = Relabelling(
        tuple(
            tuple(ReadAs(10 * i + at, draw.choice(addresses)) for i in range(draw.randint(1, copies)))
            for at in draw.sample(range(10), 10)
        )
    )
    assert read_as.is_copying is (copies > 1)
    found = relabelled(spark.createDataFrame(rows), read_as).select(*rows.column_names).collect()
    expected = read_as.placed(rows).to_pylist()
    assert Counter(tuple(r) for r in found) == Counter(tuple(row.values()) for row in expected)


def all_routers(seed: int) -> Sequence[Router]:
    """One of each kind, of different inputs."""
    keys = (
        HotKey(HOT[0], ("s", "t"), "s", (3, 200, 77)),
        HotKey(HOT[1], ("s", "t"), "s", (9,)),
        HotKey(HOT[2], ("t",), None, (1, 2, 3, 4, 5)),
    )
    ranks = tuple(random.Random(seed).choices(range(9), k=PARTITIONS))
    return (
        random_router(random.Random(seed), 3),
        random_coordinated_router(random.Random(seed), random_members(random.Random(seed), (3, 8, 9))),
        Redirect((4, 5), (HASH, "bigint#2"), Ways((ranks, (4,)), (100, 200)), seed=seed),
        SplitRouter(SplitInput(6, "s", ("bigint#1", "bigint#2")), keys[:2]),
        SplitRouter(SplitInput(7, "t", ()), keys),
    )


def test_the_sql_of_every_router_places_rows_as_its_arrays_do(spark: SparkSession) -> None:
    rows = wire_table(np.random.default_rng(5), 400)
    slot_map = SlotMap.of(PartitionMap.even(4), 2, homes=(-1, 0, 3, *[-1] * 7))
    copies = 0
    for seed in range(3):
        routers = all_routers(seed)
        placed = routed(rows, routers).select(["id", TAG, HASH])
        second = slot_map.rows_of(1, placed.column(HASH).to_numpy(), placed.column(TAG).to_numpy())
        expected = placed.append_column("slot", pa.array(second.astype(np.int64))).to_pylist()
        frame = spark.createDataFrame(rows)  # from Arrow: pandas would round numbers beside NULLs
        there = route(frame, cases_of(routers), slot_map).select(
            "id", TAG, HASH, spark_partition_id().alias("slot")
        )
        found = there.collect()
        assert Counter(tuple(r.asDict().values()) for r in found) == Counter(
            tuple(row.values()) for row in expected
        )
        copies += len(expected) - rows.num_rows
    assert copies > 100


def test_segments_hot_keys_and_hot_groups_give_what_the_oracle_gives_on_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = random_batches(random.Random(11), 5, most=40)
    groups = {name: GROUPS[name] for name in ("each", "tumbling", "different")}
    texts = {**THETA, "pair": TEXTS["pair"], "three": TEXTS["three"], **groups}
    sinks = {name: MemorySink() for name in texts}
    hashes = spark.sql(f"SELECT {', '.join(f'xxhash64({key}L) AS h{key}' for key in KEYS)}").first()
    assert hashes is not None
    decider = RestlessHomes(3, RestlessRouting(3, RestlessDecider(3, keys=tuple(hashes))))
    write_batches(tmp_path, STREAMS, batches[:3])
    run_to_the_end(spark, tmp_path, STREAMS, texts, sinks, sites=4, slots=2, decider=decider)
    write_batches(tmp_path, STREAMS, batches[3:], first=3)
    run_to_the_end(
        spark, tmp_path, STREAMS, texts, sinks, sites=3, slots=2, decider=decider, end_of_input="true"
    )
    models = accepted_rows(STREAMS, batches)
    for name, text in texts.items():
        query = bind_query(name, text, names_of(STREAMS))
        tables = {stream: model.rows_for(query) for stream, model in models.items()}
        assert sinks[name].table().num_rows
        check_rows(sinks[name].table(), expected_rows(query, STREAMS, tables), what=text)
