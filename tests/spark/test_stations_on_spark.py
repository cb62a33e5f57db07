"""Joins without a common key on Spark: rows travel between hops of one job, to stations on all sites."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.engine.stations import STREAMS, any_way, names_of, random_batches
from tests.spark.spark_sessions import run_to_the_end, write_batches
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
    "shared": "SELECT a.id AS a, b.id AS b FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.u = b.u",
}


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
    models = accepted_rows(STREAMS, batches)
    for name, text in QUERIES.items():
        query = bind_query(name, text, names_of(STREAMS))
        tables = {stream: model.rows_for(query) for stream, model in models.items()}
        assert sinks[name].table().num_rows
        check_rows(sinks[name].table(), expected_rows(query, STREAMS, tables), what=text)


def test_joins_change_between_trees_and_stations_while_spark_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each change starts Spark's query anew, because rows are read for another layout."""
    batches = random_batches(random.Random(12), 3, most=40)
    texts = {name: QUERIES[name] for name in ("chain", "counts", "shared")}
    sinks = {name: MemorySink() for name in texts}
    write_batches(tmp_path, STREAMS, batches)
    run = run_to_the_end(
        spark, tmp_path, STREAMS, texts, sinks, decider=Fickle(), sites=4, slots=2, end_of_input="true"
    )
    kinds = [event.kind for event in run.events]
    assert kinds.count("order_changed") >= 4
    assert "ingest_restarted" in kinds
    models = accepted_rows(STREAMS, batches)
    for name, text in texts.items():
        query = bind_query(name, text, names_of(STREAMS))
        tables = {stream: model.rows_for(query) for stream, model in models.items()}
        assert sinks[name].table().num_rows
        check_rows(sinks[name].table(), expected_rows(query, STREAMS, tables), what=text)
