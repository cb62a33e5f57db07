"""Plans that are predicted to keep more than they may, or had to be left for that, are not proposed."""

from __future__ import annotations

from anabranch.adapt.plans.plan_memory import PlanPolicyState
from anabranch.adapt.plans.plan_policy import PlanPolicySettings, PlanView, propose_plans
from anabranch.plan.cost.plan_cost import UnitCosts
from anabranch.plan.cost.state_room import StateRoom
from anabranch.plan.tree import Plan, parse_plan
from tests.plan.statistics import graph, statistics

GRAPH = graph("abc", ["abc"])
AB_FIRST, BC_FIRST = parse_plan("((a b) c)"), parse_plan("(a (b c))")
BC_SELECTIVE = statistics(GRAPH, ab=0.05, bc=0.0005, ac=0.05)
NEEDED = StateRoom().bytes_of(BC_FIRST, GRAPH, BC_SELECTIVE)


def proposed(room: StateRoom) -> list[Plan]:
    """What a site that has joined a and b first is advised to do, in five evaluations."""
    state, found = PlanPolicyState(), []
    for _ in range(5):
        view = PlanView(0, "q", GRAPH, AB_FIRST, BC_SELECTIVE, room=room)
        state, proposals, _ = propose_plans([view], state, settings=PlanPolicySettings(), costs=UnitCosts())
        found += [proposal.new for proposal in proposals]
    return found


def test_a_plan_with_room_for_its_rows_is_proposed() -> None:
    assert BC_FIRST in proposed(StateRoom(int(NEEDED) + 1))


def test_a_plan_without_room_for_its_rows_is_not() -> None:
    assert BC_FIRST not in proposed(StateRoom(int(NEEDED) - 1))


def test_a_plan_that_had_to_be_left_is_not() -> None:
    assert BC_FIRST not in proposed(StateRoom(1 << 40, abandoned=frozenset({str(BC_FIRST)})))
