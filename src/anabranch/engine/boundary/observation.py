"""Reports, blocks and compiled plans of a step, in the words of the decider (`adapt.boundary`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from anabranch.adapt.boundary.observed import BoundarySettings, Observed, StreamClock
from anabranch.adapt.eddy.choice import StationChoice
from anabranch.adapt.eddy.layout_choice import EitherWay
from anabranch.adapt.eddy.tree_choice import CyclicJoin, KeyOf
from anabranch.adapt.measures.key_sketch import KeySketch
from anabranch.adapt.measures.statistics import Ints
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.sharing.group_worth import GroupMeasure
from anabranch.adapt.tracks.tracks import Migration, Track, Tracks
from anabranch.engine.reports import SlotReport
from anabranch.engine.settings import Settings
from anabranch.engine.step.manifests.settled_tracks import settled
from anabranch.engine.task.arrival.admission import oldest_waiting, waiting_blocks
from anabranch.engine.task.sites.memory_plan import held_by_state
from anabranch.engine.task.sites.site_work import TrackCompiler
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.exchange.station_router import States
from anabranch.plan.inputs import tree_of
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import StationsNode
from anabranch.plan.placement_units import placement_units
from anabranch.plan.states.state_id import StateId
from anabranch.queries.catalog import Catalog
from anabranch.state import BlockMeta, Manifest, QueryStatus, StreamState
from anabranch.state.expiry import held_back

IsOver = Callable[[LocalPlan, Track, Sequence[BlockMeta], Mapping[str, int | None]], bool]
"""Whether a track that ends has no rows any more (`site_work.is_over`)."""

WORKING = "join"
"""The phase of a slot in which its sites work."""
ENOUGH_S = 0.02
"""CPU time of all sites below which a step tells nothing about how crowded the machine is."""


@dataclass(frozen=True, slots=True)
class CompiledTracks:
    """What compiled plans say about tracks, given the blocks and watermarks of a boundary."""

    compiler: TrackCompiler
    ends: IsOver
    blocks: Sequence[BlockMeta]
    watermarks: Mapping[str, int | None]
    """Held back by rows that wait."""

    def may_follow(self, track: Track, plan: str, owned: PartitionSet) -> bool:
        return self.compiler.may_follow(track, plan, owned, self.blocks)

    def is_over(self, track: Track) -> bool:
        return self.ends(self.compiler.plan_of(track), track, self.blocks, self.watermarks)

    def settled(self, tracks: Tracks) -> tuple[Tracks, dict[str, StateId]]:
        return settled(tracks, self.blocks, self.compiler.plan_of)


class Observation:
    """Observes the steps of a session.

    Parameters
    ----------
    is_over
        Tells when a parallel track ends.
    """

    def __init__(self, catalog: Catalog, compiler: TrackCompiler, is_over: IsOver) -> None:
        self.joins = Joins.of(catalog.layout, catalog.streams)
        self._layout = catalog.layout
        self._compiler = compiler
        self._is_over = is_over
        self._held = held_by_state(catalog.plans)
        self._choices = _choices(catalog.plans)
        trees = {r.query.name: tree_of(r.query, r.graph, r.edges) for r in catalog.layout.queries}
        self.either_way = {name: tree for name, tree in trees.items() if tree is not None}
        """Joins that can run as trees and at stations, with the tree of these."""
        self._either_way = tuple(
            EitherWay(r.query.name, r.tree is not None, self.either_way[r.query.name].hops)
            for r in catalog.layout.queries
            if r.query.name in self.either_way and not r.graph.routing_classes()
        )
        windows = self.joins.windows_s
        self._cyclic = tuple(
            CyclicJoin(r.query.name, r.graph, windows[r.query.name], tree, at_stations=r.tree is not None)
            for r in catalog.layout.queries
            if r.has_cycles and (tree := self.either_way.get(r.query.name)) is not None
        )
        joins = (plan for plan in catalog.plans if plan.has_tracks)
        self._defaults = {plan.query.name: str(plan.plan) for plan in joins}

    def at_start(self, manifest: Manifest | None, settings: Settings) -> Observed:
        """What a decision at the start of a session may depend on: its checkpoint, and the queries of now."""
        if manifest is None:
            here, tracks = PartitionMap.even(settings.sites), Tracks({})
        else:
            here = PartitionMap(manifest.partition_map, manifest.sites)
            tracks = Tracks.from_json(manifest.tracks)
        return self.of(
            manifest.batch if manifest else -1,
            manifest.step if manifest else 0,
            settings=settings,
            ran=(here, tracks.for_queries(self._defaults, here.sites)),
            left=(manifest.blocks, manifest.streams) if manifest else ((), ()),
            ended=frozenset(
                query.name
                for query in (manifest.queries if manifest else ())
                if query.status is not QueryStatus.RUNNING
            ),
        )

    @cached_property
    def units(self) -> tuple[tuple[str, ...], ...]:
        """Queries that may run at one site alone; worked out when somebody asks."""
        return placement_units(self._layout)

    def of(
        self,
        batch: int,
        step: int,
        *,
        settings: Settings,
        ran: tuple[PartitionMap, Tracks],
        left: tuple[Sequence[BlockMeta], Sequence[StreamState]],
        reports: Sequence[SlotReport] = (),
        requests: tuple[Migration, ...] = (),
        seconds: tuple[float, float] = (0.0, 0.0),
        ended: frozenset[str] = frozenset(),
        slots: int = 1,
        groups: Mapping[str, GroupMeasure] | None = None,
    ) -> Observed:
        """What a decision after a step may depend on.

        Parameters
        ----------
        ran
            The partition map and the tracks under which the step ran.
        left
            Blocks and streams: what the next step will start from.
        seconds
            Event time that passed, and the time that the step took, from its plan to the last report.
        ended
            Queries that failed or were dropped.
        groups
            What groups did that could be dissolved.
        """
        (partition_map, tracks), (blocks, streams), (elapsed_s, wall_s) = ran, left, seconds
        watermarks = {s.name: s.watermark for s in streams}
        held = held_back(watermarks, oldest_waiting(self._layout, waiting_blocks(self._layout, blocks)))
        # Sites of a slot work one after the other here; on machines of their own they would not.
        busiest_s = max((sum(s.busy_s for s in r.sites) for r in reports), default=0.0)
        return Observed(
            batch,
            step,
            boundary_settings(settings),
            partition_map,
            tracks,
            self.joins,
            CompiledTracks(self._compiler, self._is_over, blocks, held),
            state_bytes(blocks, self._held),
            _pending_rows(blocks),
            blocks=tuple(blocks),
            sites=tuple(site for r in reports for site in r.sites),
            requests=requests,
            elapsed_s=elapsed_s,
            overhead_s=max(0.0, wall_s / _crowding(reports) - busiest_s),
            slots=slots,
            choices=self._choices,
            either_way=self._either_way,
            cyclic=self._cyclic,
            keys=_keys(reports) if self._cyclic else {},
            arrived=_arrived(reports),
            heavy=_heavy(reports),
            ended=ended,
            units=self.units if settings.placement != "off" else (),
            query_s=_query_s(reports) if settings.placement != "off" else {},
            groups=groups or {},
            clocks={
                s.name: StreamClock(s.max_ts, held.get(s.name), _rows_of(s.name, reports)) for s in streams
            },
        )


def _crowding(reports: Sequence[SlotReport]) -> float:
    """How many times longer than its CPU time the work of sites took, on a machine that others use, too.

    The rest of the step took as much longer, and what is compared with CPU time must not count that.
    """
    waited_s = sum(report.seconds.get(WORKING, 0.0) for report in reports)
    busy_s = sum(site.busy_s for report in reports for site in report.sites)
    return max(1.0, waited_s / busy_s) if busy_s >= ENOUGH_S else 1.0


def _choices(plans: Sequence[LocalPlan]) -> tuple[StationChoice, ...]:
    """Where rows choose among stations; queries that share inputs share the choice."""
    found: dict[States, StationChoice] = {}
    for plan in plans:
        if isinstance(plan.root, StationsNode):
            name = plan.query.name
            for choice in StationChoice.of(name, plan.root):
                known = found.get(choice.states)
                found[choice.states] = (
                    choice if known is None else replace(known, others=(*known.others, name))
                )
    return tuple(found.values())


def _rows_of(stream: str, reports: Sequence[SlotReport]) -> int:
    return sum(report.streams[stream].accepted for report in reports if stream in report.streams)


def _query_s(reports: Sequence[SlotReport]) -> dict[str, float]:
    """CPU seconds by query or group, over all slots."""
    return dict(sum((Counter(r.query_s) for r in reports), Counter[str]()))


def _arrived(reports: Sequence[SlotReport]) -> dict[int, tuple[int, int]]:
    """Rows and further copies by input, over all slots."""
    found: dict[int, tuple[int, int]] = {}
    for report in reports:
        for source, (rows, copies) in report.arrived.items():
            before = found.get(source, (0, 0))
            found[source] = before[0] + rows, before[1] + copies
    return found


def _keys(reports: Sequence[SlotReport]) -> dict[KeyOf, KeySketch]:
    """Sketches of keys, over all slots."""
    found: dict[KeyOf, KeySketch] = {}
    for report in reports:
        for key, sketch in report.keys.items():
            found[key] = found[key].and_also(sketch) if key in found else sketch
    return found


def _heavy(reports: Sequence[SlotReport]) -> dict[str, list[tuple[int, int]]]:
    """Heavy keys by state of an input, over all slots."""
    found: dict[str, dict[int, int]] = {}
    for report in reports:
        for state, keys in report.heavy.items():
            counts = found.setdefault(state, {})
            for address, rows in keys:
                counts[address] = counts.get(address, 0) + rows
    return {state: list(counts.items()) for state, counts in found.items()}


def boundary_settings(settings: Settings) -> BoundarySettings:
    """The settings that decisions depend on."""
    return BoundarySettings(
        sites=settings.sites,
        rebalance=settings.rebalance,
        migration=settings.migration,
        memory_budget=settings.memory_budget_bytes,
        skew_buffer_rows=settings.skew_buffer_rows,
        work_memory=settings.work_memory_bytes,
        copies=settings.isolation == "per_site",
        routing=settings.routing,
        hot_keys=settings.hot_keys,
        ordering=settings.ordering,
        placement=settings.placement,
    )


def state_bytes(blocks: Sequence[BlockMeta], held: Mapping[str, int]) -> Ints:
    """Bytes of state per partition, by its share of the rows of every block, and what is held beside them.

    Parameters
    ----------
    held
        By state, bytes per row that queries hold beside it while they answer.
    """
    kept = [b for b in blocks if b.rows and not b.state.is_waiting]
    return _by_partition(kept, [b.bytes / b.rows + held.get(b.state, 0) for b in kept])


def _pending_rows(blocks: Sequence[BlockMeta]) -> Ints:
    waiting = [b for b in blocks if b.state.is_waiting]
    return _by_partition(waiting, [1.0] * len(waiting))


def _by_partition(blocks: Sequence[BlockMeta], weights: Sequence[float]) -> Ints:
    """Rows per partition, those of each block times its weight."""
    total = np.zeros(PARTITIONS)
    for block, weight in zip(blocks, weights, strict=True):
        partitions, rows = np.array(block.partitions, dtype=np.int64).T
        total[partitions] += rows * weight
    return total.round().astype(np.int64)
