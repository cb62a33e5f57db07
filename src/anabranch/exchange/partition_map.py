"""Which site owns which partition, and which slot works for which site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_set import PartitionSet


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """Partition → site.

    >>> PartitionMap.even(4).sites
    4
    >>> PartitionMap.even(4).site_of_partition[:6]
    (0, 0, 0, 0, 0, 0)
    """

    site_of_partition: tuple[int, ...]
    sites: int

    def __post_init__(self) -> None:
        if len(self.site_of_partition) != PARTITIONS:
            raise ValueError(f"a partition map has {PARTITIONS} entries, not {len(self.site_of_partition)}")
        if not all(0 <= site < self.sites for site in self.site_of_partition):
            raise ValueError(f"a partition map names sites 0 to {self.sites - 1} only")

    @classmethod
    def even(cls, sites: int) -> PartitionMap:
        """Contiguous runs of partitions, so that a site's rows are contiguous in every block."""
        return cls(tuple(p * sites // PARTITIONS for p in range(PARTITIONS)), sites)

    def moved(self, moves: Mapping[int, int]) -> PartitionMap:
        """This map with some partitions at other sites."""
        owners = tuple(moves.get(p, site) for p, site in enumerate(self.site_of_partition))
        return PartitionMap(owners, self.sites)

    def rescaled(self, sites: int) -> PartitionMap:
        """A map over another number of sites, as even as can be with few moves.

        >>> grown = PartitionMap.even(2).rescaled(4)
        >>> [grown.site_of_partition.count(site) for site in range(4)]
        [64, 64, 64, 64]
        """
        owned: list[list[int]] = [[] for _ in range(sites)]
        homeless = []
        share = -(-PARTITIONS // sites)
        for partition, site in enumerate(self.site_of_partition):
            if site < sites and len(owned[site]) < share:
                owned[site].append(partition)
            else:
                homeless.append(partition)
        for partition in homeless:
            min(owned, key=len).append(partition)
        # Rounding up may leave one site a few short of an even share.
        while len(max(owned, key=len)) - len(min(owned, key=len)) > 1:
            min(owned, key=len).append(max(owned, key=len).pop())
        owner = {p: site for site, partitions in enumerate(owned) for p in partitions}
        return PartitionMap(tuple(owner[p] for p in range(PARTITIONS)), sites)

    def slot_of_site(self, site: int, slots: int) -> int:
        """Neighbouring sites share a slot."""
        return site * slots // self.sites

    def slot_of_partition(self, slots: int) -> tuple[int, ...]:
        return tuple(self.slot_of_site(site, slots) for site in self.site_of_partition)

    def sites_of_slot(self, slot: int, slots: int) -> tuple[int, ...]:
        return tuple(s for s in range(self.sites) if self.slot_of_site(s, slots) == slot)

    def partitions_of(self, site: int) -> PartitionSet:
        """The partitions of a site."""
        return PartitionSet.of(p for p, owner in enumerate(self.site_of_partition) if owner == site)

    def partitions_by_site(self) -> list[PartitionSet]:
        """The partitions of every site, in one pass."""
        owned: list[list[int]] = [[] for _ in range(self.sites)]
        for partition, site in enumerate(self.site_of_partition):
            owned[site].append(partition)
        return [PartitionSet.of(mine) for mine in owned]

    def moves_to(self, after: PartitionMap) -> dict[tuple[int, int], PartitionSet]:
        """Partitions by (site here, site in another map), where these differ."""
        moves: dict[tuple[int, int], list[int]] = {}
        sites = zip(self.site_of_partition, after.site_of_partition, strict=True)
        for partition, (source, target) in enumerate(sites):
            if source != target:
                moves.setdefault((source, target), []).append(partition)
        return {between: PartitionSet.of(moved) for between, moved in moves.items()}

    def as_array(self) -> npt.NDArray[np.int32]:
        return np.array(self.site_of_partition, dtype=np.int32)
