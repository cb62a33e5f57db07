"""Joins without a common key on Spark: rows travel between hops of one job, to stations on all sites."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.eddy import layout_choice
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.stations import STREAMS, any_way, names_of, random_batches
from tests.spark.spark_sessions import run_to_the_end, session_over_files, write_batches
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows


class Fickle(AdaptiveDecider):
    """Wants joins as trees after every other batch, and at stations after the others."""

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().decide(state, observed)
        return state, replace(decisions, orderings=dict.fromkeys(QUERIES, observed.batch % 2 == 1))


pytestmark = pytest.mark.spark

FROM = "FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 3 SECONDS]"
QUERIES = {
    "chain": f"SELECT a.id AS a, b.id AS b, c.id AS c {FROM} WHERE a.u = b.u AND b.v = c.v",
    "cycle": f"SELECT a.id AS a {FROM} WHERE a.u = b.u AND b.v = c.v AND c.w = a.w AND a.id < c.id",
    "counts": f"SELECT c.id AS c, COUNT(*) AS n {FROM} WHERE a.u = b.u AND b.v = c.v GROUP BY c.id",
    "long": (
        "SELECT a.id AS a, d.id AS d FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 3 SECONDS], "
        "d [RANGE 2 SECONDS] WHERE a.u = b.u AND b.v = c.v AND c.w = d.w"
    ),
    "one_key": f"SELECT a.id AS a, b.id AS b, c.id AS c {FROM} WHERE a.u = b.u AND b.u = c.u",
    "shared": "SELECT a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.u = b.u",
}
SECOND = "FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS], c [RANGE 1 SECONDS] WHERE a.u = b.u AND b.v = c.v"
LOADS = {
    "load": f"SELECT a.id AS a, b.id AS b, c.id AS c {SECOND} AND a.id + b.id + c.id < 1000",
    "small": f"SELECT c.id AS c, COUNT(*) AS n {SECOND} AND a.id < 200 AND c.id < 2000 GROUP BY c.id",
}
MOST_BATCHES = 12
"""After which a change that does not come is missed."""


def test_chains_and_cycles_give_what_the_oracle_gives_through_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = random_batches(random.Random(11), 5, most=40)
    sinks = {name: MemorySink() for name in QUERIES}
    with any_way(3):
        write_batches(tmp_path, STREAMS, batches[:3])
        run_to_the_end(spark, tmp_path, STREAMS, QUERIES, sinks, sites=4, slots=2)
        write_batches(tmp_path, STREAMS, batches[3:], first=3)
        run_to_the_end(spark, tmp_path, STREAMS, QUERIES, sinks, sites=3, slots=2, end_of_input="true")
    check_all(QUERIES, batches, sinks)


def test_joins_change_between_trees_and_stations_while_spark_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's query goes on: what it sends is read for another layout."""
    batches = random_batches(random.Random(12), 3, most=40)
    texts = {name: QUERIES[name] for name in ("chain", "counts", "one_key", "shared")}
    sinks = {name: MemorySink() for name in texts}
    write_batches(tmp_path, STREAMS, batches)
    run = run_to_the_end(
        spark, tmp_path, STREAMS, texts, sinks, decider=Fickle(), sites=4, slots=2, end_of_input="true"
    )
    kinds = [event.kind for event in run.events]
    changed = {e.data["query"] for e in run.events if e.kind == "order_changed" and "stations" in e.data}
    assert changed == {"chain", "counts", "one_key"}
    assert kinds.count("order_changed") >= 6
    assert "ingest_restarted" not in kinds
    check_all(texts, batches, sinks)


@pytest.mark.slow
def test_auto_takes_one_site_while_the_load_is_tiny_and_stations_while_it_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nobody asks for it: what each way takes is measured."""
    batches: list[Batch] = []
    sinks = {name: MemorySink() for name in LOADS}
    ways: list[bool] = []
    settings = {"sites": 8, "slots": 2, "skew_buffer_rows": 0, "migration": "off"}
    with few_boundaries(), session_over_files(spark, tmp_path, STREAMS, LOADS, sinks, **settings) as run:
        for rows, at_stations in ((20, False), (6_000, True), (20, False)):
            for _ in range(MOST_BATCHES):
                batches.append(rows_at(len(batches), rows))
                write_batches(tmp_path, STREAMS, batches[-1:], first=len(batches) - 1)
                run.processAllAvailable()
                ways = [e.data["way"] != "one site" for e in run.events if is_new_layout(e)]
                if ways and ways[-1] is at_stations:
                    break
    batches.append(rows_at(len(batches), 20))
    write_batches(tmp_path, STREAMS, batches[-1:], first=len(batches) - 1)
    run_to_the_end(spark, tmp_path, STREAMS, LOADS, sinks, end_of_input="true", **settings)
    assert ways == [False, True, False]
    assert not [e for e in run.events if e.kind == "ingest_restarted"]
    assert {o.query for p in run.recentProgress for o in p.orderings} == LOADS.keys()
    check_all(LOADS, batches, sinks)


def is_new_layout(event: ab.Event) -> bool:
    return event.kind == "order_changed" and event.data["query"] == "load" and "way" in event.data


@contextmanager
def few_boundaries() -> Iterator[None]:
    """Fewer than usual, so that it does not take minutes."""
    with mock.patch.object(layout_choice, "BOUNDARIES", 2):
        yield


def rows_at(batch: int, rows: int) -> Batch:
    """Rows of one second: most pairs that meet are no results."""
    draw, begin_us = np.random.default_rng(batch), 1_000_000 * (10 + batch)
    columns = {"id": 10_000, "u": 50, "v": 1_000, "w": 5}
    return {
        s.name: pa.table(
            {name: draw.integers(0, most, rows) for name, most in columns.items()}
            | {"ts": pa.array(begin_us + draw.integers(0, 1_000_000, rows), pa.timestamp("us"))}
        )
        for s in STREAMS
    }


def check_all(texts: Mapping[str, str], batches: Sequence[Batch], sinks: Mapping[str, MemorySink]) -> None:
    models = accepted_rows(STREAMS, batches)
    for name, text in texts.items():
        query = bind_query(name, text, names_of(STREAMS))
        tables = {stream: model.rows_for(query) for stream, model in models.items()}
        assert sinks[name].table().num_rows
        check_rows(sinks[name].table(), expected_rows(query, STREAMS, tables), what=text)
