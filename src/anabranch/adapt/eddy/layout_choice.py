"""How a join without a common key runs: on one site, at stations in one order, or at stations as an eddy.

    one site      what a tree takes, all of it
    fixed order   what stations take, shared by the sites, and a hop for every further group of stations:
                  a hash tree whose rows travel by the key of each join
    eddy          the same, less what rows gain by orders of their own, more what finding these out costs

What a hop costs is not guessed: of the time of a step in which no site works, every hop of the step has its
part. A join changes between one site and stations when the other way has been clearly cheaper for a while,
because a change reads all that it keeps once more. Between the two orders nothing moves: an order is fixed
when an eddy has gained nothing for a while, and given up as soon as a station surprises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from anabranch.adapt.eddy.order_costs import OrderCosts
from anabranch.adapt.eddy.station_work import StationWork
from anabranch.adapt.measures.site_report import SiteReport

CLEARLY = 1.5
"""How many times as much the present way has to cost before state is read once more."""
BOUNDARIES = 12
"""For so many steps in a row."""
FADE = 1.1
"""What becomes of a short overhead with each step."""
HOP_SHARE = 0.5
"""Of the time in which no site works, what is the hops': the rest is planning and committing."""


class Way(StrEnum):
    """How a join without a common key runs."""

    ONE_SITE = "one site"
    FIXED = "fixed order"
    EDDY = "eddy"


@dataclass(frozen=True, slots=True)
class EitherWay:
    """A join that can run at stations and on one site."""

    query: str
    at_stations: bool
    hops: int
    """That its rows may take at stations, the first included."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A join, and what each way would take: CPU time of the busiest site, and hops.

    Attributes
    ----------
    for_steps
        For how many steps in a row another way has been cheaper.
    """

    query: str
    runs: Way
    costs_s: Mapping[Way, float]
    for_steps: int = 0

    @property
    def cheapest(self) -> Way:
        return min(self.costs_s, key=self.costs_s.__getitem__)

    def to_json(self) -> dict[str, Any]:
        costs = {str(way): round(1000 * cost, 3) for way, cost in self.costs_s.items()}
        told = {"query": self.query, "runs": str(self.runs), "cheapest": str(self.cheapest)}
        return told | {"forSteps": self.for_steps, "costsMs": costs}


@dataclass(frozen=True, slots=True)
class LayoutVotes:
    """A value: each step gives another one.

    Attributes
    ----------
    votes
        By query, for how many steps in a row the other layout would have been clearly cheaper.
    orders
        By query at stations, for how many steps in a row the other kind of order would have been cheaper.
    fixed
        Queries whose rows all take the same order.
    overhead_s
        Time of a step in which no site works. A machine that is busy with other things makes it longer, so
        that short ones count, and fade slowly.
    weighed
        What was compared last.
    held
        By query that is to change and cannot yet, why.
    work
        What joins take at stations, where their trees take 1.
    """

    votes: Mapping[str, int] = field(default_factory=dict)
    orders: Mapping[str, int] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    overhead_s: float = math.inf
    weighed: Mapping[str, Weighed] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    work: StationWork = field(default_factory=StationWork)

    def after(
        self,
        joins: Sequence[EitherWay],
        reports: Sequence[SiteReport],
        orders: Mapping[str, OrderCosts],
        *,
        sites: int,
        slots: int,
        overhead_s: float,
    ) -> tuple[LayoutVotes, dict[str, bool]]:
        """The votes after a step, and by query that is to change, whether it is to run at stations.

        Parameters
        ----------
        orders
            By query at stations of which enough is known, what orders cost.
        slots
            With one, rows do not travel, and nothing is to be gained by another layout.
        overhead_s
            Time of the step in which no site worked.
        """
        if not joins:
            return LayoutVotes(held=self.held), {}
        work = self.work.of(frozenset(join.query for join in joins)).after(_busy_s(joins, reports))
        step_hops = max((join.hops for join in joins if join.at_stations), default=1)
        overhead_s = min(overhead_s, FADE * self.overhead_s)
        hop_s = 0.0 if slots == 1 else HOP_SHARE * overhead_s / step_hops
        votes, order_votes, weighed = dict[str, int](), dict[str, int](), dict[str, Weighed]()
        fixed, wanted = set[str](), dict[str, bool]()
        for join in joins:
            name, known = join.query, orders.get(join.query)
            is_fixed, order_votes[name] = self._order(join, known)
            fixed |= {name} if is_fixed else set()
            runs = _way(join, fixed=name in self.fixed)
            costs_s = _costs_s(join, reports, known, runs, sites=sites, hop_s=hop_s, station_work=work.ratio)
            if costs_s is None:  # a step without rows says nothing
                votes[name] = self.votes.get(name, 0)
                continue
            votes[name] = self.votes.get(name, 0) + 1 if slots > 1 and _should_change(runs, costs_s) else 0
            if votes[name] >= BOUNDARIES:
                wanted[name] = not join.at_stations
            for_steps = max(votes[name], order_votes[name])
            weighed[name] = Weighed(name, _way(join, fixed=is_fixed), costs_s, for_steps)
        overhead_s = math.inf if slots == 1 else overhead_s
        after = LayoutVotes(votes, order_votes, frozenset(fixed), overhead_s, weighed, self.held, work)
        return after, wanted

    def _order(self, join: EitherWay, costs: OrderCosts | None) -> tuple[bool, int]:
        """Whether all rows of a join are to take one order from now on, and votes for the other."""
        is_fixed = join.at_stations and join.query in self.fixed
        if not join.at_stations or costs is None or costs.surprised:
            return False, 0
        votes = self.orders.get(join.query, 0) + 1 if costs.fixed_is_cheaper != is_fixed else 0
        return (not is_fixed, 0) if votes >= BOUNDARIES else (is_fixed, votes)

    def to_json(self) -> dict[str, Any]:
        if not self.votes and not self.held:
            return {}
        return {
            "held": dict(self.held),
            "votes": dict(self.votes),
            "orders": dict(self.orders),
            "fixed": sorted(self.fixed),
            "overheadS": None if math.isinf(self.overhead_s) else self.overhead_s,
            "weighed": [weighed.to_json() for weighed in self.weighed.values()],
            "work": self.work.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LayoutVotes:
        """Go on where a manifest left off; what was weighed is told there, and weighed anew here."""
        overhead_s = data.get("overheadS")
        return cls(
            dict(data.get("votes", {})),
            dict(data.get("orders", {})),
            frozenset(data.get("fixed", ())),
            math.inf if overhead_s is None else overhead_s,
            held=dict(data.get("held", {})),
            work=StationWork.from_json(data.get("work", {})),
        )


def _way(join: EitherWay, *, fixed: bool) -> Way:
    if not join.at_stations:
        return Way.ONE_SITE
    return Way.FIXED if fixed else Way.EDDY


def _should_change(runs: Way, costs_s: Mapping[Way, float]) -> bool:
    """Whether the other layout, in its better order, is clearly cheaper."""
    at_stations = min(cost for way, cost in costs_s.items() if way is not Way.ONE_SITE)
    alone = costs_s[Way.ONE_SITE]
    now, other = (alone, at_stations) if runs is Way.ONE_SITE else (costs_s[runs], alone)
    return now > CLEARLY * other


def _at_stations_s(query: str, reports: Sequence[SiteReport]) -> float:
    return sum(report.at_stations_s.get(query, 0.0) for report in reports)


def _as_tree_s(query: str, reports: Sequence[SiteReport]) -> list[float]:
    """By site."""
    return [report.joins[query].busy_s for report in reports if query in report.joins]


def _busy_s(joins: Sequence[EitherWay], reports: Sequence[SiteReport]) -> dict[str, tuple[bool, float]]:
    """By join that did something, whether it is at stations, and CPU seconds of all sites."""
    found = {}
    for join in joins:
        name = join.query
        busy_s = _at_stations_s(name, reports) if join.at_stations else sum(_as_tree_s(name, reports))
        if busy_s:
            found[name] = join.at_stations, busy_s
    return found


def _costs_s(
    join: EitherWay,
    reports: Sequence[SiteReport],
    orders: OrderCosts | None,
    runs: Way,
    *,
    sites: int,
    hop_s: float,
    station_work: float,
) -> dict[Way, float] | None:
    """What each way takes, of those that are known; None after a step in which the join did nothing."""
    hops_s = (join.hops - 1) * hop_s
    if join.at_stations:
        busy_s = _at_stations_s(join.query, reports)
        costs = {Way.ONE_SITE: busy_s / station_work, runs: busy_s / sites + hops_s}
        if orders is not None:
            other = Way.EDDY if runs is Way.FIXED else Way.FIXED
            ratio = orders.fixed / orders.eddy
            costs[other] = busy_s / sites * (1 / ratio if runs is Way.FIXED else ratio) + hops_s
    else:
        trees = _as_tree_s(join.query, reports)
        busy_s = sum(trees)
        # Segments of time may have spread it: what counts is the busiest site.
        costs = {Way.ONE_SITE: max(trees, default=0.0), Way.EDDY: station_work * busy_s / sites + hops_s}
    return costs if busy_s else None
