"""Partitions of the simulated sites that are on disk, and what their disks cost.

The decisions are `adapt.spill`'s; here they only take time. Disk access is synchronous: a site does
nothing else meanwhile (Flux, section 6.3).
"""

from __future__ import annotations

import numpy as np

from anabranch.adapt.measures.statistics import Flags, Floats, Ints, sum_by_site
from anabranch.adapt.memory.spill import SiteSpill, SpillKind, plan_spill
from anabranch.sim.cluster import Machine

ROW_BYTES = 80


class DiskModel:
    """The queues of all sites, and the spooled input of spilled partitions."""

    def __init__(self, machine: Machine, state_bytes: Ints, site_of: Ints, sites: int) -> None:
        self._machine = machine
        self._state_bytes = state_bytes
        self.queues = [SiteSpill(tuple(np.flatnonzero(site_of == s).tolist())) for s in range(sites)]
        self.on_disk: Flags = np.zeros(len(state_bytes), np.bool_)
        self.spooled: Ints = np.zeros(len(state_bytes), np.int64)
        """Rows waiting on disk, or in memory for their partition's return."""
        self.spooled_since: Floats = np.zeros(len(state_bytes))
        """Sum of the times at which these rows arrived."""
        self._gap = np.full(sites, 0.0)

    def settle(self, site_of: Ints, moving: Flags) -> None:
        """Take note of moves. What is on the move belongs to no site's queues: nobody may spill it."""
        self.queues = [q.owning(np.flatnonzero((site_of == s) & ~moving)) for s, q in enumerate(self.queues)]

    def needs_attention(self, site_of: Ints, memory: Floats) -> Ints:
        """Sites with something on disk, or more state than memory."""
        sites = len(memory)
        used = sum_by_site(self._state_bytes, site_of, sites)
        return np.flatnonzero((used > memory) | (self.on_disk_by_site(site_of, sites) > 0))

    def on_disk_by_site(self, site_of: Ints, sites: int) -> Ints:
        """Partitions on each site's disk."""
        return np.bincount(site_of[self.on_disk], minlength=sites)

    def act(self, site: int, *, budget: float, now: float, occupied_s: float, tick_s: float) -> float:
        """Let a site spill or activate; returns the seconds its disk needs.

        Parameters
        ----------
        occupied_s
            For so long the site still does something else.
        tick_s
            A rotation may come as much too late. The next one comes so much earlier, or the time between two
            of them, 0.9 s, would be a whole number of ticks.
        """
        last = self.queues[site]
        queues, steps = plan_spill(
            last, self._state_bytes, budget=budget, now=now, gap=float(self._gap[site]), most=1
        )
        late = min(max(now - last.activated_at - float(self._gap[site]), 0.0), tick_s)
        seconds = 0.0
        for step in steps:
            p = step.partition
            access = self._access_s(float(self._state_bytes[p]))
            self.on_disk[p] = step.kind is SpillKind.SPILL
            if step.kind is SpillKind.ACTIVATE:
                access += self._access_s(float(self.spooled[p]) * ROW_BYTES)
                # Rule of thumb of section 6.1: t_gap is the time it took to read the partition. It runs from
                # when the partition is there, while `activated_at` is when the disk was asked.
                self._gap[site] = occupied_s + seconds + 2 * access - late
            seconds += access
        self.queues[site] = queues
        return seconds

    def bring_in(self, site: int, partition: int) -> float:
        """Read a partition that has to move; returns the seconds this takes."""
        queues = self.queues[site]
        if partition not in queues.on_disk:
            return 0.0
        self.queues[site] = SiteSpill(
            (*queues.in_memory, partition),
            tuple(p for p in queues.on_disk if p != partition),
            queues.activated_at,
        )
        self.on_disk[partition] = False
        size = float(self._state_bytes[partition]) + float(self.spooled[partition]) * ROW_BYTES
        return self._access_s(size)

    def hold(self, partition: int, rows: int, now: float) -> None:
        """Keep rows in memory for a partition that is about to move."""
        self.spooled[partition] += rows
        self.spooled_since[partition] += rows * now

    def spool(self, rows: Ints, site_of: Ints, sites: int, now: float) -> Floats:
        """Keep rows of spilled partitions for later; returns the seconds each site's disk needs."""
        self.spooled += rows
        self.spooled_since += rows * now
        written = sum_by_site(rows, site_of, sites) * ROW_BYTES
        per_byte = 1 / self._machine.disk_bytes_per_s + self._machine.seek_s / self._machine.run_bytes
        return np.asarray(written * per_byte)

    def take_spooled(self, rows: Ints, now: float) -> float:
        """Process spooled rows; returns the sum of the time they have waited."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_since = np.where(self.spooled > 0, self.spooled_since / np.maximum(self.spooled, 1), 0.0)
        since = mean_since * rows
        self.spooled -= rows
        self.spooled_since = np.where(self.spooled > 0, self.spooled_since - since, 0.0)
        return float((rows * now - since).sum())

    def _access_s(self, size: float) -> float:
        return self._machine.seek_s + size / self._machine.disk_bytes_per_s if size > 0 else 0.0
