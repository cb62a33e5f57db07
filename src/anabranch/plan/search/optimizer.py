"""The optimizer: the cheapest join tree under given statistics, by dynamic programming over references.

What a join costs depends on which references its sides cover, not on how the sides came about. So the
best plans of a set of references are made of the best plans of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest

from anabranch.plan.cost.estimates import Estimates
from anabranch.plan.cost.plan_cost import PlanCost, UnitCosts, join_work, plan_cost, probe_orders
from anabranch.plan.search.candidates import References, splits_of
from anabranch.plan.tree import Join, Leaf, Plan, Probe


@dataclass(frozen=True, slots=True)
class RatedPlan:
    """A plan and what it is predicted to cost."""

    plan: Plan
    cost: PlanCost

    def __str__(self) -> str:
        return f"{self.plan}: {self.cost.seconds:.3g} s per second, {self.cost.rows:.3g} rows between joins"


def best_plan(estimates: Estimates, costs: UnitCosts) -> RatedPlan:
    """The cheapest plan with the fewest cross products; of equal ones always the same.

    >>> from anabranch.plan.cost.estimates import JoinStatistics
    >>> from anabranch.plan.graph import JoinGraph
    >>> graph = JoinGraph(("a", "b", "c"), (frozenset("abc"),), ())
    >>> pairs = {frozenset("ab"): 0.1, frozenset("ac"): 0.1, frozenset("bc"): 0.001}
    >>> rates, windows = dict.fromkeys("abc", 100.0), dict.fromkeys("abc", 10.0)
    >>> str(best_plan(Estimates(graph, JoinStatistics(rates, windows, pairs)), UnitCosts()).plan)
    '(a (b c))'
    """
    return ranked(estimates, costs, limit=1)[0]


def ranked(estimates: Estimates, costs: UnitCosts, *, limit: int = 10) -> tuple[RatedPlan, ...]:
    """The cheapest plans, the best first; all of them when there are no more than `limit`."""
    graph = estimates.graph
    everyone = frozenset(graph.aliases)
    best: dict[References, list[tuple[float, Plan]]] = {
        frozenset((a,)): [(0.0, Leaf(a))] for a in graph.aliases
    }
    for references, splits in splits_of(graph).items():
        found: list[tuple[float, int, Plan]] = []
        for left, right in splits:
            work = join_work(left, right, estimates, kept=references != everyone)
            seconds = work.seconds(costs)
            for i, (left_seconds, left_plan) in enumerate(best[left]):
                # The k best pairs are among those with (i + 1)(j + 1) <= k.
                for right_seconds, right_plan in best[right][: limit // (i + 1)]:
                    total = seconds + left_seconds + right_seconds
                    found.append((total, len(found), Join(left_plan, right_plan)))
        best[references] = [(total, plan) for total, _, plan in nsmallest(limit, found)]
    return tuple(RatedPlan(plan, plan_cost(plan, estimates, costs)) for _, plan in best[everyone])


def best_probe(estimates: Estimates, costs: UnitCosts) -> RatedPlan:
    """The plan that keeps no intermediate state, with the best order for every reference."""
    plan = Probe(tuple((alias, *order) for alias, order in probe_orders(estimates).items()))
    return RatedPlan(plan, plan_cost(plan, estimates, costs))
