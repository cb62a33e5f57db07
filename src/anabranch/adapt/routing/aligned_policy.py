"""Decides the segments of joins with aligned routing: who gets them, how long they are, which stream is the
master.

Only the future changes. A segment is in use once a row may have been routed by it: a master row by its own
segment, a row of slave i at time t by all up to `t + W_i`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.adapt.boundary.observed import Observed, StreamClock
from anabranch.adapt.events import Event, EventKind, instant
from anabranch.adapt.routing.load_value import Floats
from anabranch.adapt.routing.overhead import StreamRate, best_master, copies_per_second
from anabranch.adapt.routing.reference_clocks import clocks_of
from anabranch.adapt.routing.routing_state import AlignedState, Resting, salt_of
from anabranch.adapt.routing.segment_search import SegmentSearch
from anabranch.adapt.routing.site_loads import loads_beside
from anabranch.adapt.routing.turns import MATERIAL, busiest, cycle_of, lanes, turns
from anabranch.exchange.aligned_router import AlignedTable, Member, members_of
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import NOTHING, PartitionSet, union
from anabranch.plan.inputs import RoutedQuery

FEWER_COPIES = 1.25
"""Another master must copy so many times fewer rows."""
CONVINCED = 3
"""Boundaries in a row at which it must."""
RATE_MEMORY = 0.7
"""How much of a rate is what it was before the last step."""
PER_BATCH = 4
"""Segments of a batch per site, to begin with: so many of them even out what one has more than another."""
IN_REACH = 256
"""Segments that a row may meet at most."""


def fresh_aligned(name: str, known: AlignedState, partition_map: PartitionMap) -> AlignedState:
    """A join of which no row has been routed yet, spread over the sites."""
    lane_of = lanes(partition_map, (), NOTHING, salt=salt_of(name))
    cycle = cycle_of(sorted(lane_of), lane_of)
    table = AlignedTable.single(known.table.current.master, known.search.length, cycle)
    return replace(known, table=table)


def aligned_after(
    name: str,
    routed: RoutedQuery,
    known: AlignedState,
    observed: Observed,
    after: PartitionMap,
    *,
    taken: PartitionSet = NOTHING,
) -> tuple[AlignedState, tuple[Event, ...]]:
    """The segments of a join after a step.

    Parameters
    ----------
    after
        The partition map of the next step.
    taken
        Partitions that another router of this join has.
    """
    choice = _Choice(name, routed, known, observed, after, taken)
    return choice.made(), tuple(choice.events)


@dataclass(slots=True)
class _Choice:
    """The choice for one query."""

    query: str
    routed: RoutedQuery
    known: AlignedState
    observed: Observed
    after: PartitionMap
    taken: PartitionSet = NOTHING
    events: list[Event] = field(default_factory=list)

    def made(self) -> AlignedState:
        known, clocks = self.known, self._clocks()
        master = known.table.current.master
        free_from = first_free_time(self.members, clocks, master)
        if free_from is None:  # nothing has come yet
            return known
        table = known.table.without_before({m.alias: expiry_bound(m, clocks) for m in self.members})
        known = known.rested(clocks)
        if gone := list(known.table.used() - table.used()):
            known = replace(known, resting=(*known.resting, Resting.of(gone, self.members, clocks)))
        rates = rates_after(known.rates, clocks, self.observed.elapsed_s)
        known = replace(known, table=table, rates=rates)
        known = replace(known, search=self._searched(known))
        known = self._with_best_master(known, clocks)
        if known.table.current.master != master:
            return known
        length, cycle = known.search.wanted, self._cycle(known)
        before = known.table.current.segments.last
        if (length, cycle) == (before.length, before.cycle):
            return known
        table = known.table.continued(free_from, length=length, cycle=cycle)
        if length != before.length:  # which sites take turns is told by progress
            self._tell(table, free_from)
        return replace(known, table=table)

    @property
    def members(self) -> tuple[Member, ...]:
        return members_of(self.routed)

    def _clocks(self) -> dict[str, StreamClock]:
        return clocks_of(self.routed, self.observed)

    def _streams(self, known: AlignedState) -> dict[str, StreamRate]:
        windows = {m.alias: m.window_us / 1e6 for m in self.members}
        return {alias: StreamRate(known.rates.get(alias, 0.0), windows[alias]) for alias in windows}

    def _searched(self, known: AlignedState) -> SegmentSearch:
        """The search for the best length, which begins with what a batch brings."""
        search, observed = known.search, self.observed
        rows = sum(clock.rows for clock in self._clocks().values())
        if (
            observed.settings.routing == "hash"
            or self.after.sites == 1
            or not rows
            or observed.elapsed_s <= 0
        ):
            return search
        reach = max(m.window_us for m in self.members) * 2
        shortest = max(1, reach // IN_REACH)
        if not search.measured and not search.samples:
            usual = int(observed.elapsed_s * 1e6) // (PER_BATCH * self.after.sites)
            search = SegmentSearch(max(shortest, usual))
        newest = self._clocks()[known.table.current.master].newest
        if newest is None or newest < known.table.current.segments.last.start:
            return search  # what was decided last is not in force yet
        slowest = max((site.busy_s for site in observed.sites), default=0.0)
        found = search.observed(rows / max(slowest, 1e-6))
        return found if found.wanted >= shortest else replace(found, factor=1.0, samples=(), failed=1)

    def _cycle(self, known: AlignedState) -> tuple[int, ...]:
        """Who gets the next segments."""
        current = known.table.current
        in_use = tuple(dict.fromkeys(reversed([p for run in current.segments.runs for p in run.cycle])))
        taken = union(reign.segments.used() for reign in known.table.reigns[:-1])
        taken = taken | (known.at_rest - current.segments.used()) | self.taken
        return self._turns(current.segments.last.cycle, in_use, taken)

    def _turns(
        self, before: tuple[int, ...], in_use: tuple[int, ...], taken: PartitionSet
    ) -> tuple[int, ...]:
        lane_of = lanes(self.after, in_use, taken, salt=salt_of(self.query))
        if not lane_of:
            return before
        if self.observed.settings.routing == "hash":
            return (lane_of[min(lane_of)],) if len(before) > 1 else before
        sites = sorted(lane_of)
        loads, segment, segments = self._loads()
        order = tuple(sites[i] for i in turns(loads[sites], segment))
        now = [self.after.site_of_partition[p] for p in before]
        if set(now) == set(order) and set(before) == {lane_of[site] for site in order}:
            better = busiest(loads, order, segment, segments)
            if busiest(loads, now, segment, segments) <= MATERIAL * better:
                return before
        return cycle_of(order, lane_of)

    def _loads(self) -> tuple[Floats, float, float]:
        """What sites do beside this query, what a segment takes, and how many segments a step has."""
        loads, own = loads_beside(self.query, self.observed, self.after.sites)
        last = self.known.table.current.segments.last
        segments = max(1.0, self.observed.elapsed_s * 1e6 / last.length)
        return loads, own / segments, segments

    def _with_best_master(self, known: AlignedState, clocks: Mapping[str, StreamClock]) -> AlignedState:
        """Change the master where another one copies much less, for a while, and no change is under way."""
        streams, here = self._streams(known), known.table.current.master
        best = best_master(streams)
        costs = [copies_per_second(streams, alias, 1.0) for alias in (here, best)]
        if best == here or costs[0] <= FEWER_COPIES * costs[1] or len(known.table.reigns) > 1:
            return replace(known, wanted_master=("", 0))
        wanted, times = known.wanted_master
        times = times + 1 if wanted == best else 1
        if times < CONVINCED or self.after.sites == 1:
            return replace(known, wanted_master=(best, times))
        master = next(m for m in self.members if m.alias == best)
        at = switch_time(self.members, clocks, here, master)
        cycle = self._turns((), (), known.table.used() | known.at_rest | self.taken)
        if not cycle:
            return known
        table = known.table.switched(master, at, length=known.search.wanted, cycle=cycle)
        message = (
            f"query {self.query}: {best} becomes the master instead of {here} at {instant(at)}, "
            f"which copies {costs[0] / max(costs[1], 1e-9):.1f} times fewer rows"
        )
        data = {"query": self.query, "master": best, "before": here, "at_us": at}
        self.events.append(Event(self.observed.batch, EventKind.ROUTING_CHANGED, message, data))
        return replace(known, table=table, wanted_master=("", 0))

    def _tell(self, table: AlignedTable, free_from: int) -> None:
        run = table.current.segments.last
        message = (
            f"query {self.query}: segments of {table.current.master} are {run.length / 1e6:g} s long from "
            f"{instant(run.start)} on"
        )
        data = {
            "query": self.query,
            "length_us": run.length,
            "sites": len(set(run.cycle)),
            "from_us": free_from,
        }
        self.events.append(Event(self.observed.batch, EventKind.ROUTING_CHANGED, message, data))


def rates_after(
    known: Mapping[str, float], clocks: Mapping[str, StreamClock], elapsed_s: float
) -> dict[str, float]:
    """Rows per second of the references."""
    if elapsed_s <= 0:
        return dict(known)
    now = {alias: clock.rows / elapsed_s for alias, clock in clocks.items()}
    before = known or now
    return {a: RATE_MEMORY * before.get(a, rate) + (1 - RATE_MEMORY) * rate for a, rate in now.items()}


def expiry_bound(master: Member, clocks: Mapping[str, StreamClock]) -> int:
    """Segments of a master that end before or at this time may go."""
    bound = []
    for alias, clock in clocks.items():
        if clock.watermark is None:
            return 0
        bound.append(clock.watermark - (0 if alias == master.alias else master.window_us))
    return max(0, min(bound))


def first_free_time(
    members: tuple[Member, ...], clocks: Mapping[str, StreamClock], master: str
) -> int | None:
    """The first time of master rows by whose segment no row has been routed."""
    reached = [
        newest + (0 if m.alias == master else m.window_us)
        for m in members
        if (newest := clocks[m.alias].newest) is not None
    ]
    return max(reached) + 1 if reached else None


def switch_time(members: tuple[Member, ...], clocks: Mapping[str, StreamClock], old: str, new: Member) -> int:
    """The first time at which the new master may take over.

    Its segments begin a window before that, and rows of others reach a window ahead: none of those may have
    been routed.
    """
    ahead = {m.alias: new.window_us + m.window_us for m in members}
    ahead |= {old: 0, new.alias: new.window_us}
    known = [n + ahead[m.alias] for m in members if (n := clocks[m.alias].newest) is not None]
    return max(known) + 1
