"""What is decided at a boundary: what policies choose, and what follows from it for the next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.memory.admission import OPEN, Admission
from anabranch.adapt.routing.join_routing import JoinRouting
from anabranch.adapt.tracks.tracks import Migration, Tracks
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.station_router import StationRouter
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.states.state_id import StateId
from anabranch.plan.stations.join_tree import EdgeEnds


@dataclass(frozen=True, slots=True)
class Choice:
    """What policies are free to choose: any choice gives the same results."""

    partition_map: PartitionMap
    """From the next step on."""
    strategy: Strategy = Strategy.MOVING_STATE
    """How partitions change sites where plans differ."""
    migrations: tuple[Migration, ...] = ()
    """Sites that change plans, beside those that users have asked for."""
    admission: Admission = OPEN
    events: tuple[Event, ...] = ()
    """Reasons."""
    router: StationRouter = field(default_factory=StationRouter)
    """Which stations rows take."""
    eddies: tuple[Mapping[str, Any], ...] = ()
    """What is told of it."""
    spread: tuple[JoinRouting, ...] = ()
    """What is told of joins whose rows are spread."""
    cooled: Mapping[str, PartitionSet] = field(default_factory=dict)
    """By query, partitions with keys that are not spread any more."""
    orderings: Mapping[str, bool] = field(default_factory=dict)
    """By query that may run either way, whether it is to run at stations."""
    weighed: tuple[Mapping[str, Any], ...] = ()
    """By such a query, what each way would take."""
    dissolved: tuple[str, ...] = ()
    """Groups whose members are to run otherwise."""
    trees: Mapping[str, tuple[EdgeEnds, ...]] = field(default_factory=dict)
    """By query with cycles, the edges that its stations are to have."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Everything that changes between two steps."""

    partition_map: PartitionMap
    tracks: Tracks
    admission: Admission = OPEN
    """What the sites may take in the next step, and which partitions are not in memory in it."""
    renames: Mapping[str, StateId] = field(default_factory=dict)
    """States whose blocks get another name, in the manifest only."""
    postponed: tuple[Migration, ...] = ()
    """Requests that have to wait for another boundary."""
    events: tuple[Event, ...] = ()
    router: StationRouter = field(default_factory=StationRouter)
    """Which stations rows take in the next step."""
    eddies: tuple[Mapping[str, Any], ...] = ()
    """What is told of it: tickets, shares of rows, what decided."""
    spread: tuple[JoinRouting, ...] = ()
    """What is told of joins whose rows were spread: routers, copies, what was predicted."""
    orderings: Mapping[str, bool] = field(default_factory=dict)
    """By query that may run either way, whether it is to run at stations."""
    weighed: tuple[Mapping[str, Any], ...] = ()
    """By such a query, what each way would take."""
    dissolved: tuple[str, ...] = ()
    """Groups whose members are to run otherwise."""
    trees: Mapping[str, tuple[EdgeEnds, ...]] = field(default_factory=dict)
    """By query with cycles, the edges that its stations are to have."""
