"""Joins along paths give what the oracle gives; routers change while a query runs, there and back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest import mock

import pytest

from anabranch.adapt.routing import router_costs
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task import coordinated_run
from anabranch.engine.task.coordinated_run import travelling_state, whose
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Query
from anabranch.plan.states.state_id import StateId
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import names_of
from tests.engine.test_aligned_routing import GROUPED, SELF
from tests.engine.theta_joins import STREAMS, random_batches, random_theta_join
from tests.support.oracle_check import check_rows

CHAIN = (
    "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], "
    "c [RANGE 1 SECONDS] WHERE abs(a.x - b.x) <= 1 AND b.k = c.k"
)
PAIR = "SELECT a.id AS a, b.id AS b FROM a [RANGE 1 SECONDS], b [RANGE 1 SECONDS] WHERE a.x < b.x"


@pytest.fixture
def runs() -> Iterator[list[bool]]:
    """Of each run along paths, whether its rows had travelled."""
    found: list[bool] = []
    real = coordinated_run.CoordinatedRun.run

    def run(self: coordinated_run.CoordinatedRun, writer: coordinated_run.Writer) -> None:
        found.append(self._came is not None)
        real(self, writer)

    with mock.patch.object(coordinated_run.CoordinatedRun, "run", run):
        yield found


def check(texts: dict[str, str], settings: list[Settings], seed: int, *, batches: int = 6) -> list[str]:
    """Run queries, with other settings from half of the batches on; returns what is told of routers."""
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    tables = random_batches(random.Random(seed), batches)
    told: list[str] = []
    with scratch() as root:
        run = LocalRun(root, STREAMS, queries, settings=settings[0])
        for number, batch in enumerate(tables):
            changed = settings[number * len(settings) // batches]
            run.loop.change(routing=changed.routing, sites=changed.sites)
            summary = run.batch(batch)
            told += [event.data["router"] for event in summary.events if "router" in event.data]
        run.end_of_input()
        _check_results(run, queries, tables, seed)
        run.close()
    return told


def _check_results(run: LocalRun, queries: list[Query], batches: list, seed: int) -> None:  # type: ignore[type-arg]
    models = accepted_rows(STREAMS, batches)
    for query in queries:
        rows = {name: model.rows_for(query) for name, model in models.items()}
        expected = expected_rows(query, STREAMS, rows)
        check_rows(run.results(query.name), expected, what=f"seed {seed}: {query.text}")


@pytest.mark.parametrize(("sites", "slots", "references"), [(7, 2, 3), (4, 1, 4), (6, 3, 2), (5, 2, 6)])
def test_joins_along_paths_give_what_the_oracle_gives(
    runs: list[bool], sites: int, slots: int, references: int
) -> None:
    texts = {"q": random_theta_join(random.Random(sites), references), "grouped": GROUPED, "self": SELF}
    check(texts, [Settings(sites=sites, slots=slots, routing="coordinated", max_blocks=1)], sites)
    assert runs
    assert any(runs) or references == 2


def test_a_user_changes_the_router_there_and_back(runs: list[bool]) -> None:
    ways = ("aligned", "coordinated", "aligned")
    settings = [Settings(sites=4, slots=2, routing=routing) for routing in ways]
    told = check({"chain": CHAIN, "grouped": GROUPED}, settings, 3, batches=24)
    assert told.count("coordinated") == 2
    assert "aligned" in told
    assert any(runs)


def test_the_cheaper_router_is_taken_after_some_batches_and_left_with_the_sites(runs: list[bool]) -> None:
    auto = [Settings(sites=sites, slots=2, routing="auto") for sites in (2, 9, 1)]
    with mock.patch.multiple(router_costs, STEP_ROWS=0, HOP_ROWS=0):
        told = check({"pair": PAIR}, auto, 5, batches=24)
    assert told == ["coordinated", "aligned"]
    assert runs


def test_small_batches_are_not_worth_paths(runs: list[bool]) -> None:
    assert check({"pair": PAIR}, [Settings(sites=9, slots=2, routing="auto")], 5) == []
    assert not runs


def test_rows_on_their_way_have_names_of_their_own() -> None:
    assert whose(travelling_state("q [1]", ("a", "b"))) == ("q [1]", ("a", "b"))
    assert whose(StateId("a-1234")) is None
