"""Joins along paths give what the oracle gives; routers change while a query runs, there and back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from anabranch.adapt.routing import router_costs
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task import coordinated_run
from anabranch.engine.task.blocks import block_writer
from anabranch.engine.task.coordinated_run import travelling_state, whose
from anabranch.language.flow import bind_query
from anabranch.operators.work_memory import QuotaExceeded
from anabranch.plan.logical import Query
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.state.block import BlockMeta
from anabranch.state.garbage import collect_garbage
from anabranch.state.paths import BLOCKS
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import names_of
from tests.engine.test_aligned_routing import GROUPED, SELF
from tests.engine.theta_joins import STREAMS, random_batches, random_theta_join
from tests.support.oracle_check import check_rows
from tests.support.small_budgets import budgets_in_bytes

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


@pytest.fixture
def travelled() -> Iterator[list[BlockMeta]]:
    """Files in which rows went on along their paths."""
    found: list[BlockMeta] = []
    real = block_writer.BlockWriter.write

    def write(self: block_writer.BlockWriter, state: StateId, *given: Any) -> BlockMeta:
        block = real(self, state, *given)
        found.extend([block] if state.kind is StateKind.TRAVELLING else [])
        return block

    with mock.patch.object(block_writer.BlockWriter, "write", write):
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


@pytest.mark.parametrize(("sites", "slots", "references"), [(7, 2, 3), (4, 1, 4), (5, 3, 5)])
@pytest.mark.parametrize("budget", [90, 20_000])
def test_rows_that_travel_in_files_give_what_the_oracle_gives(
    travelled: list[BlockMeta], budget: int, sites: int, slots: int, references: int
) -> None:
    """A sixteenth of the budget is held: few bytes, so that all rows travel in files, or some of them."""
    texts = {"q": random_theta_join(random.Random(sites), references), "chain": CHAIN}
    settings = Settings(sites=sites, slots=slots, routing="coordinated", work_memory_mb=budget)
    with budgets_in_bytes():
        check(texts, [settings], sites)
    assert travelled
    assert len({block.name for block in travelled}) == len(travelled)


def test_files_that_rows_travelled_in_are_garbage_once_their_step_has_ended(
    travelled: list[BlockMeta],
) -> None:
    settings = Settings(sites=5, slots=2, routing="coordinated", work_memory_mb=90)
    query = bind_query("chain", CHAIN, names_of(STREAMS))
    with scratch() as root, budgets_in_bytes():
        run = LocalRun(root, STREAMS, [query], settings=settings)
        for batch in random_batches(random.Random(1), 5):
            run.batch(batch)
        named = {block.name for block in run.loop.manifest.blocks} if run.loop.manifest else set()
        assert len(travelled) > len(named.intersection(block.name for block in travelled)) == 0
        run.end_of_input()
        collect_garbage(run.storage)
        left = {name.removeprefix(f"{BLOCKS}/") for name in run.storage.list(BLOCKS)}
        assert left.isdisjoint(block.name for block in travelled)
        run.close()


def test_a_query_that_ends_takes_back_what_it_has_sent(travelled: list[BlockMeta]) -> None:
    settings = Settings(sites=3, slots=2, routing="coordinated", work_memory_mb=90)
    queries = [bind_query(name, CHAIN, names_of(STREAMS)) for name in ("q", "other")]
    real = coordinated_run.CoordinatedRun.run

    def run_too_far(self: coordinated_run.CoordinatedRun, writer: coordinated_run.Writer) -> None:
        real(self, writer)
        if any(whose(state)[0] == "q" for state in self._outbox.states()):
            raise QuotaExceeded("too far")

    with scratch() as root, budgets_in_bytes():
        run = LocalRun(root, STREAMS, queries, settings=settings)
        with mock.patch.object(coordinated_run.CoordinatedRun, "run", run_too_far):
            for batch in random_batches(random.Random(2), 5, most=40):
                run.batch(batch)
        assert run.loop.failures.keys() == {"q"}
        sent = [block.name for block in travelled if whose(block.state)[0] == "q"]
        assert sent
        assert not {f"{BLOCKS}/{name}" for name in sent}.intersection(run.storage.list(BLOCKS))
        run.close()


def test_rows_on_their_way_have_names_of_their_own() -> None:
    assert whose(travelling_state("q [1]", ("a", "b"))) == ("q [1]", ("a", "b"))
