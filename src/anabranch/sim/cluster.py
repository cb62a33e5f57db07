"""The machines of a simulated cluster, and what others do to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.adapt.measures.statistics import Floats

MB = 1_000_000
GB = 1_000 * MB
MBIT = MB / 8


@dataclass(frozen=True, slots=True)
class Machine:
    """Flux, section 3: 45 ± 3 µs of CPU per row, a disk with 20 MB/s and 5 ms seeks, 1 GB of memory.

    Attributes
    ----------
    produce_s
        CPU per row that the site's producer makes.
    run_bytes
        Input of a spilled partition is written in runs of this size, each with a seek (section 6.1: "random
        I/Os while spilling runs"). A page: section 6.1 has pages as its only unit of memory, and an output
        buffer per partition "similar to the hybrid hash join", which writes it when its page is full. The
        paper does not say how large a page is; TelegraphCQ, the system Flux is for (its reference 5), is
        built on PostgreSQL, whose page has 8 KB. Figure 15 shows what depends on it.
    """

    row_s: float = 45e-6
    row_spread_s: float = 3e-6
    produce_s: float = 0.5e-6
    memory_bytes: float = 1.024 * GB
    disk_bytes_per_s: float = 20 * MB
    seek_s: float = 0.005
    run_bytes: float = 8_192


@dataclass(frozen=True, slots=True)
class Network:
    """Flux, sections 3 and 5.4: two 1 KB packets of 80-byte rows per connection; limits for moving state.

    Attributes
    ----------
    rows_per_packet
        Rows that wait for each other before they leave: a packet's. The paper does not say whether a packet
        leaves before it is full; with 1, every row leaves at once. Figure 9 depends on it.
    """

    rows_per_connection: int = 24
    rows_per_packet: int = 12
    pair_bytes_per_s: float = 250 * MBIT
    total_bytes_per_s: float = 500 * MBIT


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Another process on a site for a while.

    Attributes
    ----------
    cpu_left
        Share of the CPU that remains for us. The paper's process (100 µs busy, 50 µs asleep) leaves 0.43: it
        slows an operator at full speed down by 57 % (section 4).
    memory_bytes
        What it pins.
    """

    site: int
    start_s: float = 0.0
    end_s: float = np.inf
    cpu_left: float = 1.0
    memory_bytes: float = 0.0


PAPERS_CPU_LEFT = 0.43


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal machines, with disturbances."""

    sites: int = 32
    machine: Machine = Machine()
    network: Network = Network()
    disturbances: tuple[Disturbance, ...] = ()

    def cpu_left(self, now: float) -> Floats:
        """Share of each site's CPU that is ours at this time."""
        left = np.ones(self.sites)
        for d in self._present(now):
            left[d.site] *= d.cpu_left
        return left

    def memory(self, now: float) -> Floats:
        """Bytes of each site's memory that are ours at this time."""
        left = np.full(self.sites, float(self.machine.memory_bytes))
        for d in self._present(now):
            left[d.site] -= d.memory_bytes
        return left

    def _present(self, now: float) -> list[Disturbance]:
        return [d for d in self.disturbances if d.start_s <= now + 1e-9 < d.end_s]

    def changes(self) -> tuple[float, ...]:
        """Times at which a disturbance begins or ends."""
        return tuple(sorted({t for d in self.disturbances for t in (d.start_s, d.end_s) if np.isfinite(t)}))


def busy_process(sites: Sequence[int], *, start_s: float = 0.0) -> tuple[Disturbance, ...]:
    """The paper's external load on these sites, from `start_s` on."""
    return tuple(Disturbance(site, start_s, cpu_left=PAPERS_CPU_LEFT) for site in sites)


def rotating_process(sites: int, *, each_s: float, until_s: float) -> tuple[Disturbance, ...]:
    """The paper's external load on one site after the other."""
    turns = round(until_s / each_s)
    return tuple(
        Disturbance(i % sites, i * each_s, (i + 1) * each_s, cpu_left=PAPERS_CPU_LEFT) for i in range(turns)
    )
