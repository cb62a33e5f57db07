"""A member that cannot go on ends alone (`split_writer`): the others get what the oracle gives."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.engine.sinks.sink import ResultBatch
from anabranch.engine.step.query_costs import cpu_by_query
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Query
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.queries.generated_groups import STREAMS, A, B, rows_of
from tests.support.oracle_check import check_rows

WIDE = "SELECT a.id AS x, b.id AS y FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
NARROW = f"{WIDE} AND a.v > 0 AND b.w = 1"
HUGE = 1 << 62


def batches(*, large: bool = False) -> list[dict[str, pa.Table]]:
    rng = random.Random(3)
    found = [{name: rows_of(rng, name, number, 30) for name in STREAMS} for number in range(3)]
    if large:  # in the second batch, ids whose sum has no value
        for name in STREAMS:
            rows = found[1][name]
            ids = pa.array([HUGE] * rows.num_rows, pa.int64())
            found[1][name] = rows.set_column(0, "id", ids)
    return found


def bound(name: str, text: str) -> Query:
    """A query whose sums have no value where they overflow: the binder's own would be NULL."""
    query = bind_query(name, text, STREAMS)
    outputs = tuple(replace(o, sql=o.sql.replace("TRY(", "(")) for o in query.outputs)
    residuals = tuple(replace(r, sql=r.sql.replace("TRY(", "(")) for r in query.residuals)
    return replace(query, outputs=outputs, residuals=residuals)


def run(texts: dict[str, str], rows: list[dict[str, pa.Table]], *, quota: int, alone: bool) -> LocalRun:
    queries = [bound(name, text) for name, text in texts.items()]
    sinks = {name: MemorySink() for name in texts} if alone else dict.fromkeys(texts, MemorySink())
    with scratch() as root:
        settings = Settings(sites=1, slots=1, quota_pairs=quota, sharing="open")
        session = LocalRun(root, (A, B), queries, settings=settings, sinks=sinks)
        for batch in rows:
            session.batch(batch)
        session.close()
    return session


def check(session: LocalRun, name: str, text: str, rows: list[dict[str, pa.Table]]) -> None:
    found = session.results(name)
    if "query" in found.schema.names:
        found = found.filter(pc.equal(found.column("query"), name)).drop_columns(["query"])
    query = bind_query(name, text, STREAMS)
    tables = {s: model.rows_for(query) for s, model in accepted_rows((A, B), rows).items()}
    check_rows(found, expected_rows(query, (A, B), tables), what=name)


@pytest.mark.parametrize("alone", [True, False], ids=["own sinks", "one sink"])
def test_a_member_with_too_many_results_ends_alone(alone: bool) -> None:
    texts, rows = {"wide": WIDE, "narrow": NARROW}, batches()
    most = run(texts, rows, quota=1 << 40, alone=True).results("wide").num_rows
    session = run(texts, rows, quota=most // 2, alone=alone)
    assert set(session.loop.failures) == {"wide"}
    assert "'wide' had more than" in session.loop.failures["wide"]
    check(session, "narrow", NARROW, rows)


@pytest.mark.parametrize("alone", [True, False], ids=["own sinks", "one sink"])
@pytest.mark.parametrize("where", ["select", "predicate"])
def test_a_member_whose_expression_has_no_value_ends_alone(where: str, alone: bool) -> None:
    summed = WIDE.replace("a.id AS x", "a.id + b.id AS x")
    bad = summed if where == "select" else f"{WIDE} AND a.id + b.id > 5"
    texts, rows = {"bad": bad, "narrow": NARROW, "wide": WIDE}, batches(large=True)
    session = run(texts, rows, quota=1 << 40, alone=alone)
    assert set(session.loop.failures) == {"bad"}
    assert "no value for some row" in session.loop.failures["bad"]
    for name in ("narrow", "wide"):
        check(session, name, texts[name], rows)


def test_a_query_in_no_group_whose_expression_has_no_value_ends_alone() -> None:
    bad = "SELECT a.id + b.id AS x FROM a [NOW], b [NOW] WHERE a.k = b.k"
    queries = [bound("bad", bad), bound("wide", WIDE)]
    rows = batches(large=True)
    with scratch() as root:
        session = LocalRun(root, (A, B), queries, settings=Settings(sites=2, slots=2))
        for batch in rows:
            session.batch(batch)
        session.close()
    assert set(session.loop.failures) == {"bad"}
    check(session, "wide", WIDE, rows)


class Broken(MemorySink):
    """A sink that takes one batch."""

    def publish(self, results: ResultBatch) -> None:
        if results.batch:
            raise OSError("the disk of the sink is full")
        super().publish(results)


@pytest.mark.parametrize("sharing", ["off", "open"])
def test_a_sink_that_fails_ends_its_queries_alone(sharing: str) -> None:
    rows, texts = batches(), {"broken": WIDE, "broken too": NARROW, "wide": WIDE}
    queries = [bound(name, text) for name, text in texts.items()]
    broken = Broken()
    sinks = {"broken": broken, "broken too": broken, "wide": MemorySink()}
    with scratch() as root:
        settings = Settings(sites=2, slots=2, sharing=sharing, sink_failures="end")
        session = LocalRun(root, (A, B), queries, settings=settings, sinks=sinks)
        for batch in rows:
            session.batch(batch)
        kept = pa.concat_tables(pq.read_table(file) for file in (root / "undelivered").glob("*.parquet"))
        session.close()
    assert set(session.loop.failures) == {"broken", "broken too"}
    assert "the disk of the sink is full" in session.loop.failures["broken"]
    check(session, "wide", WIDE, rows)
    assert set(kept.column("query").to_pylist()) == {"broken", "broken too"}


@pytest.mark.parametrize("sharing", ["off", "open"])
def test_a_query_that_takes_too_much_time_ends_alone(sharing: str) -> None:
    rows = [
        {
            name: pa.concat_tables([rows_of(random.Random(n), name, number, 300) for n in range(8)])
            for name in STREAMS
        }
        for number in range(3)
    ]
    narrow = f"{NARROW} AND a.id = 0 AND b.id = 0"
    texts = {"wide": WIDE, "narrow": narrow, "few": "SELECT a.id AS x FROM a WHERE a.k = 1 AND a.v > 1"}
    with scratch() as root:
        settings = Settings(sites=1, slots=1, sharing=sharing)
        session = LocalRun(root, (A, B), [bound(n, t) for n, t in texts.items()], settings=settings)
        session.batch(rows[0])  # whatever is compiled is nobody's fault
        took = cpu_by_query(session.batch(rows[1]).reports)
        assert took["wide"] > 4 * took["narrow"], "or this says nothing"
        session.loop.change(quota_cpu_ms=int(500 * took["wide"]))
        session.batch(rows[2])
        session.close()
    assert set(session.loop.failures) == {"wide"}
    assert "of CPU time in one batch" in session.loop.failures["wide"]
    for name in ("narrow", "few"):
        check(session, name, texts[name], rows)
