"""The sites at work: each tick, so many rows as their CPU and their disk leave time for."""

from __future__ import annotations

import numpy as np

from anabranch.adapt.measures.statistics import Flags, Floats, Ints, Statistics, sum_by_site
from anabranch.adapt.memory.skew_buffer import take_evenly
from anabranch.sim.cluster import Cluster
from anabranch.sim.disk_model import DiskModel


class Sites:
    """CPU of all sites, and counts for the controller since it last asked."""

    def __init__(self, cluster: Cluster, disk: DiskModel, partitions: int, rng: np.random.Generator) -> None:
        self._cluster = cluster
        self._rng = rng
        self.disk = disk
        self.stall_s: Floats = np.zeros(cluster.sites)
        """Seconds each site is still occupied by its disk, or by taking partitions out and in."""
        self._unused: Floats = np.zeros(cluster.sites)
        self._producing_s: Floats = np.zeros(cluster.sites)
        """Seconds of CPU each site's producer still needs for what it has sent."""
        self.cpu_left: Floats = np.ones(cluster.sites)
        self.processed = 0
        self.latency_s = 0.0
        """Sum over processed rows of the time since they reached their site."""
        self._partitions = partitions
        self._forget()

    def _forget(self) -> None:
        self._length_s = 0.0
        self._idle_s: Floats = np.zeros(self._cluster.sites)
        self._rows: Ints = np.zeros(self._partitions, np.int64)

    def work(
        self,
        under_way: Ints,
        site_of: Ints,
        *,
        tick_s: float,
        now: float,
        produced: int = 0,
        urgent: Ints | None = None,
        held: Flags | None = None,
    ) -> Ints:
        """Process for a tick; returns the rows taken off the connections.

        Parameters
        ----------
        produced
            New rows of all producers, of which every site has one.
        urgent
            Partitions whose rows come first.
        held
            Partitions on the move, whose spooled rows go with them.
        """
        sites = self._cluster.sites
        stalled = np.minimum(self.stall_s, tick_s)
        self.stall_s -= stalled
        time_s = tick_s - stalled
        luck = self._rng.standard_normal(sites)
        # A producer also runs while the operator waits for its disk; while it waits for rows, it is idle.
        capacity = self._capacity(tick_s - np.maximum(stalled, self._produce(produced, tick_s)), luck)
        caught_up = self._catch_up(capacity, site_of, held)
        behind = sum_by_site(caught_up, site_of, sites) if caught_up.any() else np.zeros(sites)
        taken = self._arrivals(under_way, capacity - behind, time_s, site_of, urgent, now)
        done = np.where(self.disk.on_disk, 0, taken)
        processed = behind + sum_by_site(done, site_of, sites)
        left = capacity - processed
        # What is not used up because no row was there is idle; a fraction of a row is kept for the next tick.
        self._unused = np.where(left < 1.0, left, 0.0)
        idle_s = np.maximum(time_s - self._time_for(processed, luck), 0.0)
        self._idle_s += np.where((left >= 1.0) & (time_s > 0), idle_s, 0.0)
        self._length_s += tick_s
        self._count(done, caught_up, now)
        return taken

    def _produce(self, rows: int, tick_s: float) -> Floats:
        """Seconds of this tick that the producers take from the CPUs."""
        self._producing_s += rows / self._cluster.sites * self._cluster.machine.produce_s / self.cpu_left
        taken = np.minimum(self._producing_s, tick_s)
        self._producing_s -= taken
        return taken

    def _catch_up(self, capacity: Floats, site_of: Ints, held: Flags | None) -> Ints:
        """Spooled rows of partitions that are in memory again come before new ones."""
        away = self.disk.on_disk if held is None else self.disk.on_disk | held
        backlog = np.where(away, 0, self.disk.spooled)
        return self._share_out(backlog, capacity, site_of) if backlog.any() else backlog

    def _row_s(self) -> Floats:
        return np.asarray(self._cluster.machine.row_s / self.cpu_left)

    def _capacity(self, time_s: Floats, luck: Floats) -> Floats:
        """Rows each site can process in this time; the sum of n normal times is normal."""
        mean = time_s / self._row_s()
        return np.asarray(np.maximum(mean + luck * self._scatter(mean), 0.0) + self._unused)

    def _time_for(self, rows: Floats, luck: Floats) -> Floats:
        """Seconds so many rows take. Only rows scatter: a site with few of them is idle for a known time."""
        return np.asarray((rows - luck * self._scatter(rows)) * self._row_s())

    def _scatter(self, rows: Floats) -> Floats:
        machine = self._cluster.machine
        return np.asarray(np.sqrt(rows) * machine.row_spread_s / machine.row_s)

    def _share_out(self, rows: Ints, capacity: Floats, site_of: Ints) -> Ints:
        there = np.flatnonzero(rows)
        where = site_of[there]
        by_site = sum_by_site(rows[there], where, self._cluster.sites)
        # Rounding may have used a row too many.
        share = np.clip(capacity / np.maximum(by_site, 1.0), 0.0, 1.0)
        taken = np.zeros_like(rows)
        taken[there] = take_evenly(rows[there], share[where], phase=self._rng.random())
        return taken

    def _arrivals(
        self,
        under_way: Ints,
        capacity: Floats,
        time_s: Floats,
        site_of: Ints,
        urgent: Ints | None,
        now: float,
    ) -> Ints:
        """Rows taken off the connections: processed, or spooled when their partition is on disk."""
        sites = self._cluster.sites
        first: Ints = np.zeros_like(under_way)
        if urgent is not None and len(urgent):
            first[urgent] = under_way[urgent]
            first = self._share_out(np.where(self.disk.on_disk, 0, first), capacity, site_of)
            capacity = capacity - sum_by_site(first, site_of, sites)
        ready = under_way - first
        if not self.disk.on_disk.any():
            return np.asarray(first + self._share_out(ready, capacity, site_of))
        away = np.where(self.disk.on_disk & (time_s > 0)[site_of], ready, 0)
        self.stall_s += self.disk.spool(away, site_of, sites, now)
        ready = np.where(self.disk.on_disk, 0, ready)
        return np.asarray(first + away + self._share_out(ready, capacity, site_of))

    def _count(self, done: Ints, caught_up: Ints, now: float) -> None:
        self._rows += done + caught_up
        total = int(done.sum())
        self.processed += total + int(caught_up.sum())
        self.latency_s += total * self._cluster.machine.row_s
        if caught_up.any():
            self.latency_s += self.disk.take_spooled(caught_up, now)

    def statistics(self, waiting: Ints, state_bytes: Ints, memory: Floats) -> Statistics:
        """Return what happened since the last call, and forget it."""
        length, idle = self._length_s, np.minimum(self._idle_s, self._length_s)
        rows = self._rows
        self._forget()
        return Statistics.of_batch(
            length - idle,
            rows,
            state_bytes=state_bytes,
            pending_rows=waiting + self.disk.spooled,
            on_disk=self.disk.on_disk.copy(),
            memory_bytes=memory,
            length_s=length,
        )
