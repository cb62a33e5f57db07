"""When a site changes its plan, when it does not, and when it stops trying."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from anabranch.adapt.plans.edge_statistics import EdgeReport, EdgeStatistics
from anabranch.adapt.plans.plan_memory import PlanPolicyState
from anabranch.adapt.plans.plan_outcome import PlanOutcome
from anabranch.adapt.plans.plan_policy import (
    PlanPolicySettings,
    PlanProposal,
    PlanView,
    propose_plans,
)
from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.cost.estimates import Estimates, JoinStatistics, edges_of
from anabranch.plan.cost.migration_cost import Preference, Strategy
from anabranch.plan.cost.plan_cost import UnitCosts, plan_cost
from anabranch.plan.search.optimizer import best_plan
from anabranch.plan.tree import Plan, parse_plan
from tests.plan.statistics import graph, statistics

GRAPH = graph("abc", ["abc"])
AB_FIRST, BC_FIRST = parse_plan("((a b) c)"), parse_plan("(a (b c))")
COSTS = UnitCosts()
SETTINGS = PlanPolicySettings()

AB_SELECTIVE = statistics(GRAPH, ab=0.0005, bc=0.05, ac=0.05)
BC_SELECTIVE = statistics(GRAPH, ab=0.05, bc=0.0005, ac=0.05)
"""The same, flipped by 100."""


def seconds(plan: Plan, known: JoinStatistics) -> float:
    return plan_cost(plan, Estimates(GRAPH, known), COSTS).seconds


class Site:
    """A site that follows what the policy proposes at once, and takes as long as `truth` says."""

    def __init__(self, plan: Plan = AB_FIRST, *, settings: PlanPolicySettings = SETTINGS) -> None:
        self.plan = plan
        self.settings = settings
        self.state = PlanPolicyState()
        self.proposals: list[PlanProposal] = []
        self.outcomes: list[PlanOutcome] = []

    def evaluate(
        self, known: JoinStatistics, *, times: int = 1, truth=None, follow: bool = True, **view
    ) -> list[PlanProposal]:
        """Proposals of so many evaluations."""
        before = len(self.proposals)
        for _ in range(times):
            observed = None if truth is None else truth(self.plan, known)
            seen = PlanView(0, "q", GRAPH, self.plan, known, observed_s=observed, **view)
            self.state, proposals, outcomes = propose_plans(
                [seen], self.state, settings=self.settings, costs=COSTS
            )
            self.outcomes += outcomes
            self.state = PlanPolicyState.from_json(json.loads(json.dumps(self.state.to_json())))
            self.proposals += proposals
            if proposals and follow:
                self.plan = proposals[0].new
        return self.proposals[before:]


def sampled(known: JoinStatistics, pairs: float) -> JoinStatistics:
    """The same, known from samples that found so many pairs of each edge."""
    return replace(known, doubts={pair: found / pairs**0.5 for pair, found in known.selectivities.items()})


SLIGHTLY = statistics(GRAPH, ab=0.05, bc=0.015, ac=0.05)
"""Another order would save an eighth."""


def test_a_saving_within_the_error_of_samples_changes_nothing() -> None:
    assert Site().evaluate(SLIGHTLY, times=5)
    assert not Site().evaluate(sampled(SLIGHTLY, 4), times=20)
    assert Site().evaluate(sampled(SLIGHTLY, 40), times=5)


def test_a_large_saving_is_believed_however_few_pairs_were_found() -> None:
    few = replace(
        BC_SELECTIVE,
        doubts={p: found * (1.0 if found < 0.01 else 0.2) for p, found in BC_SELECTIVE.selectivities.items()},
    )
    assert Site().evaluate(few, times=5)


def test_a_selectivity_that_flips_by_100_reorders_the_joins() -> None:
    site = Site()
    assert not site.evaluate(AB_SELECTIVE, times=5)
    (proposal,) = site.evaluate(BC_SELECTIVE, times=5)
    assert (proposal.old, proposal.new) == (AB_FIRST, BC_FIRST)
    assert proposal.predicted_now == pytest.approx(seconds(AB_FIRST, BC_SELECTIVE))
    assert proposal.predicted_new == pytest.approx(seconds(BC_FIRST, BC_SELECTIVE))
    assert len(proposal.candidates) == 4  # three trees, and probing without states
    assert proposal.candidates[0].plan == BC_FIRST


def test_a_proposal_says_why_in_numbers_and_goes_into_the_log() -> None:
    site = Site()
    (proposal,) = site.evaluate(BC_SELECTIVE, times=2)
    assert "(a (b c)) is predicted to take" in proposal.reason
    assert "less" in proposal.reason
    told = json.loads(json.dumps(proposal.to_json()))
    assert (told["old"], told["new"], told["strategy"]) == ("((a b) c)", "(a (b c))", str(proposal.strategy))


def test_one_evaluation_is_not_enough() -> None:
    site = Site()
    assert not site.evaluate(BC_SELECTIVE)
    assert not site.evaluate(AB_SELECTIVE)
    assert not site.evaluate(BC_SELECTIVE)
    assert site.evaluate(BC_SELECTIVE)


def test_winners_that_take_turns_do_not_add_up() -> None:
    ac_selective = statistics(GRAPH, ab=0.05, bc=0.05, ac=0.0005)
    site = Site()
    for _ in range(10):
        assert not site.evaluate(BC_SELECTIVE)
        assert not site.evaluate(ac_selective)


def test_a_small_saving_is_not_enough() -> None:
    slightly = statistics(GRAPH, ab=0.0011, bc=0.001, ac=0.0011)
    saving = 1 - seconds(BC_FIRST, slightly) / seconds(AB_FIRST, slightly)
    assert 0 < saving < SETTINGS.threshold
    assert not Site().evaluate(slightly, times=20)
    keen = replace(SETTINGS, threshold=saving / 2, horizon_windows=1000.0)
    assert Site(settings=keen).evaluate(slightly, times=2)


def test_a_saving_that_does_not_pay_for_the_migration_in_time_is_not_enough() -> None:
    hasty = replace(SETTINGS, horizon_windows=1e-6)
    assert not Site(settings=hasty).evaluate(BC_SELECTIVE, times=20)


def batch(aliases: str, fan_out: float, noise: random.Random, *, off: float) -> EdgeReport:
    """1,000 rows per second and reference, 10,000 in state; every count is off by itself."""

    def about(count: float) -> float:
        return count * noise.uniform(1 - off, 1 + off)

    return EdgeReport(
        1.0,
        {alias: round(about(1000)) for alias in aliases},
        {alias: round(about(10_000)) for alias in aliases},
        {
            pair: EdgeCount(10_000_000, found := about(1000 * fan_out), found)
            for pair in edges_of(graph(aliases, [aliases]))
        },
    )


@pytest.mark.parametrize("fan_out", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("aliases", ["abc", "abcd", "abcde"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_of_ten_percent_never_reorders_a_plan_as_good_as_any(
    aliases: str, fan_out: float, seed: int
) -> None:
    """All references are alike, so every order is as good as its shape: the hardest case for a threshold."""
    noise, asked = random.Random(seed), graph(aliases, [aliases])
    windows = dict.fromkeys(aliases, 10.0)
    rolling, state, plan = EdgeStatistics(), PlanPolicyState(), None
    for number in range(60):
        report = batch(aliases, fan_out, noise, off=0.1 if number else 0.0)
        rolling.add(0, "q", report)
        known = rolling.join_statistics(0, "q", graph=asked, windows_s=windows)
        assert known is not None
        plan = plan or best_plan(Estimates(asked, known), COSTS).plan
        view = PlanView(0, "q", asked, plan, known)
        state, proposals, _ = propose_plans([view], state, settings=SETTINGS, costs=COSTS)
        assert not proposals


def test_a_flip_reaches_the_policy_through_rolling_statistics() -> None:
    site, rolling = Site(), EdgeStatistics()
    first_after = None
    for batch in range(40):
        ab, bc = (100.0, 10_000.0) if batch < 20 else (10_000.0, 100.0)
        samples = {frozenset("ab"): ab, frozenset("bc"): bc, frozenset("ac"): 10_000.0}
        rolling.add(
            0,
            "q",
            EdgeReport(
                1.0,
                dict.fromkeys("abc", 1000),
                dict.fromkeys("abc", 10_000),
                {pair: EdgeCount(10_000_000, pairs, pairs) for pair, pairs in samples.items()},
            ),
        )
        known = rolling.join_statistics(0, "q", graph=GRAPH, windows_s=dict.fromkeys("abc", 10.0))
        assert known is not None
        if site.evaluate(known):
            first_after = first_after or batch
    assert site.plan == BC_FIRST
    assert first_after is not None
    assert 20 < first_after <= 30
    assert len(site.proposals) == 1


def test_two_references_have_nothing_to_reorder() -> None:
    two = graph("ab", ["ab"])
    view = PlanView(0, "q", two, parse_plan("(a b)"), statistics(two))
    state, proposals, _ = propose_plans([view], PlanPolicyState(), settings=SETTINGS, costs=COSTS)
    assert not proposals
    assert not state.memories


STRATEGIES = {
    "moving state": (Preference.MOVING_STATE, Strategy.MOVING_STATE),
    "parallel track": (Preference.PARALLEL_TRACK, Strategy.PARALLEL_TRACK),
}


@pytest.mark.parametrize(("preference", "strategy"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_the_strategy_asked_for_is_proposed(preference: Preference, strategy: Strategy) -> None:
    (proposal,) = Site(settings=replace(SETTINGS, preference=preference)).evaluate(BC_SELECTIVE, times=2)
    assert proposal.strategy is strategy


def test_nothing_is_proposed_when_it_is_off() -> None:
    assert not Site(settings=replace(SETTINGS, preference=Preference.OFF)).evaluate(BC_SELECTIVE, times=5)


def test_nothing_is_proposed_while_a_migration_runs() -> None:
    assert not Site().evaluate(BC_SELECTIVE, times=5, migrating=True)


def test_a_mirror_image_of_the_best_plan_is_left_alone() -> None:
    assert not Site(parse_plan("((c b) a)")).evaluate(BC_SELECTIVE, times=5)


def test_a_proposal_that_is_not_followed_comes_again_later() -> None:
    site = Site()
    assert len(site.evaluate(BC_SELECTIVE, times=6, follow=False)) == 3


def test_sites_are_judged_by_their_own_statistics() -> None:
    views = [PlanView(s, "q", GRAPH, AB_FIRST, k) for s, k in enumerate((AB_SELECTIVE, BC_SELECTIVE))]
    state, first, _ = propose_plans(views, PlanPolicyState(), settings=SETTINGS, costs=COSTS)
    _, second, _ = propose_plans(views, state, settings=SETTINGS, costs=COSTS)
    assert not first
    assert [p.site for p in second] == [1]


def test_what_has_no_view_any_more_is_forgotten() -> None:
    """A site that is gone, or a query that failed, in the middle of something."""
    views = [PlanView(site, "q", GRAPH, AB_FIRST, BC_SELECTIVE) for site in range(2)]
    state, _, _ = propose_plans(views, PlanPolicyState(), settings=SETTINGS, costs=COSTS)
    assert state.is_busy
    state, _, _ = propose_plans(views[:1], state, settings=SETTINGS, costs=COSTS)
    assert set(state.memories) == {(0, "q")}
    assert not propose_plans([], state, settings=SETTINGS, costs=COSTS).state.is_busy


# --- what came of it ---


def as_predicted(plan: Plan, known: JoinStatistics) -> float:
    return 3 * seconds(plan, known)


def worse_than_before(plan: Plan, known: JoinStatistics) -> float:
    """The model is wrong about the plan it likes: it takes half as long again as the old one."""
    return 3 * seconds(AB_FIRST, known) * (1.5 if plan == BC_FIRST else 1.0)


def no_better(plan: Plan, known: JoinStatistics) -> float:
    return 3 * seconds(AB_FIRST, known)


def test_a_change_that_keeps_its_promise_leaves_the_policy_free() -> None:
    site = Site()
    site.evaluate(AB_SELECTIVE, times=3, truth=as_predicted)
    assert len(site.evaluate(BC_SELECTIVE, times=10, truth=as_predicted)) == 1
    assert len(site.evaluate(AB_SELECTIVE, times=10, truth=as_predicted)) == 1
    assert site.plan == AB_FIRST


def test_some_evaluations_after_a_change_its_promise_is_held_against_what_came_of_it() -> None:
    site = Site()
    site.evaluate(AB_SELECTIVE, times=3, truth=as_predicted)
    site.evaluate(BC_SELECTIVE, times=2, truth=as_predicted)
    assert not site.outcomes
    site.evaluate(BC_SELECTIVE, times=SETTINGS.settle + SETTINGS.trial, truth=as_predicted)
    (outcome,) = site.outcomes
    saving = 1 - seconds(BC_FIRST, BC_SELECTIVE) / seconds(AB_FIRST, BC_SELECTIVE)
    assert (outcome.promised, outcome.observed) == (pytest.approx(saving), pytest.approx(saving))
    assert outcome.new_s == pytest.approx(as_predicted(BC_FIRST, BC_SELECTIVE))
    assert f"was to save {saving:.0%} and saved {saving:.0%}" in str(outcome)
    assert json.loads(json.dumps(outcome.to_json()))["effect"] == "useful"


def test_a_change_that_did_harm_says_so_before_it_is_taken_back() -> None:
    site = Site()
    site.evaluate(BC_SELECTIVE, times=6, truth=worse_than_before)
    (outcome,) = site.outcomes
    assert outcome.observed == pytest.approx(-0.5)
    assert outcome.effect == "harmful"


def test_what_a_query_took_is_remembered_for_whoever_asks() -> None:
    site = Site()
    site.evaluate(AB_SELECTIVE, truth=as_predicted)
    site.evaluate(AB_SELECTIVE)  # nothing was observed this time
    assert site.state.of(0, "q").observed_s == pytest.approx(as_predicted(AB_FIRST, AB_SELECTIVE))


def test_a_change_that_does_harm_is_taken_back() -> None:
    site = Site()
    site.evaluate(AB_SELECTIVE, times=3, truth=worse_than_before)
    there, back = site.evaluate(BC_SELECTIVE, times=8, truth=worse_than_before)
    assert (there.new, back.new) == (BC_FIRST, AB_FIRST)
    assert "50% dearer" in back.reason
    assert site.plan == AB_FIRST


def test_after_going_back_the_old_plan_is_known_as_before() -> None:
    site = Site()
    site.evaluate(BC_SELECTIVE, times=6, truth=worse_than_before)
    assert [p.new for p in site.proposals] == [BC_FIRST, AB_FIRST]
    assert site.state.of(0, "q").factor == pytest.approx(3)


def test_the_work_of_the_migration_itself_is_not_held_against_the_plan() -> None:
    site = Site()
    site.evaluate(BC_SELECTIVE, times=2, truth=as_predicted)
    site.evaluate(BC_SELECTIVE, truth=lambda plan, known: 100 * as_predicted(plan, known))
    assert not site.evaluate(BC_SELECTIVE, times=5, truth=as_predicted)
    assert site.state.of(0, "q").pause_left == 0


def test_a_plan_written_the_other_way_round_is_the_one_that_was_proposed() -> None:
    site = Site()
    site.evaluate(BC_SELECTIVE, times=2, truth=as_predicted)
    site.plan = parse_plan("((c b) a)")
    dear = 2 * as_predicted(AB_FIRST, BC_SELECTIVE)
    (back,) = site.evaluate(BC_SELECTIVE, times=4, truth=lambda plan, known: dear)
    assert back.new == AB_FIRST


@pytest.mark.parametrize("truth", [worse_than_before, no_better], ids=["harmful", "useless"])
def test_a_policy_that_does_not_help_stops_for_longer_each_time(truth) -> None:
    site, changes = Site(), []
    for evaluation in range(400):
        if site.evaluate(BC_SELECTIVE, truth=truth) and site.plan == BC_FIRST:
            changes.append(evaluation)
            if truth is no_better:  # somebody puts it back, or it would be content
                site.evaluate(BC_SELECTIVE, times=4, truth=truth)
                site.plan = AB_FIRST
    gaps = [later - earlier for earlier, later in pairwise(changes)]
    assert len(changes) <= 7
    assert all(later > earlier for earlier, later in pairwise(gaps))
    assert all(gap >= SETTINGS.first_pause << times for times, gap in enumerate(gaps))


def test_a_load_that_grows_after_the_change_is_not_held_against_it() -> None:
    site = Site()
    site.evaluate(AB_SELECTIVE, times=3, truth=as_predicted)
    assert site.evaluate(BC_SELECTIVE, times=2, truth=as_predicted)
    busier = replace(BC_SELECTIVE, rates=dict.fromkeys("abc", 300.0))
    assert as_predicted(BC_FIRST, busier) > as_predicted(AB_FIRST, AB_SELECTIVE)
    assert not site.evaluate(busier, times=10, truth=as_predicted)
    assert site.state.of(0, "q").pause_left == 0


@pytest.mark.parametrize("truth", [as_predicted, None], ids=["observed", "unobserved"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_a_load_that_flips_all_the_time_is_not_followed_for_ever(length: int, truth) -> None:
    site = Site()
    for _ in range(50):
        site.evaluate(BC_SELECTIVE, times=length, truth=truth)
        site.evaluate(AB_SELECTIVE, times=length, truth=truth)
    assert len(site.proposals) <= 6


def test_a_load_that_flips_now_and_then_is_followed() -> None:
    site = Site()
    for _ in range(10):
        site.evaluate(BC_SELECTIVE, times=40, truth=as_predicted)
        site.evaluate(AB_SELECTIVE, times=40, truth=as_predicted)
    assert len(site.proposals) == 20


def test_a_policy_without_observations_still_works() -> None:
    site = Site()
    assert len(site.evaluate(BC_SELECTIVE, times=10)) == 1
    assert len(site.evaluate(AB_SELECTIVE, times=10)) == 1
