"""Groups of queries on a real Spark: filters, casts and columns of representatives are its SQL."""

from __future__ import annotations

import random
from unittest import mock

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.errors import SinkError
from anabranch.language.flow import bind_query
from anabranch.queries.grouping import groups
from anabranch.queries.grouping.benefit import Benefit
from anabranch.testing.stream_model import scratch
from tests.queries.generated_groups import NASTY, STREAMS, A, B, _batch, filtered, joined, rows_of
from tests.spark.spark_sessions import run_to_the_end, write_batches
from tests.support.generated import Case, Phase
from tests.support.oracle_check import check_results

pytestmark = pytest.mark.spark


class Broken(MemorySink):
    """A sink that takes one batch, fails, and works again; the last try of a run may be the next one."""

    fails = 1

    def publish(self, results: ResultBatch) -> None:
        if results.batch and self.fails:
            self.fails -= 1
            raise OSError("the disk of the sink is full")
        super().publish(results)


def names_of(count: int) -> list[str]:
    """Names of queries, some of which look like something else."""
    return [*NASTY[:count], *(f"q{i}" for i in range(count - len(NASTY)))]


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_generated_queries_of_one_session_have_what_the_oracle_gives(spark: SparkSession, count: int) -> None:
    """Whatever they are called and compare with; each tenth has a sink of its own, the others share one."""
    rng = random.Random(count)
    own = {name: rng.choice((joined, filtered))(rng) for name in names_of(count)[::10]}
    texts = {
        name: own.get(name) or joined(rng, ["{a}.id AS x", "{b}.id AS y", "{a}.s AS s"])
        for name in names_of(count)
    }
    together = MemorySink()
    sinks = {name: MemorySink() if name in own else together for name in texts}
    batches = tuple(_batch(rng, i) for i in range(3))
    with scratch() as root:
        write_batches(root, (A, B), batches, first=0)
        run_to_the_end(spark, root, (A, B), texts, sinks, sites=3, slots=2, sharing="auto")
    rows = together.table()
    found = {
        name: sinks[name].table()
        if name in own
        else rows.filter(pc.equal(rows.column("query"), name)).drop_columns(["query"])
        for name in rng.sample(list(texts), 100)
    }
    queries = tuple(bind_query(name, texts[name], STREAMS) for name in found)
    check_results(Case((A, B), (Phase(queries, None, batches),)), found)  # type: ignore[arg-type]
    assert sum(table.num_rows for table in found.values()) > len(found)


def test_bad_queries_end_or_wait_alone_on_spark(spark: SparkSession) -> None:
    """One has a sink that fails for a while, one too many results; a third does not hear of it."""
    rng = random.Random(6)
    narrow = "SELECT a.id AS x FROM a, b [NOW] WHERE a.k = b.k AND a.v > 1".replace("a,", "a [NOW],")
    wide = "SELECT a.id AS x FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
    texts = {"broken": narrow, "wide": wide, "good": narrow}
    sinks = {"broken": Broken(), "wide": MemorySink(), "good": MemorySink()}
    batches = tuple({name: rows_of(rng, name, i, 60) for name in STREAMS} for i in range(3))
    with scratch() as root:
        write_batches(root, (A, B), batches, first=0)
        run = run_to_the_end(spark, root, (A, B), texts, sinks, sites=2, slots=2, quota_pairs=500)
    failed = {event.data["query"] for event in run.events if event.kind == "query_failed"}
    assert failed == {"wide"}
    told = [str(event) for event in run.events if event.kind.startswith("sink")]
    assert len(told) == 2, told
    assert "'broken': its sink failed and waits alone: the disk of the sink is full" in told[0]
    assert "works again" in told[1]
    for name in ("broken", "good"):
        query = bind_query(name, narrow, STREAMS)
        case = Case((A, B), (Phase((query,), None, batches),))  # type: ignore[arg-type]
        check_results(case, {name: sinks[name].table()})
        assert sinks[name].table().num_rows


def test_a_run_whose_sink_does_not_recover_fails_and_the_next_one_delivers(spark: SparkSession) -> None:
    rng = random.Random(7)
    text = "SELECT a.id AS x FROM a WHERE a.k > 0"
    batches = tuple({name: rows_of(rng, name, i, 20) for name in STREAMS} for i in range(2))
    broken, good = Broken(), MemorySink()
    broken.fails = 1_000_000
    sinks = {"broken": broken, "good": good}
    with scratch() as root:
        write_batches(root, (A, B), batches, first=0)
        with pytest.raises(SinkError, match=r"'broken': .* not taken by its sink: the disk .* is full"):
            run_to_the_end(spark, root, (A, B), dict.fromkeys(sinks, text), sinks, sites=1, slots=1)
        broken.fails = 0
        run_to_the_end(spark, root, (A, B), dict.fromkeys(sinks, text), sinks, sites=1, slots=1)
    for name, sink in sinks.items():
        case = Case((A, B), (Phase((bind_query(name, text, STREAMS),), None, batches),))  # type: ignore[arg-type]
        check_results(case, {name: sink.table()})


def test_members_get_what_the_oracle_gives_on_spark(spark: SparkSession) -> None:
    rng = random.Random(5)
    texts = {f"q{i}": rng.choice((joined, joined, filtered))(rng) for i in range(20)}
    texts["odd"] = "SELECT a.id FROM a WHERE a.k % 2 = 1 AND a.v > 0"
    texts["odd too"] = "SELECT a.s FROM a WHERE a.k % 2 = 1 AND a.v > 1"
    queries = tuple(bind_query(name, text, STREAMS) for name, text in texts.items())
    sinks = {name: MemorySink() for name in texts}
    batches = tuple(_batch(rng, i) for i in range(3))
    with scratch() as root, mock.patch.object(groups, "benefit", return_value=Benefit(1.0, 0.0)):
        write_batches(root, (A, B), batches, first=0)
        run_to_the_end(spark, root, (A, B), texts, sinks, sites=3, slots=2, sharing="always")
        assert len(groups.group_queries(queries, (A, B))) < len(queries) / 2
    case = Case((A, B), (Phase(queries, None, batches),))  # type: ignore[arg-type]
    check_results(case, {name: sink.table() for name, sink in sinks.items()})
