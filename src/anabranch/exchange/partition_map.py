"""Which site owns which partition, and which slot works for which site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PARTITION_BITS = 8
PARTITIONS = 1 << PARTITION_BITS


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """Partition → site. The partition of a row is the top bits of its routing hash.

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

    def as_array(self) -> npt.NDArray[np.int32]:
        return np.array(self.site_of_partition, dtype=np.int32)


def partition_of(hashes: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Partition of each routing hash: its top bits.

    >>> partition_of(np.array([0, -1, 1 << 56])).tolist()
    [0, 255, 1]
    """
    return (hashes.view(np.uint64) >> np.uint64(64 - PARTITION_BITS)).astype(np.int32)
