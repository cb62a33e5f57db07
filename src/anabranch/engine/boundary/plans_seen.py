"""The plans of every join as its optimizer last saw them: what it runs, what else there is, at which price.

Worked out from the manifest when somebody asks, so that no batch pays for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.adapt.plans.edge_statistics import EdgeStatistics
from anabranch.adapt.plans.plan_memory import PlanPolicyState
from anabranch.adapt.tracks.tracks import Tracks
from anabranch.language.flow import bind_query
from anabranch.plan.cost.estimates import Estimates, window_seconds
from anabranch.plan.cost.plan_cost import Calibration, plan_cost
from anabranch.plan.cost.probe_counts import plan_block_probes
from anabranch.plan.graph import JoinGraph
from anabranch.plan.logical import Query
from anabranch.plan.search.candidates import canonical
from anabranch.plan.search.optimizer import best_probe, ranked
from anabranch.plan.tree import Plan, parse_plan
from anabranch.queries.reconcile import known_streams
from anabranch.state import Manifest

CANDIDATES = 5
"""Trees to name per site, besides the one that runs and the best without intermediate states."""


@dataclass(frozen=True, slots=True)
class SitePlans:
    """One query at one site; costs are CPU seconds per second of event time.

    Attributes
    ----------
    observed_s
        What the plan took when last looked at; None if nothing was observed.
    predicted
        By candidate, the cheapest first.
    """

    site: int
    plan: str
    observed_s: float | None
    predicted: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class QueryPlans:
    """One query with more than one plan."""

    query: str
    batch: int
    sites: tuple[SitePlans, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "at": self.batch,
            "kind": "plans",
            "query": self.query,
            "sites": [
                {"site": s.site, "plan": s.plan, "observed": s.observed_s, "predicted": dict(s.predicted)}
                for s in self.sites
            ],
        }

    def to_text(self) -> str:
        lines = [
            f"query {self.query}: plans as last seen, after batch {self.batch}; CPU s per s of event time"
        ]
        for s in self.sites:
            observed = "nothing observed yet" if s.observed_s is None else f"{s.observed_s:.3g} observed"
            lines.append(f"  site {s.site} runs {s.plan}: {observed}, {s.predicted[s.plan]:.3g} predicted")
        known = {plan for s in self.sites for plan in s.predicted}
        width = max(map(len, known))
        for plan in sorted(known, key=self._total):
            costs = "  ".join(f"{s.predicted[plan]:<9.3g}" for s in self.sites)
            runs = ", ".join(str(s.site) for s in self.sites if s.plan == plan)
            lines.append(f"    {plan:<{width}}  {costs}{f'  runs at {runs}' if runs else ''}".rstrip())
        return "\n".join(lines)

    def _total(self, plan: str) -> float:
        return sum(s.predicted[plan] for s in self.sites)


def plans_seen(manifest: Manifest) -> tuple[QueryPlans, ...]:
    """All joins of three and more references that some site has reported about."""
    remembered = manifest.controller.get("plans", {})
    streams = known_streams(manifest)
    plans = Tracks.from_json(manifest.tracks).plans
    found = []
    for name, known in manifest.catalog["queries"].items():
        query = bind_query(name, known["text"], streams)
        if len(query.refs) > 2 and known["plan"] is not None and not known["stations"]:
            # Manifests leave out what all sites run anyway.
            usual = (known["plan"],) * manifest.sites
            sites = _sites(query, plans.get(name, usual), remembered)
            if sites:
                found.append(QueryPlans(name, manifest.batch, sites))
    return tuple(found)


def _sites(query: Query, plans: tuple[str, ...], remembered: Mapping[str, Any]) -> tuple[SitePlans, ...]:
    graph, windows = JoinGraph.of(query), window_seconds(query)
    edges = EdgeStatistics.from_json(
        {q: known for q, known in remembered.get("edges", {}).items() if q == query.name}
    )
    policy = PlanPolicyState.from_json(remembered.get("policy", ()))
    calibration = remembered.get("calibration")
    costs = (Calibration() if calibration is None else Calibration.from_json(calibration)).unit_costs()
    running = {site: canonical(parse_plan(plan), graph) for site, plan in enumerate(plans)}
    known = {
        site: statistics
        for site in running
        if (statistics := edges.join_statistics(site, query.name, graph=graph, windows_s=windows))
    }
    named: dict[str, Plan] = {}
    for site, statistics in known.items():
        asked = Estimates(graph, statistics), costs
        trees = [rated.plan for rated in ranked(*asked, limit=CANDIDATES)]
        named |= {str(plan): plan for plan in (*trees, best_probe(*asked).plan, running[site])}
    found = []
    for site, statistics in known.items():
        estimates = Estimates(graph, statistics)
        batch_s = statistics.batch_s or math.inf
        priced = {
            name: plan_cost(plan, estimates, costs).seconds
            + costs.block_probe_s * plan_block_probes(plan, estimates) / batch_s
            for name, plan in named.items()
        }
        cheapest_first = dict(sorted(priced.items(), key=lambda item: item[1]))
        observed = policy.of(site, query.name).observed_s
        found.append(SitePlans(site, str(running[site]), observed, cheapest_first))
    return tuple(found)
