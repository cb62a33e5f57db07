"""Which router a join has that no key spreads, and how it changes to another one while it runs.

A change is a time, beyond every row that has been routed. Results are shared out by the rows of one
reference, the *gate*: those with a gate row before that time are found as before, all others by the new
router. Rows that may belong to both go to both, for about a window. For one that was aligned the gate is its
master, for one that becomes so the master to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.adapt.boundary.observed import Observed, StreamClock
from anabranch.adapt.events import Event, EventKind, instant
from anabranch.adapt.routing.aligned_policy import (
    aligned_after,
    expiry_bound,
    fresh_aligned,
    rates_after,
)
from anabranch.adapt.routing.coordinated_policy import coordinated_after, lanes_for
from anabranch.adapt.routing.coordinated_state import CoordinatedState
from anabranch.adapt.routing.overhead import StreamRate, best_master
from anabranch.adapt.routing.reference_clocks import clocks_of
from anabranch.adapt.routing.router_costs import RouterCosts, router_costs
from anabranch.adapt.routing.routing_state import AlignedState, Resting, RoutingState
from anabranch.adapt.routing.segment_search import SegmentSearch
from anabranch.exchange.aligned_router import FAR, AlignedTable, Member, Reign, members_of
from anabranch.exchange.coordinated_router import ALWAYS, Gate
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import NOTHING, PartitionSet
from anabranch.exchange.segments import Segments
from anabranch.plan.inputs import RoutedQuery

CHEAPER = 1.25
"""Another router must copy so many times fewer rows."""
CONVINCED = 3
"""Boundaries in a row at which it must."""


def start_routing(state: RoutingState, observed: Observed, partition_map: PartitionMap) -> RoutingState:
    """Spread joins of which no row has been routed yet over the sites."""
    if observed.settings.routing == "hash":
        return state
    aligned, coordinated = dict(state.aligned), dict(state.coordinated)
    for name in state.fresh:
        routed = observed.joins.queries[name]
        costs = router_costs(routed, {}, partition_map.sites)
        if _wanted(observed.settings.routing, partition_map.sites, costs) == "coordinated":
            aligned.pop(name, None)
            lanes = lanes_for(name, partition_map, (), NOTHING)
            coordinated[name] = CoordinatedState.new(routed, lanes)
        else:
            aligned[name] = fresh_aligned(name, aligned[name], partition_map)
    return RoutingState(aligned, coordinated)


def choose_routing(
    state: RoutingState, observed: Observed, after: PartitionMap
) -> tuple[RoutingState, tuple[Event, ...]]:
    """What routing does from the next step on.

    Parameters
    ----------
    after
        The partition map of the next step.
    """
    aligned, coordinated, convinced, events = {}, {}, {}, list[Event]()
    for name in {**state.aligned, **state.coordinated}:
        choice = _Choice(name, observed.joins.queries[name], observed, after)
        choice.aligned, choice.coordinated = state.aligned.get(name), state.coordinated.get(name)
        choice.make(state.convinced.get(name, 0))
        if choice.aligned is not None:
            aligned[name] = choice.aligned
        if choice.coordinated is not None:
            coordinated[name] = choice.coordinated
        convinced[name] = choice.convinced
        events += choice.events
    return RoutingState(aligned, coordinated, convinced=convinced), tuple(events)


def _wanted(setting: str, sites: int, costs: RouterCosts) -> str:
    """The router that a user asks for, or the cheaper one."""
    if sites == 1 or setting in ("hash", "aligned"):
        return "aligned"
    if setting == "coordinated":
        return "coordinated"
    return "coordinated" if costs.aligned > CHEAPER * costs.coordinated else "aligned"


@dataclass(slots=True)
class _Choice:
    """The choice for one query."""

    query: str
    routed: RoutedQuery
    observed: Observed
    after: PartitionMap
    aligned: AlignedState | None = None
    coordinated: CoordinatedState | None = None
    convinced: int = 0
    events: list[Event] = field(default_factory=list)

    def make(self, convinced: int) -> None:
        clocks = self._clocks()
        rates = rates_after(self._rates(), clocks, self.observed.elapsed_s)
        if self.coordinated is not None:
            self.coordinated = coordinated_after(
                self.coordinated,
                self.routed,
                self.observed,
                self.after,
                clocks=clocks,
                rates=rates,
                taken=NOTHING if self.aligned is None else self.aligned.table.used(),
            )
        if self.aligned is not None:
            taken = PartitionSet.of(() if self.coordinated is None else self.coordinated.used())
            if self.aligned.table.current.end == FAR:
                self.aligned, told = aligned_after(
                    self.query, self.routed, self.aligned, self.observed, self.after, taken=taken
                )
                self.events += told
            else:
                self.aligned = replace(self.aligned, rates=rates)
        self._end_change(clocks)
        if (self.aligned is None) == (self.coordinated is None):
            return  # a change is under way
        if self.aligned is not None:
            self.aligned = replace(self.aligned, table=self.aligned.table.opened())
        self._change(clocks, rates, convinced)

    @property
    def members(self) -> tuple[Member, ...]:
        return members_of(self.routed)

    def _clocks(self) -> dict[str, StreamClock]:
        return clocks_of(self.routed, self.observed)

    def _rates(self) -> Mapping[str, float]:
        known = self.coordinated if self.aligned is None else self.aligned
        return {} if known is None else known.rates

    def _end_change(self, clocks: Mapping[str, StreamClock]) -> None:
        """Forget the router whose results are all found."""
        if self.aligned is None or self.coordinated is None:
            return
        current, marks = self.aligned.table.current, [c.watermark for c in clocks.values()]
        if current.end < FAR:
            master = next(m for m in self.members if m.alias == current.master)
            if current.end <= expiry_bound(master, clocks):
                self.aligned = None
                self.coordinated = replace(self.coordinated, gate=ALWAYS)
            return
        gate = self.coordinated.gate
        bounds = [(gate.bounds(m, self.members)[1], clocks[m.alias].watermark) for m in self.members]
        if None not in marks and all(mark is not None and mark >= end for end, mark in bounds):
            left = Resting.of(self.coordinated.used(), self.members, clocks)
            self.aligned = replace(self.aligned, resting=(*self.aligned.resting, left))
            self.coordinated = None

    def _change(self, clocks: Mapping[str, StreamClock], rates: Mapping[str, float], convinced: int) -> None:
        """Change to the router that is wanted, once it has been so for a while, or a user asks for it."""
        setting, sites = self.observed.settings.routing, self.after.sites
        elapsed_s = self.observed.elapsed_s
        if setting == "auto" and sites > 1 and elapsed_s <= 0:
            self.convinced = convinced
            return  # a further step, which says nothing about rates
        costs = router_costs(
            self.routed, rates, sites, self.aligned, self.coordinated, elapsed_s=elapsed_s or 1.0
        )
        here = "aligned" if self.coordinated is None else "coordinated"
        wanted = _wanted(setting, sites, costs)
        if setting == "auto" and here == "coordinated" and costs.coordinated <= CHEAPER * costs.aligned:
            wanted = here if sites > 1 else wanted
        if wanted == here:
            return
        self.convinced = convinced + 1
        if setting == "auto" and sites > 1 and self.convinced < CONVINCED:
            return
        at = (
            self._become_coordinated(clocks, rates)
            if wanted == "coordinated"
            else self._become_aligned(clocks, rates)
        )
        if at is not None:  # else another change has to end first
            self.convinced = 0
            self._tell(here, wanted, at, costs)

    def _become_coordinated(
        self, clocks: Mapping[str, StreamClock], rates: Mapping[str, float]
    ) -> int | None:
        assert self.aligned is not None
        if len(self.aligned.table.reigns) > 1:
            return None
        lanes = lanes_for(self.query, self.after, (), self.aligned.table.used())
        if not lanes:
            return None
        current = self.aligned.table.current
        at = change_time(self.members, clocks)
        if at is None:
            self.aligned, gate = None, ALWAYS
        else:
            if at <= current.begin:
                return None
            gate = Gate(opened=(current.master, at))
            self.aligned = replace(self.aligned, table=AlignedTable((replace(current, end=at),)))
        fresh = CoordinatedState.new(self.routed, lanes, gate)
        marks = {alias: clock.watermark for alias, clock in clocks.items()}
        self.coordinated = replace(fresh, rates=dict(rates), watermarks=marks)
        return at or 0

    def _become_aligned(self, clocks: Mapping[str, StreamClock], rates: Mapping[str, float]) -> int | None:
        assert self.coordinated is not None
        fresh = AlignedState.new(self.routed)
        streams = {m.alias: StreamRate(rates.get(m.alias, 1.0), m.window_us / 1e6) for m in self.members}
        master = best_master(streams)
        cycle = lanes_for(self.query, self.after, (), PartitionSet.of(self.coordinated.used()))
        if not cycle:
            return None
        at = change_time(self.members, clocks)
        begin = 0 if at is None else at
        length = fresh.search.length
        table = AlignedTable((Reign(master, Segments.cycling(length, cycle, begin), begin),))
        self.aligned = AlignedState(table, SegmentSearch(length), dict(rates))
        if at is None:
            self.coordinated = None
        else:
            self.coordinated = replace(self.coordinated, gate=Gate(closed=(master, at)))
        return begin

    def _tell(self, before: str, after: str, at: int, costs: RouterCosts) -> None:
        message = (
            f"query {self.query}: {after} routing instead of {before} from {instant(at)} on; rows that "
            f"travel beside the first copies, per second: {costs.aligned:,.0f} aligned, "
            f"{costs.coordinated:,.0f} coordinated"
        )
        data = {
            "query": self.query,
            "router": after,
            "before": before,
            "at_us": at,
            "aligned_rows_per_s": costs.aligned,
            "coordinated_rows_per_s": costs.coordinated,
        }
        self.events.append(Event(self.observed.batch, EventKind.ROUTING_CHANGED, message, data))


def change_time(members: tuple[Member, ...], clocks: Mapping[str, StreamClock]) -> int | None:
    """The first time of gate rows that no row which has been routed may meet; None before the first row."""
    reached = [
        newest + member.window_us for member in members if (newest := clocks[member.alias].newest) is not None
    ]
    return max(reached) + 1 if reached else None
