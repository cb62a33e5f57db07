from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.adapt.boundary import plan_choice
from anabranch.adapt.boundary.observed import BoundarySettings
from anabranch.adapt.boundary.plan_choice import choose_plans, choose_strategy
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.plans.plan_memory import PlanMemory, PlanPolicyState
from anabranch.adapt.plans.plan_policy import PlanRound, PlanView
from anabranch.adapt.plans.plan_state import PlanState
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.engine.reports import JoinReport, SiteReport
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.queries.reconcile import reconcile
from tests.engine.directed_runs import AB_C, STREAMS
from tests.engine.nasty_runs import bind
from tests.support.observed_steps import observed_step

TEXT = "SELECT a.id FROM a [NOW], b [NOW], c [NOW] WHERE a.k = b.k AND b.k = c.k"


def test_no_plan_is_looked_for_where_a_query_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[set[str]] = []

    def propose(views: Sequence[PlanView], state: Any, **_: Any) -> PlanRound:
        looked_at.append({view.query for view in views})
        return PlanRound(state)

    monkeypatch.setattr(plan_choice, "propose_plans", propose)
    catalog = reconcile(STREAMS, bind(STREAMS, p=TEXT, q=TEXT), None)
    state, joins = PlanState(), Joins.of(catalog.layout, catalog.streams)
    tracks = Tracks({}).for_queries({"p": AB_C, "q": AB_C}, 1)
    told = JoinReport(new_rows=dict.fromkeys("abc", 5), state_rows=dict.fromkeys("abc", 9))
    for batch, running in ((0, "pq"), (2, "q")):
        sites = (SiteReport(0, joins=dict.fromkeys(running, told)),)
        what = observed_step(
            batch, PartitionMap.even(1), tracks=tracks, joins=joins, sites=sites, elapsed_s=1.0
        )
        state, _, _ = choose_plans(state, what)
    assert looked_at == [{"p", "q"}, {"q"}]


@pytest.mark.parametrize(("migration", "looks"), [("auto", 10), ("off", 5)])
def test_a_policy_that_is_off_is_not_in_the_middle_of_anything(
    migration: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = PlanPolicyState({(0, "p"): PlanMemory(wanted="((b c) a)")})
    monkeypatch.setattr(plan_choice, "propose_plans", lambda *_, **__: PlanRound(eager))
    catalog = reconcile(STREAMS, bind(STREAMS, p=TEXT), None)
    state, joins = PlanState(), Joins.of(catalog.layout, catalog.streams)
    tracks = Tracks({}).for_queries({"p": AB_C}, 1)
    told = JoinReport(new_rows=dict.fromkeys("abc", 5), state_rows=dict.fromkeys("abc", 9))
    due = 0
    for batch in range(20):
        due += state.look(batch) is not None
        what = observed_step(
            batch,
            PartitionMap.even(1),
            settings=BoundarySettings(migration=migration),
            tracks=tracks,
            joins=joins,
            sites=(SiteReport(0, joins={"p": told}),),
            elapsed_s=1.0,
        )
        state, _, _ = choose_plans(state, what)
    assert due == looks


@pytest.mark.parametrize("beside", [{}, {"q": TEXT.replace("[NOW]", "[RANGE UNBOUNDED]")}])
def test_a_join_without_end_does_not_decide_how_others_move(beside: dict[str, str]) -> None:
    texts = {"p": TEXT.replace("[NOW]", "[RANGE 1 SECOND]"), **beside}
    catalog = reconcile(STREAMS, bind(STREAMS, **texts), None)
    state, joins = PlanState(), Joins.of(catalog.layout, catalog.streams)
    tracks = Tracks({}).for_queries(dict.fromkeys(texts, AB_C), 2)
    told = JoinReport(
        busy_s=0.1,
        probes=60,
        pairs=60,
        new_rows=dict.fromkeys("abc", 10),
        state_rows=dict.fromkeys("abc", 4_000_000),
        edges={frozenset(pair): EdgeCount(1000, 10, 10) for pair in ("ab", "bc", "ac")},
    )
    before = PartitionMap.even(2)
    after = PartitionMap((1, *before.site_of_partition[1:]), 2)
    sites = tuple(SiteReport(site, joins=dict.fromkeys(texts, told)) for site in (0, 1))
    settings = BoundarySettings(sites=2, migration="off", copies=True)
    what = observed_step(0, before, settings=settings, tracks=tracks, joins=joins, sites=sites, elapsed_s=1.0)
    for batch in range(6):
        state, _, _ = choose_plans(state, replace(what, batch=batch))
    assert choose_strategy(state, what, after) is Strategy.PARALLEL_TRACK


def test_choosing_twice_gives_the_same_and_changes_nothing() -> None:
    catalog = reconcile(STREAMS, bind(STREAMS, p=TEXT.replace("[NOW]", "[RANGE 1 SECOND]")), None)
    state, joins = PlanState(), Joins.of(catalog.layout, catalog.streams)
    told = JoinReport(
        busy_s=0.1,
        probes=60,
        pairs=60,
        new_rows={"a": 900, "b": 10, "c": 10},
        state_rows={"a": 900, "b": 10, "c": 10},
        edges={
            frozenset("ab"): EdgeCount(10_000, 9_000, 9_000),
            frozenset("bc"): EdgeCount(10_000, 1, 1),
            frozenset("ac"): EdgeCount(10_000, 1, 1),
        },
    )
    what = observed_step(
        0,
        PartitionMap.even(1),
        tracks=Tracks({}).for_queries({"p": AB_C}, 1),
        joins=joins,
        sites=(SiteReport(0, joins={"p": told}),),
        elapsed_s=1.0,
    )
    proposed = []
    for batch in range(12):
        before, observed = repr(state.to_json()), replace(what, batch=batch)
        chosen, migrations, events = choose_plans(state, observed)
        again = choose_plans(state, observed)
        assert repr(chosen.to_json()) == repr(again[0].to_json())
        assert (migrations, events) == again[1:]
        assert repr(state.to_json()) == before
        state = chosen
        proposed += migrations
    assert proposed, "no plan was chosen: nothing was shown"
