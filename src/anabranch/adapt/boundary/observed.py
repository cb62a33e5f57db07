"""What is known at a boundary: reports of the step that has ended, what it left, what users ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anabranch.adapt.eddy.choice import StationChoice
from anabranch.adapt.eddy.layout_choice import EitherWay
from anabranch.adapt.eddy.tree_choice import CyclicJoin, Sketches
from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.measures.statistics import Ints
from anabranch.adapt.memory.site_budgets import Capacity
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.sharing.group_worth import GroupMeasure
from anabranch.adapt.tracks.common import Common
from anabranch.adapt.tracks.tracks import Migration, Track, Tracks
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta


@dataclass(frozen=True, slots=True)
class BoundarySettings:
    """What users have chosen of that which is decided here."""

    sites: int = 1
    rebalance: str = "auto"
    """`auto`, `mslb`, `ptlb` or `off`."""
    migration: str = "auto"
    """`auto`, `moving_state`, `parallel_track` or `off`."""
    memory_budget: int = 0
    """Bytes of state that a site may work on at a time; 0 is all of it."""
    skew_buffer_rows: Capacity = "auto"
    work_memory: int | None = None
    """Bytes of intermediate rows that a query may keep at a site; None is any number."""
    copies: bool = False
    """Whether state that moves is copied, because sites share nothing."""
    routing: str = "auto"
    """How joins run that no key spreads: `auto`, `aligned` or `coordinated` over all sites, `hash` at one."""
    hot_keys: str = "auto"
    """Whether keys with much of a join's work are spread: `auto` or `off`."""
    ordering: str = "auto"
    """How joins run without a key that all their streams share: `auto`, `plan` or `eddy`."""
    placement: str = "off"
    """Whether small queries run at one site each: `auto` or `off`."""


class TrackRules(Protocol):
    """What compiled plans and the blocks of this boundary say about tracks."""

    def may_follow(self, track: Track, plan: str, owned: PartitionSet) -> bool:
        """Whether a track that ends can change to its site's new plan, and should."""
        ...

    def is_over(self, track: Track) -> bool:
        """Whether a track that ends has no rows any more."""
        ...

    def settled(self, tracks: Tracks) -> tuple[Tracks, Mapping[str, StateId]]:
        """The tracks without those that have outlived what was before, and new names of their states."""
        ...


@dataclass(frozen=True, slots=True)
class StreamClock:
    """How far a stream has come.

    Attributes
    ----------
    newest
        The largest event time that was routed; None before the first row.
    watermark
        Below it nothing will be routed any more; held back by rows that wait.
    rows
        Rows of the step that has ended.
    """

    newest: int | None = None
    watermark: int | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a decision may depend on, beside the state that the last one left.

    Attributes
    ----------
    batch, step
        The step that has ended; when a session starts, the last one of its checkpoint, or batch -1.
    requests
        Changes of plans that users have asked for.
    partition_map, tracks
        Those under which the step ran.
    sites
        One report for every site that worked.
    blocks
        What the next step will start from.
    state_bytes, pending_rows
        The same by partition: bytes of state, and rows that wait to enter one.
    elapsed_s
        Event time that passed in the step.
    overhead_s
        Seconds of the step in which no site worked.
    slots
        Of the step.
    choices
        Where rows choose among stations.
    either_way
        Joins that can run at stations and as trees.
    cyclic, keys
        Joins whose stations could have other edges, and sketches of the keys of their new rows.
    clocks
        By stream, how far it has come.
    arrived
        By input whose rows a router spreads: rows that came, and further copies of them.
    heavy
        By state of an input, (hash, new rows) of keys that many rows have.
    ended
        Queries that failed or were dropped, in this step or before.
    units
        Queries that may run at one site alone: each with those that it shares inputs or states with.
    query_s
        CPU seconds by query, or group.
    groups
        What groups did that could be dissolved.
    """

    batch: int
    step: int
    settings: BoundarySettings
    partition_map: PartitionMap
    tracks: Tracks
    joins: Joins
    rules: TrackRules
    state_bytes: Ints
    pending_rows: Ints
    blocks: tuple[BlockMeta, ...] = ()
    sites: tuple[SiteReport, ...] = ()
    requests: tuple[Migration, ...] = ()
    elapsed_s: float = 0.0
    overhead_s: float = 0.0
    slots: int = 1
    choices: tuple[StationChoice, ...] = ()
    either_way: tuple[EitherWay, ...] = ()
    cyclic: tuple[CyclicJoin, ...] = ()
    keys: Sketches = field(default_factory=dict)
    clocks: Mapping[str, StreamClock] = field(default_factory=dict)
    arrived: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    heavy: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    units: tuple[tuple[str, ...], ...] = ()
    query_s: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, GroupMeasure] = field(default_factory=dict)

    @property
    def common(self) -> Common:
        """What the queries that still work have in common."""
        return self.joins.common(self.ended)

    @property
    def relocating(self) -> bool:
        """Whether a site still works for partitions that have left it."""
        owned = self.partition_map.partitions_of
        return any(track.partitions - owned(track.site) for track in self.tracks.ending)
