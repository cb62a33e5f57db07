"""Back-pressure: how much longer a row takes at some sites than at others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.measures.statistics import Floats
from anabranch.exchange.partition_map import PartitionMap

PLAIN = 1.5
"""Busy times differ by chance: what is less than that is no pressure."""
MOST = 8.0
LEAST_S = 0.005
"""Of a site that was busy for less, a pause of the machine is most of the time."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """Seconds per row of each site, fading; relative to the usual site it is the price of a row there."""

    seconds: tuple[float, ...] = ()

    def after(self, reports: Sequence[SiteReport], sites: int) -> Pressure:
        """The pressure after a step; a site that did little teaches nothing.

        >>> slow = [SiteReport(s, busy_s=0.01 * (1 + 3 * (s == 2)), rows=1000) for s in range(3)]
        >>> Pressure().after(slow, 3).by_site().tolist()
        [1.0, 1.0, 4.0]
        """
        before = self.seconds if len(self.seconds) == sites else (0.0,) * sites
        seconds = list(before)
        for report in reports:
            work = report.rows + report.pairs
            if work and report.busy_s >= LEAST_S and report.site < sites:
                now, past = report.busy_s / work, before[report.site]
                seconds[report.site] = (past + now) / 2 if past else now
        return Pressure(tuple(seconds))

    def by_site(self) -> Floats:
        """Price of a row at each site, 1 where nothing stands out."""
        seconds = np.array(self.seconds)
        if not (seconds > 0).any():
            return np.ones(len(seconds))
        usual = float(np.median(seconds[seconds > 0]))
        price = np.where(seconds > 0, seconds / usual, 1.0)
        found: Floats = np.where(price < PLAIN, 1.0, np.minimum(price, MOST))
        return found

    def by_partition(self, partition_map: PartitionMap) -> Floats:
        """Price of a row in each partition."""
        if len(self.seconds) != partition_map.sites:
            return np.ones(len(partition_map.site_of_partition))
        found: Floats = self.by_site()[partition_map.as_array()]
        return found

    def to_json(self) -> list[float]:
        return list(self.seconds)

    @classmethod
    def from_json(cls, data: Sequence[float]) -> Pressure:
        return cls(tuple(data))
