"""What it costs to change plans: states matched, recomputed, discarded, and the price of both strategies.

The equations are those of CAPE, section 5, in our terms: hash joins instead of
nested loops, states shared by name, so that matching and moving (T_match, T_move of equation 3) cost
nothing, and intermediate rows that expire with their first member.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.cost.plan_cost import UnitCosts, Work
from anabranch.plan.cost.probe_counts import rebuild_block_probes, spared_block_probes
from anabranch.plan.cost.track_cost import TrackCost
from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import References
from anabranch.plan.tree import Join, Plan, Probe, joins


class Strategy(StrEnum):
    """How to get from one plan, or one site, to another."""

    MOVING_STATE = "moving_state"
    PARALLEL_TRACK = "parallel_track"


class Preference(StrEnum):
    """What the user asks for."""

    AUTO = "auto"
    MOVING_STATE = "moving_state"
    PARALLEL_TRACK = "parallel_track"
    OFF = "off"


class PurgeRule(StrEnum):
    """When old rows are gone, which ends a parallel track."""

    EXACT = "exact"
    """Each reference on its own: no accepted row can reach it any more (docs/semantics.md)."""
    LEMMA_2_2 = "lemma_2_2"
    """By newer rows that meet it in its join, level after level (CAPE, lemma 2.2)."""


@dataclass(frozen=True, slots=True)
class StateMatch:
    """States by the references they cover; each list has children before parents.

    Attributes
    ----------
    matched
        In both plans: shared, not copied. The references' own rows always are.
    recomputed
        In the new plan only: each can be joined from its children once those before it are there.
    discarded
        In the old plan only.
    """

    matched: tuple[References, ...]
    recomputed: tuple[References, ...]
    discarded: tuple[References, ...]


def match_states(old: Plan, new: Plan) -> StateMatch:
    """Compare the states of two plans of one query (section 4.1.1 and algorithm 1).

    >>> from anabranch.plan.tree import parse_plan
    >>> found = match_states(parse_plan("(((a b) c) d)"), parse_plan("(((b c) d) a)"))
    >>> [sorted(s) for s in found.recomputed], [sorted(s) for s in found.discarded]
    ([['b', 'c'], ['b', 'c', 'd']], [['a', 'b'], ['a', 'b', 'c']])
    """
    if frozenset(old.aliases) != frozenset(new.aliases):
        raise ValueError(f"{old} and {new} are not plans of one query: they join different references")
    before, after = list(_states(old)), list(_states(new))
    return StateMatch(
        matched=tuple(s for s in after if s in before),
        recomputed=tuple(s for s in after if s not in before),
        discarded=tuple(s for s in before if s not in after),
    )


def changed_joins(old: Plan, new: Plan) -> tuple[Join, ...]:
    """Joins of the new plan that the old one does not have: the box that has to be migrated (section 3).

    Joins below and above it join the same sides in both plans and could run once.

    >>> from anabranch.plan.tree import parse_plan
    >>> [str(j) for j in changed_joins(parse_plan("(((a b) c) d)"), parse_plan("(((b c) a) d)"))]
    ['(b c)', '((b c) a)']
    """
    known = {_sides(join) for join in joins(old)}
    return tuple(join for join in joins(new) if _sides(join) not in known)


@dataclass(frozen=True, slots=True)
class MigrationCost:
    """What one strategy is predicted to take.

    Attributes
    ----------
    duration_s
        From the start to the end; infinite if it never ends.
    silence_s
        For how long no results come.
    processing_s
        CPU seconds of the migrated joins while it lasts: the recomputation, or both tracks.
    cost_s
        Of these, what a site that had the new plan already would not have spent. Negative where the new
        plan is the dearer one and is put off, or where states become fewer blocks.
    """

    strategy: Strategy
    duration_s: float
    silence_s: float
    processing_s: float
    cost_s: float

    @property
    def feasible(self) -> bool:
        return math.isfinite(self.duration_s) and math.isfinite(self.cost_s)


def moving_state_cost(
    old: Plan, new: Plan, *, graph: JoinGraph, statistics: JoinStatistics, costs: UnitCosts
) -> MigrationCost:
    """Equation 3, T_MS = T_S: silence while unmatched states are recomputed."""
    estimates = Estimates(graph, statistics)
    anew = set(match_states(old, new).recomputed)
    block_probes = sum(
        rebuild_block_probes(frozenset(join.left.aliases), frozenset(join.right.aliases), estimates, anew)
        for join in joins(new)
        if frozenset(join.aliases) in anew
    )
    seconds = recompute_seconds(old, new, estimates, costs) + costs.block_probe_s * block_probes
    spared = costs.block_probe_s * sum(spared_block_probes(state, estimates) for state in anew)
    return MigrationCost(Strategy.MOVING_STATE, seconds, seconds, seconds, seconds - spared)


def recompute_seconds(old: Plan, new: Plan, estimates: Estimates, costs: UnitCosts) -> float:
    """T_S: equation 1 for every unmatched state, children first."""
    missing = frozenset(match_states(old, new).recomputed)
    return sum(
        _recompute(frozenset(join.left.aliases), frozenset(join.right.aliases), estimates, costs)
        for join in joins(new)
        if frozenset(join.aliases) in missing
    )


def parallel_track_cost(
    old: Plan,
    new: Plan,
    *,
    graph: JoinGraph,
    statistics: JoinStatistics,
    costs: UnitCosts,
    lateness_s: float = 0.0,
    rule: PurgeRule = PurgeRule.EXACT,
) -> MigrationCost:
    """Equations 5 and 6: both boxes process what arrives until the old rows are gone (equation 4).

    The box is the whole plan, because every track has states of its own (C7).
    """
    duration = parallel_track_duration(old, statistics, lateness_s=lateness_s, rule=rule)
    if isinstance(old, Probe) or isinstance(new, Probe):  # moving state is free to the one
        return MigrationCost(Strategy.PARALLEL_TRACK, math.inf, 0.0, math.inf, math.inf)
    if not changed_joins(old, new):
        return MigrationCost(Strategy.PARALLEL_TRACK, 0.0, 0.0, 0.0, 0.0)
    if not math.isfinite(duration):
        return MigrationCost(Strategy.PARALLEL_TRACK, math.inf, 0.0, math.inf, math.inf)
    old_box, new_box = tuple(joins(old)), tuple(joins(new))
    track = TrackCost(graph, statistics, costs, root=frozenset(new.aliases))
    processing = track.draining(old_box, duration) + track.filling(new_box, duration)
    cost = processing - track.running(new_box, duration)
    # Beside what its rows cost, either track goes through its blocks in every batch.
    probed = track.block_probes(old_box, duration, draining=True) + track.block_probes(
        new_box, duration, filling=True
    )
    processing += costs.block_probe_s * probed
    cost += costs.block_probe_s * (probed - track.block_probes(new_box, duration))
    return MigrationCost(Strategy.PARALLEL_TRACK, duration, 0.0, processing, cost)


def parallel_track_duration(
    old: Plan, statistics: JoinStatistics, *, lateness_s: float, rule: PurgeRule
) -> float:
    """T_PT, in seconds of event time.

    Exact expiry needs a window and the lateness. By the paper's rule, equation 4, it is W for a tree of
    one level and 2W for higher ones, whose upper states take in old rows for one more window.
    """
    window = statistics.longest_window_s
    if rule is PurgeRule.EXACT:
        return window + lateness_s
    return window if _height(old) <= 1 else 2 * window


def choose(moving: MigrationCost, parallel: MigrationCost, preference: Preference) -> MigrationCost | None:
    """The strategy to take: the cheaper, or the one that was asked for. None if there is none."""
    allowed = {
        Preference.AUTO: [moving, parallel],
        Preference.MOVING_STATE: [moving],
        Preference.PARALLEL_TRACK: [parallel],
        Preference.OFF: [],
    }[preference]
    return min((c for c in allowed if c.feasible), key=lambda c: (c.cost_s, c.duration_s), default=None)


def _recompute(left: References, right: References, estimates: Estimates, costs: UnitCosts) -> float:
    """Equation 1: T_S_AB = T_j |S_A| |S_B| + T_s |S_A| |S_B| σ_AB. Hashing saves T_j."""
    left_rows, right_rows, made = estimates.rows(left), estimates.rows(right), estimates.rows(left | right)
    on_key = bool(estimates.graph.shared_classes(left, right))
    work = Work(min(left_rows, right_rows), made if on_key else left_rows * right_rows, made)
    return work.seconds(costs) + costs.gather_s * (left_rows + right_rows)


def _states(plan: Plan) -> Iterator[References]:
    """What a plan keeps: the rows of its references, then of its joins but the root."""
    yield from (frozenset((alias,)) for alias in plan.aliases)
    yield from (frozenset(join.aliases) for join in joins(plan) if join is not plan)


def _sides(join: Join) -> frozenset[References]:
    return frozenset((frozenset(join.left.aliases), frozenset(join.right.aliases)))


def _height(plan: Plan) -> int:
    return 1 + max(_height(plan.left), _height(plan.right)) if isinstance(plan, Join) else 0
