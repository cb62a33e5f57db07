"""Joins change between a tree and stations while they run, at any boundary, and no result changes by it."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

import pyarrow as pa
import pytest

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.events import EventKind
from anabranch.engine.live import orderings
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.inputs import MAX_TIME
from anabranch.plan.logical import Query
from anabranch.plan.nodes import StationsNode
from anabranch.plan.stations.readdressing import to_stations
from anabranch.testing.oracle_compare import DifferentRows
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import STREAMS, any_way, names_of, random_batches, random_tree
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider
from tests.support.small_budgets import budgets_in_bytes

FROM = "FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 3 SECONDS]"
TEXTS = {
    "one_key": f"SELECT a.id AS a, b.id AS b, c.id AS c {FROM} WHERE a.u = b.u AND b.u = c.u",
    "grouped": f"SELECT a.id AS a, COUNT(*) AS n {FROM} WHERE a.u = b.u AND b.v = c.v GROUP BY a.id",
    "counted": f"SELECT a.u AS u, COUNT(*) AS n {FROM} WHERE a.u = b.u AND b.u = c.u GROUP BY a.u",
    "cycle": f"SELECT a.id AS a {FROM} WHERE a.u = b.u AND b.v = c.v AND c.w = a.w AND a.id < c.id",
    "twice": (
        "SELECT a.id AS a, b.id AS b, c.id AS c "
        "FROM a [RANGE 4 SECONDS], b [RANGE 1 SECONDS], a [RANGE 1 SECONDS] AS c "
        "WHERE a.u = b.u AND b.v = c.u"
    ),
}


def check_session(seed: int, *, restless_too: bool) -> int:
    """Change the ordering before every batch and at a restart; returns how often a join changed."""
    draw = random.Random(f"{seed} orderings")
    texts = {name: TEXTS[name] for name in draw.sample(sorted(TEXTS), 2)}
    texts["tree"] = random_tree(draw, draw.choice((3, 4, 5)))
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    batches = random_batches(draw, 8)
    settings = Settings(
        sites=draw.choice((1, 2, 5)),
        slots=draw.choice((1, 2)),
        ordering=draw.choice(("plan", "eddy")),
        max_blocks=draw.choice((1, 8)),
        isolation=draw.choice(("shared", "shared", "per_site")),
    )
    changes = 0
    with ExitStack() as around:
        root = around.enter_context(scratch())
        around.enter_context(any_way(seed))
        decider = RestlessDecider(seed) if restless_too else None
        run = LocalRun(root, STREAMS, queries, settings=settings, decider=decider)
        sinks = run.sinks
        for number, batch in enumerate(batches):
            if number == 4:
                run.close()
                run = LocalRun(root, STREAMS, queries, sinks=sinks, settings=settings, decider=decider)
            run.loop.change(ordering=draw.choice(("plan", "eddy")))
            events = [*run.batch(batch).events]
            if number % 3 == 2:
                events += [event for step in run.drain() for event in step.events]
            changes += sum(e.kind is EventKind.ORDER_CHANGED and "stations" in e.data for e in events)
        run.end_of_input()
        results = {query.name: run.results(query.name) for query in queries}
        assert not run.loop.failures
        run.close()
    models = accepted_rows(STREAMS, batches)
    for query in queries:
        tables = {name: model.rows_for(query) for name, model in models.items()}
        expected = expected_rows(query, STREAMS, tables)
        check_rows(results[query.name], expected, what=f"seed {seed}: {query.text}")
    return changes


def check_all(queries: Sequence[Query], batches: Sequence[Batch], results: Mapping[str, pa.Table]) -> None:
    models = accepted_rows(STREAMS, batches)
    for query in queries:
        tables = {name: model.rows_for(query) for name, model in models.items()}
        check_rows(results[query.name], expected_rows(query, STREAMS, tables), what=query.text)


def check_calm(seed: int) -> int:
    return check_session(seed, restless_too=False)


@pytest.mark.parametrize("first", [0, 4])
def test_a_join_that_changes_at_any_boundary_gives_what_the_oracle_gives(first: int) -> None:
    assert sum(map(check_calm, range(first, first + 4))) > 10


def test_moves_waits_and_rescales_change_nothing_while_joins_change() -> None:
    assert sum(check_session(seed, restless_too=True) for seed in range(100, 104))


def test_a_join_takes_all_its_rows_along_whatever_others_keep_of_them() -> None:
    """Its streams are kept for a query with short windows, too, which goes on with less."""

    class Leaves(AdaptiveDecider):
        def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
            state, decisions = super().decide(state, observed)
            return state, replace(decisions, orderings={"one_key": observed.batch >= 8})

    texts = {
        name: re.sub("[0-9] SECONDS", f"{seconds} SECONDS", TEXTS["one_key"])
        for name, seconds in {"one_key": 12, "short": 1}.items()
    }
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    batches = random_batches(random.Random(3), 12)
    settings = Settings(sites=2, slots=2, ordering="auto", rebalance="off", migration="off")
    with scratch() as root:
        run = LocalRun(root, STREAMS, queries, settings=settings, decider=Leaves())
        shared = {node.state for node in run.loop.catalog.plans[0].nodes()}
        assert shared & {node.state for node in run.loop.catalog.plans[1].nodes()}, "nothing is shared"
        for batch in batches:
            run.batch(batch)
        assert isinstance(run.loop.catalog.plans[0].root, StationsNode)
        results = {query.name: run.results(query.name) for query in queries}
        run.close()
    check_all(queries, batches, results)


def test_a_join_takes_joined_rows_along_that_another_discards_at_the_same_boundary() -> None:
    """In this session a query with the same states changes its plan when the join goes to stations."""
    assert check_session(1252, restless_too=True)


def test_what_the_decider_wants_happens_and_is_told_and_a_restart_goes_on_with_it() -> None:
    """`auto`: the decider alone knows which way is cheaper."""

    class Tired(AdaptiveDecider):
        def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
            state, decisions = super().decide(state, observed)
            return state, replace(decisions, orderings={"grouped": observed.batch != 1})

    query = bind_query("grouped", TEXTS["grouped"], names_of(STREAMS))
    batches = random_batches(random.Random(5), 6, most=30)
    settings = Settings(sites=3, slots=2)
    ways, told = [], []
    with scratch() as root:
        for part in (batches[:2], batches[2:]):
            run = LocalRun(root, STREAMS, [query], settings=settings, decider=Tired())
            for batch in part:
                ways.append(isinstance(run.loop.catalog.plans[0].root, StationsNode))
                events = run.batch(batch).events
                told += [
                    e.message for e in events if e.kind is EventKind.ORDER_CHANGED and "stations" in e.data
                ]
            run.close()
    assert ways == [True, True, False, True, True, True]
    assert told == [
        "query grouped runs as a join tree from the next step on",
        "query grouped runs at stations on all sites, each row in its own order from the next step on",
    ]


@pytest.mark.parametrize("name", ["grouped", "cycle", "twice", "one_key"])
@pytest.mark.parametrize(("before", "after"), [("plan", "eddy"), ("eddy", "plan")])
def test_what_ingest_sends_for_one_layout_is_read_for_the_other(name: str, before: str, after: str) -> None:
    query = bind_query(name, TEXTS[name], names_of(STREAMS))
    batches = random_batches(random.Random(9), 4)
    with scratch() as root:
        run = LocalRun(
            root, STREAMS, [query], settings=Settings(sites=2, slots=2, ordering=before, routing="hash")
        )
        run.loop.change(ordering=after)
        for batch in batches:
            run.batch(batch)
        run.end_of_input()
        assert isinstance(run.loop.catalog.plans[0].root, StationsNode) == (after == "eddy")
        assert run.restarts == 0
        results = {name: run.results(name)}
        run.close()
    check_all([query], batches, results)


def test_queries_that_shared_what_ingest_sends_part_without_a_restart() -> None:
    """Each of them needs other columns of the same rows."""
    texts = {"grouped": TEXTS["grouped"], "chain": TEXTS["grouped"].split(",")[0] + f", c.id AS c {FROM}"}
    texts["chain"] += " WHERE a.u = b.u AND b.v = c.v"
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    batches = random_batches(random.Random(10), 8, most=20)
    with scratch() as root:
        run = LocalRun(root, STREAMS, queries, settings=Settings(sites=2, slots=2, routing="hash"))
        assert run.loop.layout.queries[0].inputs == run.loop.layout.queries[1].inputs
        for number, batch in enumerate(batches):
            run.loop.change(ordering="plan" if number % 2 else "eddy")
            run.batch(batch)
        run.end_of_input()
        assert run.restarts == 0
        results = {query.name: run.results(query.name) for query in queries}
        run.close()
    check_all(queries, batches, results)


def test_a_change_that_has_to_wait_is_told_once_with_the_reason_and_comes_when_it_can() -> None:
    query = bind_query("grouped", TEXTS["grouped"], names_of(STREAMS))
    batches = random_batches(random.Random(6), 8, most=40)
    settings = Settings(sites=2, slots=2, memory_budget_mb=3_000, rebalance="off")
    events = []
    with scratch() as root, budgets_in_bytes():
        run = LocalRun(root, STREAMS, [query], settings=settings)
        for number, batch in enumerate(batches):
            if number == 4:
                run.loop.change(ordering="plan")
            if number == 6:
                run.loop.change(memory_budget_mb=0)
                events += [event for step in run.drain() for event in step.events]
            events += run.batch(batch).events
        run.end_of_input()
        found = run.results("grouped")
        run.close()
    told = [e for e in events if "why" in e.data or e.data.get("way") == "one site"]
    assert [e.kind for e in told] == [EventKind.ORDER_POSTPONED, EventKind.ORDER_CHANGED]
    assert told[0].data["why"] == "rows of it wait for a later step"
    models = accepted_rows(STREAMS, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    check_rows(found, expected_rows(query, STREAMS, tables), what=query.text)


def test_states_that_are_not_taken_over_are_missed() -> None:
    """The check would find a change that forgets what a tree has joined already."""
    forgetful = mock.patch.object(
        orderings, "to_stations", lambda *given: [r for r in to_stations(*given) if r.time != MAX_TIME]
    )
    with forgetful, pytest.raises(DifferentRows):
        list(map(check_calm, range(10)))


@pytest.mark.slow
def test_thousands_of_sessions_change_as_they_like() -> None:
    for seed in range(1_000, 3_000):
        check_session(seed, restless_too=seed % 2 == 0)
