"""Both strategies of a rebalancing compared by the critical path: the seconds of the busiest site.

Sites work side by side, so that what several receivers recompute at once is waited for once, and what a
sender does for partitions that have left it counts in full, because it is the busiest already
(D-CAPE, section 5.3). Over the time that parallel tracks would last:

    moving state     busiest site with the partitions where they go  +  most that a site copies and recomputes
    parallel track   busiest site, the senders draining, the receivers filling
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.plan.cost.estimates import JoinStatistics
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.cost.plan_cost import UnitCosts
from anabranch.plan.cost.relocation_cost import (
    Relocation,
    moving_state_relocation,
    parallel_track_relocation,
    running_seconds,
    track_block_probes,
)
from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import Plan


@dataclass(slots=True)
class RelocationPath:
    """Seconds that every site is predicted to be busy.

    Attributes
    ----------
    usual
        With the partitions where they go, as if they had always been there.
    at_once
        What moving state adds, in the next batch.
    beside
        What parallel tracks add; less than nothing at a receiver, whose states fill from empty.
    """

    usual: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    at_once: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    beside: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(
        self,
        plans: Mapping[int, Plan],
        moves: Mapping[tuple[int, int], float],
        *,
        graph: JoinGraph,
        known: Mapping[int, JoinStatistics],
        costs: UnitCosts,
        lateness_s: float,
        copy_row_s: float,
    ) -> None:
        """Count a query.

        Parameters
        ----------
        plans
            Of every site.
        moves
            By sender and receiver, the share of the sender's rows that goes.
        known
            Statistics by site, where there are any.
        """
        duration_s = max((s.longest_window_s for s in known.values()), default=0.0) + lateness_s
        staying = dict.fromkeys(plans, 1.0)
        for (source, target), share in moves.items():
            staying[source] -= share
            if (statistics := known.get(source)) is None:
                continue
            move = Relocation(plans[source], plans[target], share, copy_row_s)
            moving = moving_state_relocation(move, graph=graph, statistics=statistics, costs=costs)
            parallel = parallel_track_relocation(
                move, graph=graph, statistics=statistics, costs=costs, lateness_s=lateness_s
            )
            for seconds, cost in ((self.at_once, moving), (self.beside, parallel)):
                seconds[source] += cost.sender_s
                seconds[target] += cost.receiver_s
            usual = running_seconds(
                plans[target], duration_s, graph=graph, statistics=statistics, costs=costs
            )
            self.usual[target] += share * usual
        for site, statistics in known.items():
            its = running_seconds(plans[site], duration_s, graph=graph, statistics=statistics, costs=costs)
            block_probes = track_block_probes(
                plans[site], duration_s, graph=graph, statistics=statistics, costs=costs
            )
            self.usual[site] += staying[site] * its + block_probes
            if any(site in move for move in moves):  # a second track goes through blocks of its own
                self.beside[site] += block_probes

    @property
    def seconds(self) -> dict[Strategy, float]:
        """The critical path by strategy."""
        sites = self.usual.keys() | self.at_once.keys() | self.beside.keys()
        usual = max((self.usual[site] for site in sites), default=0.0)
        return {
            Strategy.MOVING_STATE: usual + max((self.at_once[site] for site in sites), default=0.0),
            Strategy.PARALLEL_TRACK: max(
                (self.usual[site] + max(self.beside[site], -self.usual[site]) for site in sites), default=0.0
            ),
        }

    @property
    def cheaper(self) -> Strategy:
        return min(Strategy, key=lambda strategy: self.seconds[strategy])
