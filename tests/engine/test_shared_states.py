"""Queries with the same fragment have one state and evaluate it once, whatever their plans become."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import numpy as np
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.local_ingest import mix_longs
from anabranch.engine.settings import Settings
from anabranch.errors import ConfigError
from anabranch.language.flow import bind_query
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.testing.stream_model import scratch
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS, random_batches
from tests.support.restarted_session import check_restarted
from tests.support.restless import RestlessDecider

KEYS = range(4)
AB = "a [RANGE 2 SECONDS], b [RANGE 1 SECONDS]"
TEXTS = {
    "abc": (
        f"SELECT a.id AS a, b.id AS b, c.id AS c FROM {AB}, c [RANGE 3 SECONDS] WHERE a.k = b.k AND b.k = c.k"
    ),
    "abd": (
        f"SELECT b.x AS x, d.id AS d FROM {AB}, d [RANGE 1 SECONDS] "
        "WHERE a.k = b.k AND a.k = d.k AND a.x < d.x"
    ),
    "renamed": (
        "SELECT q.id AS q, r.id AS r, p.x AS x FROM b [RANGE 1 SECONDS] AS q, a [RANGE 2 SECONDS] AS p, "
        "e [RANGE 2 SECONDS] AS r WHERE p.k = q.k AND q.k = r.k"
    ),
    "four": (
        f"SELECT a.id AS a, c.x AS c, d.x AS d, b.x + d.x AS s FROM {AB}, c [RANGE 3 SECONDS], "
        "d [RANGE 1 SECONDS] WHERE a.k = b.k AND b.k = c.k AND c.k = d.k AND a.x < d.x"
    ),
    "counted": (
        f"SELECT c.id AS id, COUNT(*) AS n FROM {AB}, c [RANGE 3 SECONDS] "
        "WHERE a.k = b.k AND b.k = c.k GROUP BY c.id"
    ),
    "filtered": (
        f"SELECT a.id AS a, c.id AS c FROM {AB}, c [RANGE 3 SECONDS] "
        "WHERE a.k = b.k AND b.k = c.k AND a.x > 1"
    ),
}
ALONE = {"ab": f"SELECT a.id AS a, b.id AS b FROM {AB} WHERE a.k = b.k"}


def bound(texts: Mapping[str, str]) -> list:
    return [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]


def check_session(seed: int) -> int:
    """Change plans, sites, memory and hot keys at random and compare with the oracle; returns the results."""
    draw = random.Random(seed)
    queries = bound(dict(draw.sample(sorted(TEXTS.items()), draw.choice((2, 3, 6)))))
    batches = random_batches(draw, 6, most=10)
    settings = Settings(
        sites=draw.choice((1, 2, 7)), slots=draw.choice((1, 2, 3)), max_blocks=draw.choice((0, 1, 8))
    )
    hot = mix_longs(np.array(KEYS)).tolist() if draw.random() < 0.3 else ()
    decider = RestlessDecider(seed, waits=draw.random() < 0.5, keys=hot)
    return check_restarted(STREAMS, queries, batches, settings=settings, decider=decider, seed=seed)


@pytest.mark.parametrize("first", range(0, 6, 3))
def test_queries_that_share_states_change_plans_and_sites_without_changing_a_result(first: int) -> None:
    assert sum(check_session(seed) for seed in range(first, first + 3)) > 50


@pytest.mark.slow
def test_many_sessions_that_share_states() -> None:
    first = int(os.environ.get("ANABRANCH_FIRST_SEED", "100"))
    seeds = int(os.environ.get("ANABRANCH_SEEDS", "300"))
    assert sum(check_session(seed) for seed in range(first, first + seeds)) > 100


def joined_states(run: LocalRun) -> dict[StateId, int]:
    """Rows by state of joins."""
    manifest = run.loop.manifest
    assert manifest is not None
    found: dict[StateId, int] = {}
    for block in manifest.blocks:
        if block.state.kind is StateKind.JOIN:
            found[block.state] = found.get(block.state, 0) + block.rows
    return found


def pairs_of(names: tuple[str, ...]) -> tuple[int, dict[StateId, int]]:
    """Pairs that a session of some queries examines, and what it keeps of joins."""
    batches = random_batches(random.Random(5), 4, most=30)
    with scratch() as root:
        texts = {name: (TEXTS | ALONE)[name] for name in names}
        run = LocalRun(root, STREAMS, bound(texts), settings=Settings(sites=2, slots=1))
        reports = [report for batch in batches for report in run.batch(batch).reports]
        states = joined_states(run)
        run.close()
    return sum(site.pairs for report in reports for site in report.sites), states


def test_two_queries_with_the_same_fragment_have_one_state_and_evaluate_it_once() -> None:
    first, kept_first = pairs_of(("abc",))
    second, kept_second = pairs_of(("renamed",))
    both, kept = pairs_of(("abc", "renamed"))
    (state,) = kept
    assert kept_first == kept_second == kept == {state: kept[state]}
    assert len(pairs_of(("abc", "filtered"))[1]) == 2, "another filter is another fragment"
    fragment, _ = pairs_of(("ab",))
    assert first + second - both == fragment > 0


def test_a_query_that_shares_states_takes_no_parallel_track() -> None:
    with scratch() as root:
        run = LocalRun(
            root, STREAMS, bound({n: TEXTS[n] for n in ("abc", "abd")}), settings=Settings(sites=2)
        )
        with pytest.raises(ConfigError, match="in common with other queries"):
            run.loop.migrate("abc", "((b c) a)", strategy="parallel_track")
        run.close()
