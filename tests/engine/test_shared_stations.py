"""Queries with the same fragment and the same ways at stations keep its rows once, and find them once."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Query
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.testing.stream_model import scratch
from tests.engine.stations import STREAMS, any_way, names_of, random_batches
from tests.support.restarted_session import check_restarted
from tests.support.restless import RestlessDecider
from tests.support.small_budgets import budgets_in_bytes

FROM = "FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 1 SECONDS]"
CHAIN = "a.u = b.u AND b.v = c.v"
TEXTS = {
    "chain": f"SELECT a.id AS a, b.id AS b, c.id AS c {FROM} WHERE {CHAIN}",
    "later": f"SELECT a.w AS a, c.w AS c {FROM} WHERE {CHAIN} AND a.id < c.id",
    "counts": f"SELECT c.id AS c, COUNT(*) AS n {FROM} WHERE {CHAIN} GROUP BY c.id",
    "renamed": (
        "SELECT p.id AS p, q.w AS q FROM a [RANGE 2 SECONDS] AS p, b [RANGE 4 SECONDS] AS q, "
        "c [RANGE 1 SECONDS] AS r WHERE p.u = q.u AND q.v = r.v"
    ),
    "four": f"SELECT a.id AS a, d.id AS d {FROM}, d [RANGE 2 SECONDS] WHERE {CHAIN} AND c.w = d.w",
    "star": f"SELECT a.id AS a, d.id AS d {FROM}, d [RANGE 2 SECONDS] WHERE {CHAIN} AND c.v = d.v",
    "earlier": f"SELECT a.id AS a {FROM} WHERE {CHAIN} AND a.id < b.id",
}


def bound(names: list[str]) -> list[Query]:
    return [bind_query(name, TEXTS[name], names_of(STREAMS)) for name in names]


def check_session(seed: int) -> int:
    """Run queries that share stations with random ways and compare with the oracle; returns the results."""
    draw = random.Random(f"{seed} shared stations")
    queries = bound(draw.sample(sorted(TEXTS), draw.choice((2, 3, 5))))
    batches = random_batches(draw, 5)
    is_small = draw.random() < 0.3
    settings = Settings(
        sites=draw.choice((1, 2, 7)),
        slots=draw.choice((1, 2, 3)),
        ordering="eddy",
        max_blocks=draw.choice((0, 1, 8)),
        memory_budget_mb=3_000 if is_small else 0,
        quota_pairs=draw.choice((60, 300, 200_000_000)),
    )
    with ExitStack() as around:
        around.enter_context(any_way(seed))
        if is_small:
            around.enter_context(budgets_in_bytes())
        decider = RestlessDecider(seed) if draw.random() < 0.5 else None
        return check_restarted(
            STREAMS, queries, batches, settings=settings, decider=decider, seed=seed, may_end=True
        )


def test_queries_that_share_stations_give_what_the_oracle_gives_also_when_one_of_them_is_ended() -> None:
    assert sum(map(check_session, range(3))) > 100


@pytest.mark.slow
def test_many_sessions_that_share_stations() -> None:
    first = int(os.environ.get("ANABRANCH_FIRST_SEED", "100"))
    seeds = int(os.environ.get("ANABRANCH_SEEDS", "300"))
    assert sum(check_session(seed) for seed in range(first, first + seeds)) > 100


def seen(*names: str) -> tuple[int, int, dict[StateId, int]]:
    """Pairs that a session examines, results of the first query, and joined rows that stations keep."""
    batches = random_batches(random.Random(5), 4, most=30)
    with scratch() as root:
        settings = Settings(sites=2, slots=2, ordering="eddy")
        run = LocalRun(root, STREAMS, bound(list(names)), settings=settings)
        sites = [site for batch in batches for r in run.batch(batch).reports for site in r.sites]
        assert run.loop.manifest is not None
        kept: dict[StateId, int] = {}
        for block in run.loop.manifest.blocks:
            if block.state.kind is StateKind.STATION:
                kept[block.state] = kept.get(block.state, 0) + block.rows
        results = run.results(names[0]).num_rows
        run.close()
    return sum(site.pairs for site in sites), results, kept


@pytest.mark.parametrize("other", ["later", "counts", "renamed"])
def test_two_queries_with_the_same_ways_find_their_rows_once(other: str) -> None:
    first, results, kept = seen("chain")
    second, _, _ = seen(other)
    both, _, kept_by_both = seen("chain", other)
    assert kept_by_both == kept
    # Every pair that completes the chain is a result of it; all others are rows that both queries need.
    assert both == second + results < first + second


def test_a_predicate_inside_a_fragment_makes_it_another() -> None:
    assert len(seen("chain", "earlier")[2]) > len(seen("chain")[2])
