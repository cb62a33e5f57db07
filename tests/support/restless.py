"""A decider that decides at random: moves, migrations, spills, budgets, rescaling at every boundary."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decisions import Choice, Decisions
from anabranch.adapt.boundary.enact import enact, start_with
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.memory.admission import OPEN, Admission
from anabranch.adapt.memory.site_budgets import RowBudget
from anabranch.adapt.routing.hot_keys import HotKeys
from anabranch.adapt.routing.spreadable import spreadable
from anabranch.adapt.tracks.tracks import Migration, Tracks
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import NOTHING, PartitionSet
from anabranch.exchange.split_router import HotKey
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.tree import Join, Leaf, Plan, Probe, parse_plan


class RestlessDecider:
    """Moves partitions about, changes plans and lets rows wait for no reason at all.

    What it decides depends on the seed and the number of the step only, so that a step repeated after a
    crash decides the same.

    Parameters
    ----------
    rescales
        Whether sites come and go.
    waits
        Whether rows wait and partitions are spilled.
    keys
        Addresses of keys of joins that become hot and cool; if there are any, so do groups.
    dissolves
        How often a group of queries is dissolved, whatever it saves.
    """

    def __init__(
        self,
        seed: int,
        *,
        rescales: bool = True,
        waits: bool = True,
        keys: Sequence[int] = (),
        dissolves: float = 0.0,
    ) -> None:
        self._seed = seed
        self._keys = keys
        self._rescales = rescales
        self._waits = waits
        self._dissolves = dissolves

    def start(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        return state, start_with(self._admission(observed), observed)

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        rng = random.Random(f"{self._seed} {observed.batch} {observed.step}")
        after = any_map(rng, observed.partition_map, rescales=self._rescales)
        strategy, migrations = rng.choice(list(Strategy)), any_migrations(rng, observed.tracks)
        hot, cooled = any_hot_keys(
            random.Random(f"{self._seed} {observed.batch} {observed.step} hot"),
            state.hot,
            observed,
            self._keys,
        )
        dissolved = tuple(name for name in sorted(observed.groups) if rng.random() < self._dissolves)
        choice = Choice(
            after, strategy, migrations, self._admission(observed), cooled=cooled, dissolved=dissolved
        )
        decisions = enact(choice, observed)
        return replace(state, hot=hot).with_events(decisions.events), decisions

    def _admission(self, observed: Observed) -> Admission:
        """What the step after an observed one may take; the same if a restart comes between them."""
        rng = random.Random(f"{self._seed} after {observed.batch} {observed.step}")
        return any_admission(rng) if self._waits else OPEN


def any_hot_keys(
    rng: random.Random, known: HotKeys, observed: Observed, keys_of_joins: Sequence[int]
) -> tuple[HotKeys, dict[str, PartitionSet]]:
    """Any of the keys hot, at any lanes, where its rows are in blocks; and partitions of keys that cool."""
    keys: list[HotKey] = []
    cooled: dict[str, PartitionSet] = {}
    for group in spreadable(observed.joins) if keys_of_joins else ():
        addresses = keys_of_joins
        before = {key.address for key in known.of(group.states)}
        if group.grouped:  # any group that has been heavy
            heavy = {address for address, _ in observed.heavy.get(group.states[0], ())}
            addresses = sorted({*heavy, *before, *keys_of_joins})
        largest = rng.choice([None, *(s for s in group.states if s not in group.repeated)])
        for address in addresses:
            home = HotKey(address, (), None, ()).home
            ending = (t for t in observed.tracks.ending if t.query in group.queries)
            fixed = bool(observed.pending_rows[home]) or any(home in t.partitions for t in ending)
            hot = address in before if fixed else rng.random() < 0.5
            if hot:
                lanes = tuple(rng.sample(range(PARTITIONS), rng.choice((1, 2, 5))))
                stays = group.grouped and rng.random() < 0.5
                keys.append(HotKey(address, group.states, largest, lanes, stays))
            elif address in before and not group.grouped:
                cooled |= {q: cooled.get(q, NOTHING) | PartitionSet.of([home]) for q in group.queries}
    return HotKeys(tuple(keys)), cooled


def any_map(rng: random.Random, current: PartitionMap, *, rescales: bool) -> PartitionMap:
    """The map with none to many partitions moved, and sometimes over another number of sites."""
    sites = rng.randint(1, 9) if rescales and rng.random() < 0.2 else current.sites
    most = rng.choice((0, 1, 5, 90))
    moved = current.moved({rng.randrange(PARTITIONS): rng.randrange(current.sites) for _ in range(most)})
    return moved if sites == moved.sites else moved.rescaled(sites)


def any_admission(rng: random.Random) -> Admission:
    """Often everything is let in; else some partitions are spilled, and some sites take a few rows."""
    if rng.random() < 0.4:
        return OPEN
    spilled = frozenset(p for p in range(PARTITIONS) if rng.random() < 0.3)
    most = {site: rng.randint(1, 5) for site in range(9) if rng.random() < 0.4}
    budgets = {site: RowBudget(rows, waiting=4 * rows) for site, rows in most.items()}
    return Admission(budgets if rng.random() < 0.5 else {}, spilled)


def any_migrations(rng: random.Random, tracks: Tracks) -> tuple[Migration, ...]:
    """Another plan at some of the sites, by either strategy."""
    return tuple(
        Migration(query, site, str(any_plan(rng, parse_plan(plan).aliases)), rng.choice(list(Strategy)))
        for query, plans in tracks.plans.items()
        for site, plan in enumerate(plans)
        if rng.random() < 0.3
    )


def any_plan(rng: random.Random, aliases: Sequence[str]) -> Plan:
    """Any plan over some references: trees, cross products included, and probes without state."""
    if len(aliases) > 2 and rng.random() < 0.2:
        return Probe(tuple((a, *rng.sample(rest := sorted({*aliases} - {a}), len(rest))) for a in aliases))
    nodes: list[Plan] = [Leaf(alias) for alias in sorted(aliases)]
    while len(nodes) > 1:
        left, right = (nodes.pop(rng.randrange(len(nodes))) for _ in range(2))
        nodes.append(Join(left, right))
    return nodes[0]
