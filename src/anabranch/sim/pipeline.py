"""The stage of Flux's experiments: producers, exchange, a stateful operator on every site, a controller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anabranch.adapt.balance.controller import Controller
from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.events import Event
from anabranch.adapt.measures.statistics import Floats, Ints, sum_by_site
from anabranch.adapt.memory.skew_buffer import SkewBuffer
from anabranch.sim.clock import Clock
from anabranch.sim.cluster import Cluster
from anabranch.sim.disk_model import DiskModel
from anabranch.sim.exchange import Exchange
from anabranch.sim.mover import Mover
from anabranch.sim.packets import Packets
from anabranch.sim.sites import Sites
from anabranch.sim.trace import Trace
from anabranch.sim.wide_map import WideMap


@dataclass(frozen=True, slots=True)
class Stage:
    """A producer–consumer stage.

    Attributes
    ----------
    shares
        Probability of each partition among the rows.
    state_bytes
        Of one partition.
    rows_per_partition
        Rows of its history, for the cost of taking it out and in (0.2 µs each, section 5.4).
    buffer_rows
        Per producer; there is one on every site.
    in_connections
        Put the buffer into the connections: a plain Exchange.
    spills
        The sites keep to their memory.
    """

    cluster: Cluster
    shares: Floats
    state_bytes: int = 800_000
    rows_per_partition: int = 10_000
    buffer_rows: int = 2048
    in_connections: bool = False
    spills: bool = False
    warm: bool = False
    tick_s: float = 0.005
    seed: int = 0


HANDLING_S_PER_ROW = 0.2e-6


class Pipeline:
    """A run of a stage, tick by tick.

    Parameters
    ----------
    controller
        None for a static partitioning.
    """

    def __init__(self, stage: Stage, controller: Controller | None = None) -> None:
        rng = np.random.default_rng(stage.seed)
        partitions, sites = len(stage.shares), stage.cluster.sites
        self.stage = stage
        self.controller = controller
        self.clock = Clock(stage.tick_s)
        self.partition_map = WideMap.spread(sites=sites, partitions=partitions)
        self._site_of: Ints = self.partition_map.as_array().astype(np.int64)
        self._state_bytes: Ints = np.full(partitions, stage.state_bytes, np.int64)
        per_site = stage.buffer_rows if stage.in_connections else 0
        self.exchange = Exchange(
            stage.shares,
            buffer=SkewBuffer(sites * (1 if stage.in_connections else max(1, stage.buffer_rows))),
            connection_rows=sites * stage.cluster.network.rows_per_connection + per_site,
            rng=rng,
            packets=Packets(
                partitions,
                producers=sites,
                sites=sites,
                rows_per_packet=stage.cluster.network.rows_per_packet,
                rng=rng,
            ),
        )
        disk = DiskModel(stage.cluster.machine, self._state_bytes, self._site_of, sites)
        self.sites = Sites(stage.cluster, disk, partitions, rng)
        self.mover = Mover(stage.cluster.network, self._state_bytes)
        self._memory = stage.cluster.memory(0.0)
        self._changes = {round(t / stage.tick_s) for t in (0.0, *stage.cluster.changes())}
        self._moves: list[tuple[float, Move]] = []
        self._events: list[Event] = []
        if stage.warm:
            self.exchange.warm_up(self._site_of, sites)

    def run(self, duration_s: float, *, interval_s: float = 1.0) -> Trace:
        """Simulate, and report per interval."""
        ticks, per_interval = round(duration_s / self.clock.tick_s), round(interval_s / self.clock.tick_s)
        seconds, throughput, latency = [], [], []
        rows, waited = self.sites.processed, self.sites.latency_s
        for i in range(1, ticks + 1):
            self.tick()
            if i % per_interval == 0:
                new = self.sites.processed - rows
                seconds.append(self.clock.now)
                throughput.append(new / interval_s)
                latency.append((self.sites.latency_s - waited) / new if new else 0.0)
                rows, waited = self.sites.processed, self.sites.latency_s
        return Trace(
            tuple(seconds),
            tuple(throughput),
            tuple(latency),
            tuple(self._moves),
            tuple(self._events),
            self.partition_map,
            self.exchange.produced,
            self.sites.processed,
            self.exchange.rows_inside() + int(self.sites.disk.spooled.sum()),
            tuple(self.sites.disk.on_disk_by_site(self._site_of, self.stage.cluster.sites).tolist()),
        )

    def tick(self) -> None:
        """One step of everything."""
        now, sites = self.clock.now, self.stage.cluster.sites
        if self.clock.ticks in self._changes:
            self.sites.cpu_left = self.stage.cluster.cpu_left(now)
            self._memory = self.stage.cluster.memory(now)
        before = self.exchange.produced
        self.exchange.flow(self._site_of, sites, self.mover.stalled)
        taken = self.sites.work(
            self.exchange.under_way,
            self._site_of,
            produced=self.exchange.produced - before,
            urgent=self.mover.urgent(),
            held=self.mover.stalled if self.stage.spills else None,
            tick_s=self.clock.tick_s,
            now=now,
        )
        self.exchange.under_way -= taken
        self.clock.advance()
        self._control(taken)
        if self.stage.spills:  # after moves: a site hands partitions over between two accesses of its disk
            self._mind_memory(self.clock.now)

    def _mind_memory(self, now: float) -> None:
        for site in self.sites.disk.needs_attention(self._site_of, self._memory):
            if self.sites.stall_s[site] < self.clock.tick_s:  # between two accesses
                self.sites.stall_s[site] += self.sites.disk.act(
                    int(site),
                    budget=float(self._memory[site]),
                    now=now,
                    occupied_s=float(self.sites.stall_s[site]),
                    tick_s=self.clock.tick_s,
                )

    def _handling_s(self) -> Floats:
        """Seconds each site needs to take a partition out, or to put it in; more where the CPU is shared."""
        return np.asarray(self.stage.rows_per_partition * HANDLING_S_PER_ROW / self.sites.cpu_left)

    def _control(self, taken: Ints) -> None:
        if self.controller is None:
            return
        finished: tuple[Move, ...] = ()
        if self.mover.busy:
            by_site = sum_by_site(taken, self._site_of, self.stage.cluster.sites)
            finished = self.mover.advance(
                self.exchange.under_way,
                by_site,
                self.sites.stall_s,
                handling_s=self._handling_s(),
                tick_s=self.clock.tick_s,
            )
        now = self.clock.now
        if not finished and now < self.controller.due_at - 1e-9:
            return
        statistics = self.sites.statistics(self.exchange.waiting, self._state_bytes, self._memory)
        step = self.controller.step(now, statistics, self.partition_map, finished=finished)
        self._moves.extend((now, move) for move in finished)
        self._events.extend(step.events)
        if step.partition_map is not self.partition_map:
            assert isinstance(step.partition_map, WideMap)
            self.partition_map = step.partition_map
            self._site_of = self.partition_map.as_array().astype(np.int64)
        self._order(step.orders, now)
        if self.stage.spills and (finished or step.orders):
            self.sites.disk.settle(self._site_of, self.mover.stalled)

    def _order(self, orders: tuple[Move, ...], now: float) -> None:
        if not orders:
            return
        for move in orders:  # the producers' acknowledgements take the rows before them along
            self.exchange.flush(move.source, self._site_of)
        ahead = sum_by_site(self.exchange.under_way, self._site_of, self.stage.cluster.sites)
        for move in orders:
            along = 0
            if self.stage.spills:
                # Section 6.1: the donor takes rows off the connections at once and holds them.
                self.sites.stall_s[move.source] += self.sites.disk.bring_in(move.source, move.partition)
                self.sites.disk.hold(move.partition, int(self.exchange.under_way[move.partition]), now)
                self.exchange.under_way[move.partition] = 0
                along = int(self.sites.disk.spooled[move.partition])
            self.mover.order(move, rows_ahead=float(ahead[move.source]), rows_along=along)
