"""What a session knows of its joins from the batches so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.plans.edge_statistics import EdgeStatistics
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.plans.plan_memory import PlanPolicyState
from anabranch.adapt.plans.row_bytes import row_bytes
from anabranch.adapt.plans.sampling_schedule import SamplingSchedule
from anabranch.plan.cost.estimates import JoinStatistics
from anabranch.plan.cost.plan_cost import Calibration, UnitCosts
from anabranch.plan.cost.state_room import StateRoom
from anabranch.plan.tree import Plan
from anabranch.state.block import BlockMeta

USUAL_COPY_S = 2e-7
"""Seconds to copy a row of state, at each end, before any was copied."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """A value: each batch gives another one."""

    edges: EdgeStatistics = field(default_factory=EdgeStatistics)
    """Never added to: a copy of them is."""
    policy: PlanPolicyState = field(default_factory=PlanPolicyState)
    sampling: SamplingSchedule = field(default_factory=SamplingSchedule)
    calibration: Calibration = field(default_factory=Calibration)
    copied_rows: float = 0.0
    copy_s: float = 0.0
    abandoned: Mapping[str, int] = field(default_factory=dict)
    """By site, query and plan: the batch in which the plan would have kept too much."""

    @property
    def costs(self) -> UnitCosts:
        """What work takes here, as far as it was observed."""
        return self.calibration.unit_costs()

    @property
    def copy_row_s(self) -> float:
        """Seconds to copy a row of state, at each end, as far as it was observed."""
        return self.copy_s / self.copied_rows / 2 if self.copied_rows else USUAL_COPY_S

    def look(self, batch: int) -> int | None:
        """The number of the look at how streams meet that is due in a batch; None when none is."""
        return self.sampling.taken if self.sampling.is_due(batch) else None

    def statistics(self, joins: Joins, query: str, site: int) -> JoinStatistics | None:
        """What is known of a query at a site; None while nothing is."""
        return self.edges.join_statistics(
            site, query, graph=joins.queries[query].graph, windows_s=joins.windows_s[query]
        )

    def predicted_bytes(
        self, joins: Joins, query: str, *, site: int, plan: Plan, blocks: Sequence[BlockMeta]
    ) -> float | None:
        """What a plan would keep of intermediate rows at a site; None where nothing is known of streams."""
        known, routed = self.statistics(joins, query, site), joins.queries[query]
        if known is None:
            return None
        room = StateRoom(row_bytes=row_bytes(joins.layout, routed, blocks))
        return room.bytes_of(plan, routed.graph, known)

    def with_abandoned(self, batch: int, reports: Sequence[SiteReport]) -> PlanState:
        """The state with plans noted that would have kept too much: for a while they are not proposed."""
        left = {
            f"{report.site} {plan.query} {plan.plan}": batch
            for report in reports
            for plan in report.abandoned
            if plan.until is None
        }
        return replace(self, abandoned={**self.abandoned, **left}) if left else self

    def to_json(self) -> dict[str, Any]:
        return {
            "edges": self.edges.to_json(),
            "policy": self.policy.to_json(),
            "sampling": self.sampling.to_json(),
            "calibration": self.calibration.to_json(),
            "copied": [self.copied_rows, self.copy_s],
            "abandoned": dict(self.abandoned),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], joins: Joins) -> PlanState:
        """What a manifest has of the joins that there are still."""
        known = joins.queries
        edges = {query: sums for query, sums in data.get("edges", {}).items() if query in known}
        calibration, (rows, seconds) = data.get("calibration"), data.get("copied", (0.0, 0.0))
        return cls(
            EdgeStatistics.from_json(edges),
            PlanPolicyState.from_json([m for m in data.get("policy", ()) if m["query"] in known]),
            SamplingSchedule.from_json(data.get("sampling", {})),
            Calibration() if calibration is None else Calibration.from_json(calibration),
            rows,
            seconds,
            dict(data.get("abandoned", {})),
        )
