from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.runtime.directed_runs import AB_C, STREAMS
from tests.runtime.nasty_runs import bind

from anabranch.adapt.plan_memory import PlanMemory, PlanPolicyState
from anabranch.adapt.plan_policy import PlanRound, PlanView
from anabranch.adapt.tracks import Tracks
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.migration_cost import Strategy
from anabranch.runtime import plan_adaptation
from anabranch.runtime.catalog import reconcile
from anabranch.runtime.plan_adaptation import PlanAdaptation
from anabranch.runtime.reports import JoinReport, SiteReport

TEXT = "SELECT a.id FROM a [NOW], b [NOW], c [NOW] WHERE a.k = b.k AND b.k = c.k"


def test_no_plan_is_looked_for_where_a_query_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[set[str]] = []

    def propose(views: Sequence[PlanView], state: Any, **_: Any) -> PlanRound:
        looked_at.append({view.query for view in views})
        return PlanRound(state)

    monkeypatch.setattr(plan_adaptation, "propose_plans", propose)
    catalog = reconcile(STREAMS, bind(STREAMS, p=TEXT, q=TEXT), None)
    plans = PlanAdaptation(catalog.layout, catalog.streams, {})
    tracks = Tracks({}).for_queries({"p": AB_C, "q": AB_C}, 1)
    told = JoinReport(new_rows=dict.fromkeys("abc", 5), state_rows=dict.fromkeys("abc", 9))
    for batch, running in ((0, "pq"), (2, "q")):
        reports = [SiteReport(0, joins=dict.fromkeys(running, told))]
        plans.after(batch, tracks, PartitionMap.even(1), reports, 1.0, "auto")
    assert looked_at == [{"p", "q"}, {"q"}]


@pytest.mark.parametrize(("wish", "looks"), [("auto", 10), ("off", 5)])
def test_a_policy_that_is_off_is_not_in_the_middle_of_anything(
    wish: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = PlanPolicyState({(0, "p"): PlanMemory(wanted="((b c) a)")})
    monkeypatch.setattr(plan_adaptation, "propose_plans", lambda *_, **__: PlanRound(eager))
    catalog = reconcile(STREAMS, bind(STREAMS, p=TEXT), None)
    plans = PlanAdaptation(catalog.layout, catalog.streams, {})
    tracks = Tracks({}).for_queries({"p": AB_C}, 1)
    told = JoinReport(new_rows=dict.fromkeys("abc", 5), state_rows=dict.fromkeys("abc", 9))
    due = 0
    for batch in range(20):
        due += plans.look(batch) is not None
        plans.after(batch, tracks, PartitionMap.even(1), [SiteReport(0, joins={"p": told})], 1.0, wish)
    assert due == looks


@pytest.mark.parametrize("beside", [{}, {"q": TEXT.replace("[NOW]", "[RANGE UNBOUNDED]")}])
def test_a_join_without_end_does_not_decide_how_others_move(beside: dict[str, str]) -> None:
    texts = {"p": TEXT.replace("[NOW]", "[RANGE 1 SECOND]"), **beside}
    catalog = reconcile(STREAMS, bind(STREAMS, **texts), None)
    plans = PlanAdaptation(catalog.layout, catalog.streams, {})
    tracks = Tracks({}).for_queries(dict.fromkeys(texts, AB_C), 2)
    told = JoinReport(
        busy_s=0.1,
        probes=60,
        pairs=60,
        new_rows=dict.fromkeys("abc", 10),
        state_rows=dict.fromkeys("abc", 4_000_000),
        edges={frozenset(pair): (1000, 10) for pair in ("ab", "bc", "ac")},
    )
    before = PartitionMap.even(2)
    after = PartitionMap((1, *before.site_of_partition[1:]), 2)
    for batch in range(6):
        reports = [SiteReport(site, joins=dict.fromkeys(texts, told)) for site in (0, 1)]
        plans.after(batch, tracks, before, reports, 1.0, "off")
    found = plans.rebalancing(tracks, before, after, "auto", copies=True)
    assert found is Strategy.PARALLEL_TRACK
