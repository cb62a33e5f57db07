"""What a policy sees at the end of a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from anabranch.adapt.balance.proposal import Move
from anabranch.adapt.measures.statistics import Flags, Floats, Ints, sum_by_site


@dataclass(frozen=True, slots=True, eq=False)
class RoundView:
    """The round's measurements, and estimates that remember earlier rounds.

    Attributes
    ----------
    site_of
        Owner of each partition.
    utilisation, rows
        Measured in this round alone: U_j per site and N_p per partition (Flux, section 5.3).
    work_s
        Per partition: seconds of work it brings per second of a round at a site of normal speed, new
        rows and growth of its spool included.
    slowness
        Per site: seconds it needs for a second of work. External load or a weak machine make it large.
    fixed_s
        What a site costs without any row, in the unit of `work_s`.
    state_bytes, on_disk
        Per partition.
    memory_bytes
        Per site; infinite without a budget.
    pinned
        Partitions with a running protocol: they stay.
    barred
        Sites a partition has left so recently that going back would undo the move.
    overhead_s
        Time that passes beside the busiest site's work, in the unit of `work_s`.
    noise
        Relative standard error of a site's load.
    """

    site_of: Ints
    utilisation: Floats
    rows: Ints
    work_s: Floats
    slowness: Floats
    fixed_s: float
    state_bytes: Ints
    on_disk: Flags
    memory_bytes: Floats
    pinned: Flags
    barred: Mapping[int, frozenset[int]] = field(default_factory=dict)
    overhead_s: float = 0.0
    noise: float = 0.0

    @property
    def sites(self) -> int:
        return len(self.slowness)

    def may_move(self, partition: int, target: int) -> bool:
        """Whether nothing forbids this partition to go there."""
        return not self.pinned[partition] and target not in self.barred.get(partition, ())

    def load_of_sites(self) -> Floats:
        """Seconds each site needs for what its partitions bring in a second."""
        return self.slowness * (self.fixed_s + sum_by_site(self.work_s, self.site_of, self.sites))

    def excess_of_sites(self) -> Floats:
        """Bytes of memory each site has beyond its state; negative where state must spill.

        Flux, section 6.2 prints this with the sign the other way round, and then calls it negative when
        memory is exhausted; the sentence is right.
        """
        return self.memory_bytes - sum_by_site(self.state_bytes, self.site_of, self.sites)

    def after(self, moves: Iterable[Move]) -> Floats:
        """Load of the sites once these moves are made, if the work stays as it is."""
        load = self.load_of_sites()
        for move in moves:
            work = self.work_s[move.partition]
            load[move.source] -= self.slowness[move.source] * work
            load[move.target] += self.slowness[move.target] * work
        return load

    def partitions_of(self, site: int) -> Ints:
        return np.flatnonzero(self.site_of == site)
