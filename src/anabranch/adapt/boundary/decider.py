"""The one decision between two steps: moves, plans, what is in memory, which rows wait.

    (state, observed) ─► policies ─► choice ─► tracks that follow from it ─► (state', decisions)

Pure: nothing that it is given changes, no clock is read. Whoever drives it adopts the new state when the
manifest with the decisions is published; until then the old one holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from anabranch.adapt.balance.controller import Controller
from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Choice, Decisions
from anabranch.adapt.boundary.enact import enact, start_with
from anabranch.adapt.boundary.layouts import choose_layouts, choose_trees
from anabranch.adapt.boundary.load import load_of
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.boundary.plan_choice import choose_plans, choose_strategy
from anabranch.adapt.events import Event
from anabranch.adapt.measures.statistics import Statistics
from anabranch.adapt.memory.memory_state import MemoryState, choose_budgets, choose_spilled
from anabranch.adapt.placement.homes import Homes, choose_homes
from anabranch.adapt.routing.hot_keys import choose_hot_keys
from anabranch.adapt.routing.join_routing import join_routing
from anabranch.adapt.routing.routing_choice import choose_routing, start_routing
from anabranch.adapt.sharing.group_worth import query_s
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.migration_cost import Strategy


class Decider(Protocol):
    """Decides what changes between two steps. Results are the same whatever it decides."""

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        """Decide what a session starts with, from what its checkpoint remembers."""
        ...

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        """Decide what changes after a step."""
        ...


class AdaptiveDecider:
    """Asks the policies for load, memory, plans and ways of rows, in this order: they do not fight."""

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        """The memory budget or the sites may be others than those that the manifest was written under."""
        started = start_with(state.memory.admission(), observed)
        memory, _ = choose_spilled(
            state.memory,
            observed.batch,
            partition_map=started.partition_map,
            sizes=observed.state_bytes,
            budget=observed.settings.memory_budget,
        )
        eddy = state.eddy.decided(
            observed.batch, observed.choices, started.partition_map, fixed=state.layouts.fixed
        )
        routing = start_routing(state.routing, observed, started.partition_map)
        decisions = replace(started, admission=memory.admission(), router=eddy.router, eddies=eddy.told)
        return replace(state, memory=memory, routing=routing), decisions

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, choice = choose(state, observed)
        decisions = enact(choice, observed)
        return state.with_events(decisions.events), decisions


def choose(state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Choice]:
    """Take note of a step and choose what changes before the next one."""
    settings, before = observed.settings, observed.partition_map
    load = load_of(observed, state.memory.admission().spilled)
    controller, after, moves = _moves(state.controller, load, observed)
    if after.sites != settings.sites:
        after = after.rescaled(settings.sites)
    memory, held = _memory(state.memory, load, observed, after)
    strategy = Strategy.MOVING_STATE if after == before else choose_strategy(state.plans, observed, after)
    plans, migrations, reasons = choose_plans(
        state.plans.with_abandoned(observed.batch, observed.sites), observed
    )
    eddies = state.eddy.after(observed.choices, observed.sites, before)
    layouts, orderings, reordered = choose_layouts(state.layouts, eddies, observed)
    trees, back, retreed = choose_trees(state.trees, plans.costs, observed)
    eddy = eddies.decided(observed.batch, observed.choices, after, fixed=layouts.fixed)
    routing, routed = choose_routing(state.routing, observed, after)
    hot, cooled, spread = choose_hot_keys(state.hot, observed, after)
    homes, placed = _homes(state.homes, observed, after)
    groups = state.groups.after(observed.groups, query_s(after.sites, observed.slots))
    events = (*moves, *held, *reasons, *reordered, *retreed, *eddy.events, *routed, *spread, *placed)
    choice = Choice(
        after,
        strategy,
        migrations,
        memory.admission(),
        events,
        router=eddy.router,
        eddies=eddy.told,
        spread=join_routing(state.routing, state.hot, observed),
        cooled=cooled,
        orderings=back | orderings,
        trees=trees.wanted,
        weighed=tuple(weighed.to_json() for weighed in layouts.weighed.values()),
        dissolved=groups.dissolved(),
    )
    state = replace(
        state,
        controller=controller,
        memory=memory,
        plans=plans,
        eddy=eddy.state,
        routing=routing,
        hot=hot,
        layouts=layouts,
        trees=trees,
        homes=homes,
        groups=groups,
    )
    return state, choice


def _homes(homes: Homes, observed: Observed, after: PartitionMap) -> tuple[Homes, tuple[Event, ...]]:
    """Which queries run at one site alone, and where."""
    settings = observed.settings
    if settings.placement == "off" or settings.copies or settings.memory_budget or after.sites < 2:
        return Homes(), ()
    return choose_homes(
        homes,
        observed.units,
        observed.query_s,
        observed.sites,
        count=after.sites,
        slots=observed.slots,
        batch=observed.batch,
    )


def _moves(
    controller: Controller, load: Statistics, observed: Observed
) -> tuple[Controller, PartitionMap, tuple[Event, ...]]:
    """The map that the controller of the load wants.

    While a site still works for partitions that have left it, what it is busy with says nothing about those
    it owns: nothing is decided (D-CAPE, algorithm 1: wait).
    """
    here = observed.partition_map
    if observed.settings.rebalance == "off" or here.sites < 2 or observed.relocating:
        return controller, here, ()
    controller = controller.copy()
    step = controller.step(observed.batch, load, here)
    return controller, step.partition_map, step.events


def _memory(
    memory: MemoryState, load: Statistics, observed: Observed, after: PartitionMap
) -> tuple[MemoryState, tuple[Event, ...]]:
    """Which states leave the memory, and how many rows each partition may take in, under the new map."""
    settings = observed.settings
    memory, spilled = choose_spilled(
        memory,
        observed.batch,
        partition_map=after,
        sizes=observed.state_bytes,
        budget=settings.memory_budget,
    )
    memory, put_off = choose_budgets(
        memory,
        observed.batch,
        load,
        before=observed.partition_map,
        after=after,
        capacity=settings.skew_buffer_rows,
        comparable=not observed.relocating,
    )
    return memory, (*spilled, *put_off)
