"""Joins without a common key run at stations over all sites, with the same results whatever way rows take."""

from __future__ import annotations

import random
from contextlib import ExitStack
from unittest import mock

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.nodes import StationsNode
from anabranch.plan.states.state_id import StateId
from anabranch.queries.catalog import explain_query
from anabranch.queries.reconcile import reconcile
from anabranch.state import compaction
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import EIGHT, STREAMS, any_way, names_of, random_batches, random_tree
from tests.support.oracle_check import check_rows
from tests.support.restless import RestlessDecider
from tests.support.small_budgets import budgets_in_bytes

CHAIN = (
    "SELECT a.id AS a, b.id AS b, c.id AS c "
    "FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 1 SECONDS] "
    "WHERE a.u = b.u AND b.v = c.v"
)


def check_session(seed: int, *, restless_too: bool, small: bool = False) -> int:
    """Run trees of references with random ways and compare with the oracle; returns the results.

    Parameters
    ----------
    small
        Whether memory is so short that partitions take turns, and rows travel as blocks.
    """
    draw = random.Random(seed)
    texts = {f"q{i}": random_tree(draw, draw.choice((3, 3, 4, 5))) for i in range(2)}
    texts["grouped"] = (
        CHAIN.replace("SELECT a.id AS a, b.id AS b, c.id AS c", "SELECT a.id AS a, COUNT(*) AS n")
        + " GROUP BY a.id"
    )
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    batches = random_batches(draw, 5)
    settings = Settings(
        sites=draw.choice((1, 2, 7)),
        slots=draw.choice((1, 2, 3)),
        ordering="eddy",
        max_blocks=draw.choice((0, 1, 8)),
        isolation=draw.choice(("shared", "per_site")),
        memory_budget_mb=draw.choice((600, 3_000)) if small else 0,
        work_memory_mb=draw.choice((20_000, 1_000_000)) if small else "auto",
    )
    with ExitStack() as around:
        root = around.enter_context(scratch())
        around.enter_context(any_way(seed))
        around.enter_context(mock.patch.object(compaction, "FAN_IN", 2))
        if small:
            around.enter_context(budgets_in_bytes())
        decider = RestlessDecider(seed) if restless_too else None
        run = LocalRun(root, STREAMS, queries, settings=settings, decider=decider)
        sinks = run.sinks
        for number, batch in enumerate(batches):
            if number == 3:
                run.close()
                run = LocalRun(root, STREAMS, queries, sinks=sinks, settings=settings, decider=decider)
            run.batch(batch)
            if number % 2:
                run.drain()  # further steps of the batch, with rows that have waited
        run.end_of_input()
        results = {query.name: run.results(query.name) for query in queries}
        run.close()
        failed = run.loop.failures
    models = accepted_rows(STREAMS, batches)
    for query in queries:
        if query.name in failed:  # it would have kept more than it may
            assert small
            continue
        tables = {name: model.rows_for(query) for name, model in models.items()}
        check_rows(
            results[query.name], expected_rows(query, STREAMS, tables), what=f"seed {seed}: {query.text}"
        )
    return sum(table.num_rows for table in results.values())


@pytest.mark.parametrize("first", range(0, 30, 5))
def test_trees_of_references_give_what_the_oracle_gives_whatever_way_rows_take(first: int) -> None:
    assert sum(check_session(seed, restless_too=False) for seed in range(first, first + 5)) > 100


@pytest.mark.parametrize("first", range(100, 120, 5))
def test_moves_waits_and_rescales_change_nothing_at_stations(first: int) -> None:
    assert sum(check_session(seed, restless_too=True) for seed in range(first, first + 5)) > 100


def test_trees_of_six_to_eight_streams_give_what_the_oracle_gives() -> None:
    assert sum(map(check_large_tree, (6, 7, 8))) > 100


def check_large_tree(references: int) -> int:
    draw = random.Random(references)
    query = bind_query("q", random_tree(draw, references), names_of(EIGHT))
    batches = random_batches(draw, 4, most=18, streams=EIGHT, keys=5)
    with scratch() as root, any_way(references):
        run = LocalRun(root, EIGHT, [query], settings=Settings(sites=4, slots=2, ordering="eddy"))
        for batch in batches:
            run.batch(batch)
        found = run.results("q")
        run.close()
    models = accepted_rows(EIGHT, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    check_rows(found, expected_rows(query, EIGHT, tables), what=query.text)
    return found.num_rows


def test_short_memory_changes_nothing_at_stations() -> None:
    """Rows that travel go out as blocks, or wait until it is the turn of their partition."""
    assert sum(check_session(seed, restless_too=seed == 201, small=True) for seed in (200, 201, 204)) > 100


def test_joined_rows_wait_for_spilled_partitions_and_enter_when_it_is_their_turn() -> None:
    query = bind_query("chain", CHAIN, names_of(STREAMS))
    batches = random_batches(random.Random(6), 4, most=40)
    settings = Settings(sites=2, slots=2, memory_budget_mb=6_000, rebalance="off")
    waited: set[StateId] = set()
    with scratch() as root, budgets_in_bytes():
        run = LocalRun(root, STREAMS, [query], settings=settings)
        for batch in batches:
            waited |= {b.state for b in run.batch(batch).manifest.blocks if b.state.is_waiting}
        run.drain()
        found = run.results("chain")
        run.close()
    assert any("." in state.label for state in waited), "none of them is a joined row"
    models = accepted_rows(STREAMS, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    assert found.num_rows > 100
    check_rows(found, expected_rows(query, STREAMS, tables), what=CHAIN)


@pytest.mark.slow
def test_thousands_of_trees_give_what_the_oracle_gives() -> None:
    for seed in range(1_000, 4_000):
        check_session(seed, restless_too=bool(seed % 2), small=seed % 3 == 0)


def test_a_chain_has_a_station_for_each_edge_on_all_sites() -> None:
    query = bind_query("chain", CHAIN, names_of(STREAMS))
    catalog = reconcile(STREAMS, [query], None)
    (plan,) = catalog.plans
    assert isinstance(plan.root, StationsNode)
    assert [str(s.edge) for s in plan.root.stations] == ["a–b", "b–c"]
    text = explain_query(catalog, "chain", sites=8)
    assert "stations, each by its own key over 8 sites" in text
    assert "station 1: b–c on key 1; rows of b, a b, c" in text


def test_rows_of_a_chain_are_worked_on_at_all_sites() -> None:
    query = bind_query("chain", CHAIN, names_of(STREAMS))
    with scratch() as root:
        run = LocalRun(root, STREAMS, [query], settings=Settings(sites=4, slots=2))
        worked = set()
        for batch in random_batches(random.Random(5), 4, most=60):
            worked |= {
                site.site for report in run.batch(batch).reports for site in report.sites if site.pairs
            }
        run.close()
    assert worked == {0, 1, 2, 3}


@pytest.mark.parametrize("routing", ["aligned", "coordinated"])
def test_a_chain_with_an_edge_that_is_no_equality_is_worked_on_at_all_sites(routing: str) -> None:
    """Equalities do not connect its references, so that it has no stations: its rows go by their times."""
    text = CHAIN.replace("b.v = c.v", "b.v < c.v")
    query = bind_query("theta", text, names_of(STREAMS))
    assert not isinstance(reconcile(STREAMS, [query], None).plans[0].root, StationsNode)
    batches = random_batches(random.Random(7), 6, most=30)
    worked = set()
    with scratch() as root:
        run = LocalRun(root, STREAMS, [query], settings=Settings(sites=4, slots=2, routing=routing))
        for batch in batches:
            worked |= {s.site for report in run.batch(batch).reports for s in report.sites if s.pairs}
        run.drain()
        found = run.results("theta")
        run.close()
    assert worked == {0, 1, 2, 3}
    models = accepted_rows(STREAMS, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    assert found.num_rows > 1_000
    check_rows(found, expected_rows(query, STREAMS, tables), what=text)


def test_references_that_share_a_state_keep_its_rows_as_long_as_the_longest_window() -> None:
    """A stream twice, by the same key, with windows of 4 and of 1 seconds."""
    text = (
        "SELECT a.id AS a, b.id AS b, c.id AS c "
        "FROM a [RANGE 4 SECONDS], b [RANGE 1 SECONDS], a [RANGE 1 SECONDS] AS c "
        "WHERE a.u = b.u AND b.v = c.u"
    )
    query = bind_query("twice", text, names_of(STREAMS))
    catalog = reconcile(STREAMS, [query], None)
    (plan,) = catalog.plans
    assert len({node.state for node in plan.nodes()}) < len(plan.nodes()), "nothing is shared"
    batches = random_batches(random.Random(8), 8, most=40)
    with scratch() as root:
        run = LocalRun(root, STREAMS, [query], settings=Settings(sites=3, slots=2, max_blocks=0))
        for batch in batches:
            run.batch(batch)
        run.drain()
        found = run.results("twice")
        run.close()
    models = accepted_rows(STREAMS, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    assert found.num_rows > 1_000
    check_rows(found, expected_rows(query, STREAMS, tables), what=text)
