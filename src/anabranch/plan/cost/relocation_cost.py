"""What it costs to move partitions between sites with different plans (D-CAPE, sections 3 to 5).

The same question as a change of plans (`migration_cost`), with two sites to pay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.cost.migration_cost import (
    PurgeRule,
    match_states,
    parallel_track_duration,
    recompute_seconds,
)
from anabranch.plan.cost.plan_cost import UnitCosts, plan_cost
from anabranch.plan.cost.track_cost import TrackCost
from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import Plan, Probe, joins


@dataclass(frozen=True, slots=True)
class Relocation:
    """Partitions that are to go from a site to another, each with its own plan.

    Attributes
    ----------
    share
        Share of the sender's rows that are in these partitions; their work and state follow it.
    copy_row_s
        Seconds to copy a row of state, at each end; 0 where sites share their blocks.
    """

    sender_plan: Plan
    receiver_plan: Plan
    share: float
    copy_row_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RelocationCost:
    """CPU seconds at either site beyond those of partitions that had always been at the receiver.

    What they mean for the whole depends on the other sites: `RelocationPath` compares.
    """

    sender_s: float
    receiver_s: float


def moving_state_relocation(
    move: Relocation, *, graph: JoinGraph, statistics: JoinStatistics, costs: UnitCosts
) -> RelocationCost:
    """MSLB (D-CAPE, section 4): copy matching states, recompute the others at the receiver.

    `statistics` are the sender's. States that the receiver's plan does not have are not sent.
    """
    estimates = Estimates(graph, statistics)
    matched = match_states(move.sender_plan, move.receiver_plan).matched
    copying = move.share * move.copy_row_s * sum(estimates.rows(s) for s in matched)
    computing = move.share * recompute_seconds(move.sender_plan, move.receiver_plan, estimates, costs)
    return RelocationCost(copying, copying + computing)


def parallel_track_relocation(
    move: Relocation,
    *,
    graph: JoinGraph,
    statistics: JoinStatistics,
    costs: UnitCosts,
    lateness_s: float = 0.0,
    rule: PurgeRule = PurgeRule.EXACT,
) -> RelocationCost:
    """PTLB (D-CAPE, section 3): new rows go to both sites until the sender has no old ones.

    The sender, which is the loaded one, gets no relief until then (section 5.3).
    """
    duration = parallel_track_duration(move.sender_plan, statistics, lateness_s=lateness_s, rule=rule)
    if not math.isfinite(duration):
        return RelocationCost(math.inf, 0.0)
    track = TrackCost(graph, statistics, costs, root=frozenset(graph.aliases))
    receiver_joins = tuple(joins(move.receiver_plan))
    sender_s = move.share * track.draining(tuple(joins(move.sender_plan)), duration)
    if isinstance(move.sender_plan, Probe):  # makes and drops what it would not join new with new
        whole = running_seconds(move.sender_plan, duration, graph=graph, statistics=statistics, costs=costs)
        sender_s = move.share * whole
    spared_s = move.share * (
        track.running(receiver_joins, duration) - track.filling(receiver_joins, duration)
    )
    return RelocationCost(sender_s, -spared_s)


def running_seconds(
    plan: Plan, duration_s: float, *, graph: JoinGraph, statistics: JoinStatistics, costs: UnitCosts
) -> float:
    """What a plan takes for its rows over a stretch of event time, at today's rates."""
    if isinstance(plan, Probe):
        now, later = (
            plan_cost(plan, Estimates(graph, known), costs).seconds
            for known in (statistics, statistics.settled())
        )
        turning = min(statistics.longest_window_s, duration_s)
        return turning * (now + later) / 2 + (duration_s - turning) * later
    track = TrackCost(graph, statistics, costs, root=frozenset(graph.aliases))
    return track.running(tuple(joins(plan)), duration_s)


def track_block_probes(
    plan: Plan, duration_s: float, *, graph: JoinGraph, statistics: JoinStatistics, costs: UnitCosts
) -> float:
    """What it takes beside, whatever its rows: going through its blocks in every batch."""
    track = TrackCost(graph, statistics, costs, root=frozenset(graph.aliases))
    return costs.block_probe_s * track.block_probes(tuple(joins(plan)), duration_s)
