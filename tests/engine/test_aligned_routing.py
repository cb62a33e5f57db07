"""Joins that no key spreads run by segments of time, with the same results however time is cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS, random_batches, random_theta_join
from tests.support.restarted_session import check_restarted
from tests.support.restless import RestlessDecider
from tests.support.restless_routing import RestlessRouting

GROUPED = (
    "SELECT a.k AS k, COUNT(*) AS n FROM a [RANGE 2 SECONDS], b [RANGE 1 SECONDS] "
    "WHERE abs(a.x - b.x) <= 1 GROUP BY a.k"
)
SELF = (
    "SELECT l.id AS l, r.id AS r FROM a [RANGE 2 SECONDS] AS l, a [RANGE 1 SECONDS] AS r "
    "WHERE abs(l.x - r.x) <= 1 AND l.id < r.id"
)


def check_session(
    seed: int, *, restless_too: bool, routers: Sequence[str] = ("aligned", "coordinated", "auto")
) -> int:
    """Run joins by random segments and masters and compare with the oracle; returns the results."""
    draw = random.Random(seed)
    texts = {f"q{i}": random_theta_join(draw, draw.choice((2, 2, 3, 3, 4))) for i in range(2)}
    texts |= {"grouped": GROUPED, "self": SELF}
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    batches = random_batches(draw, 6)
    settings = Settings(
        sites=draw.choice((1, 2, 7)),
        slots=draw.choice((1, 2, 3)),
        max_blocks=draw.choice((0, 1, 8)),
        isolation=draw.choice(("shared", "per_site")),
    )
    decider = RestlessRouting(seed, RestlessDecider(seed) if restless_too else None, routers)
    return check_restarted(STREAMS, queries, batches, settings=settings, decider=decider, seed=seed)


@pytest.mark.parametrize("first", range(0, 8, 4))
def test_any_segments_and_masters_give_what_the_oracle_gives(first: int) -> None:
    assert sum(check_session(seed, restless_too=False) for seed in range(first, first + 4)) > 100


@pytest.mark.parametrize("first", range(100, 104, 4))
def test_moves_waits_and_rescales_change_nothing_under_aligned_routing(first: int) -> None:
    assert sum(check_session(seed, restless_too=True) for seed in range(first, first + 4)) > 100


def test_rows_on_paths_meet_those_of_spilled_partitions() -> None:
    found = [check_session(seed, restless_too=True, routers=["coordinated"]) for seed in range(200, 203)]
    assert sum(found) > 100


@pytest.mark.slow
def test_thousands_of_sessions_under_aligned_routing_give_what_the_oracle_gives() -> None:
    for seed in range(1_000, 4_000):
        check_session(seed, restless_too=bool(seed % 2))
