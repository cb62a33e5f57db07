"""What a track costs over a stretch of event time that starts with a migration: running, draining, filling.

CAPE, equations 5 to 7, in our terms: hash joins, and old tracks as in
`operators.join.sources.ending_rows`.
"""

from __future__ import annotations

import math

from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.cost.plan_cost import UnitCosts, Work, join_work
from anabranch.plan.cost.probe_counts import TRACK, crossing_block_probes, join_block_probes
from anabranch.plan.crossing import cross_by_probing, crossings
from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import References
from anabranch.plan.tree import Join


class TrackCost:
    """Work of joins over a stretch of event time that starts with a migration."""

    def __init__(
        self, graph: JoinGraph, statistics: JoinStatistics, costs: UnitCosts, *, root: References
    ) -> None:
        self._now = Estimates(graph, statistics)
        self._later = Estimates(graph, statistics.settled())
        self._window_s = statistics.longest_window_s
        self._costs = costs
        self._root = root

    def running(self, box: tuple[Join, ...], duration_s: float) -> float:
        """A plan as usual: its states go from today's size to that of today's rates, which takes a window.

        In steady state both are the same.
        """
        now, later = self._seconds(box, self._now), self._seconds(box, self._later)
        return self._over(duration_s, (now + later) / 2, later)

    def draining(self, box: tuple[Join, ...], duration_s: float) -> float:
        """Equation 5, the old track.

        At time t < W, 1 - (t/W)^(m-1) of the rows of a join over m references have an old member: all but 1/m
        on average. Those are all that the top makes, and every join where crossings are found by probing.
        After a window it makes nothing any more.
        """
        first = (self._draining(box, self._now) + self._draining(box, self._later)) / 2
        return self._over(duration_s, first, 0.0)

    def filling(self, box: tuple[Join, ...], duration_s: float) -> float:
        """Equation 6, the new track: its states start empty and are full after a window.

        At time t < W a state over m references has (t/W)^m of its rows and grows by (t/W)^(m-1) of its
        rate (equation 7 for m = 2): 1/m of it on average.
        """
        full = self._seconds(box, self._later)
        return self._over(duration_s, self._seconds(box, self._later, empty_at_first=True), full)

    def block_probes(
        self, box: tuple[Join, ...], duration_s: float, *, filling: bool = False, draining: bool = False
    ) -> float:
        """Block probes of its joins to blocks; states go from today's size to that of today's rates."""
        batch_s = self._now.statistics.batch_s
        if batch_s <= 0:
            return 0.0
        sides = [(frozenset(join.left.aliases), frozenset(join.right.aliases)) for join in box]
        later = math.fsum(join_block_probes(*pair, self._later) for pair in sides)
        if filling:
            first = math.fsum(join_block_probes(*pair, self._later, filling=True) for pair in sides)
        else:
            first = (math.fsum(join_block_probes(*pair, self._now) for pair in sides) + later) / 2
        if draining and cross_by_probing(self._now.graph, box):
            first += math.fsum(
                crossing_block_probes(
                    side.aliases,
                    frozenset(other.aliases),
                    self._now,
                    pairs=_crossing_pairs(side, self._now),
                )
                for join in box
                for side, other in crossings(join)
            )
        return (TRACK * duration_s + self._over(duration_s, first, later)) / batch_s

    def _over(self, duration_s: float, first_window: float, afterwards: float) -> float:
        turning = min(self._window_s, duration_s)
        return turning * first_window + (duration_s - turning) * afterwards

    def _draining(self, box: tuple[Join, ...], estimates: Estimates) -> float:
        """Seconds per second."""
        total, probing = 0.0, cross_by_probing(estimates.graph, box)
        for join in box:
            left, right = frozenset(join.left.aliases), frozenset(join.right.aliases)
            both = left | right
            work = join_work(left, right, estimates, kept=both != self._root)
            probes = sum(
                estimates.rate(side) * (1 if len(side) == 1 else 1 - 1 / len(side)) for side in (left, right)
            )
            made = 1 - 1 / len(both)
            pairs = work.pairs * made
            if probing:
                pairs += sum(_crossing_pairs(side, estimates) for side, _ in crossings(join))
            elif any(both < frozenset(other.aliases) for other in box):
                made, pairs, probes = 1.0, work.pairs, work.probes  # new rows are made and kept, too
            total += Work(probes, pairs, work.inserts * made).seconds(self._costs)
        return total

    def _seconds(self, box: tuple[Join, ...], estimates: Estimates, *, empty_at_first: bool = False) -> float:
        """Seconds per second."""
        total = 0.0
        for join in box:
            left, right = frozenset(join.left.aliases), frozenset(join.right.aliases)
            both = left | right
            work = join_work(left, right, estimates, kept=both != self._root)
            probes, made = work.probes, 1.0
            if empty_at_first:
                probes = estimates.rate(left) / len(left) + estimates.rate(right) / len(right)
                made = 1 / len(both)
            total += Work(probes, work.pairs * made, work.inserts * made).seconds(self._costs)
        return total


def _crossing_pairs(side: Join, estimates: Estimates) -> float:
    """Pairs a second on the way from new rows of one side to old rows of the other.

    As old rows become fewer and new ones more, probes go by way of whichever are fewer: a quarter of the
    pairs that the side would make with full states.
    """
    left, right = frozenset(side.left.aliases), frozenset(side.right.aliases)
    return join_work(left, right, estimates, kept=False).pairs / 4
