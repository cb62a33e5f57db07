"""A partition map with any number of partitions: the papers' clusters have thousands."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.exchange.partition_map import PartitionMap


@dataclass(frozen=True, slots=True)
class WideMap(PartitionMap):
    """The engine's map, freed from its number of partitions.

    >>> WideMap.spread(sites=2, partitions=6).site_of_partition
    (0, 0, 0, 1, 1, 1)
    """

    def __post_init__(self) -> None:
        if not all(0 <= site < self.sites for site in self.site_of_partition):
            raise ValueError(f"a partition map names sites 0 to {self.sites - 1} only")

    @classmethod
    def spread(cls, *, sites: int, partitions: int) -> WideMap:
        """Contiguous runs, as `PartitionMap.even`."""
        return cls(tuple(p * sites // partitions for p in range(partitions)), sites)
