"""A decider that routes at random: other routers, segments, places and masters at every boundary."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider, Decider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed, StreamClock
from anabranch.adapt.routing.aligned_policy import expiry_bound, first_free_time, switch_time
from anabranch.adapt.routing.coordinated_state import CoordinatedState
from anabranch.adapt.routing.routing_choice import choose_routing
from anabranch.adapt.routing.routing_state import AlignedState
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.aligned_router import FAR, members_of
from anabranch.plan.inputs import RoutedQuery

LENGTHS = (1, 150_000, 900_000, 1_000_000, 5_000_000, 60_000_000)


class RestlessRouting:
    """Decides as another decider does, and besides changes all routing tables for no reason at all."""

    def __init__(
        self,
        seed: int,
        decider: Decider | None = None,
        routers: Sequence[str] = ("aligned", "coordinated", "auto"),
    ) -> None:
        self._seed = seed
        self._routers = routers
        self._decider = decider or AdaptiveDecider()

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        return self._decider.start(state, observed)

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        known = state.routing
        state, decisions = self._decider.decide(state, observed)
        draw = random.Random(f"{self._seed} {observed.batch} {observed.step} routing")
        asked = replace(observed.settings, routing=draw.choice(self._routers))
        here = replace(observed, settings=asked)
        routing, _ = choose_routing(known, here, decisions.partition_map)
        queries, aligned, coordinated = observed.joins.queries, {}, {}
        for name, on_paths in routing.coordinated.items():
            taken = routing.aligned[name].table.used() if name in routing.aligned else ()
            coordinated[name] = _other_places(draw, on_paths, list(taken))
        for name, its in routing.aligned.items():
            taken = coordinated[name].used() if name in coordinated else frozenset()
            aligned[name] = _changed(draw, its, queries[name], observed, [*taken, *its.at_rest])
        return replace(state, routing=replace(routing, aligned=aligned, coordinated=coordinated)), decisions


def _other_places(draw: random.Random, known: CoordinatedState, taken: Sequence[int]) -> CoordinatedState:
    free = [p for p in range(PARTITIONS) if p not in set(taken)]
    lanes = known.lanes
    if draw.random() < 0.6:
        lanes = tuple(draw.sample(free, draw.choice((1, 2, 5, 9))))
    loads = {place: draw.random() for place in lanes}
    return replace(known, lanes=lanes, loads=loads, length=draw.choice((1, 1000, 700_000)))


def _changed(
    draw: random.Random,
    known: AlignedState,
    routed: RoutedQuery,
    observed: Observed,
    theirs: Sequence[int] = (),
) -> AlignedState:
    if known.table.current.end < FAR:  # coordinated from then on
        return known
    members = members_of(routed)
    clocks = {ref.alias: observed.clocks.get(ref.stream, StreamClock()) for ref in routed.query.refs}
    table = known.table
    if draw.random() < 0.7:
        table = table.without_before({m.alias: expiry_bound(m, clocks) for m in members})
    length = draw.choice(LENGTHS)
    shortest = max(m.window_us for m in members) // 200 + 1
    length = max(length, shortest)
    here = table.current.master
    free_from = first_free_time(members, clocks, here)
    if free_from is not None and draw.random() < 0.7:
        taken = [*theirs, *(p for r in table.reigns[:-1] for p in r.segments.used())]
        table = table.continued(free_from, length=length, cycle=_cycle(draw, taken))
    if free_from is not None and draw.random() < 0.3:
        master = draw.choice(members)
        if master.alias != here:
            at = switch_time(members, clocks, here, master)
            # Not before the reign that ends has begun.
            if at > table.current.begin:
                table = table.switched(
                    master, at, length=length, cycle=_cycle(draw, [*table.used(), *theirs])
                )
    return replace(known, table=table)


def _cycle(draw: random.Random, taken: Sequence[int]) -> tuple[int, ...]:
    free = [p for p in range(PARTITIONS) if p not in set(taken)]
    few = draw.sample(free, min(len(free), draw.choice((1, 2, 5, 12))))
    return tuple(draw.choice(few) for _ in range(draw.choice((1, 3, 8))))
