"""Turns: which sites get the next segments, the least loaded first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet

Floats = npt.NDArray[np.float64]
TURNS = 4
"""Segments per site in a cycle, where sites are not loaded alike."""
MATERIAL = 1.1
"""A cycle is kept unless another one would make the busiest site so many times less busy."""


def turns(loads: Floats, segment: float) -> tuple[int, ...]:
    """Sites in the order in which they get segments: always the one that is least loaded by then.

    Parameters
    ----------
    loads
        What each site has to do beside these segments.
    segment
        What a segment adds, in the same unit.

    >>> turns(np.array([0.0, 0.0, 0.0]), 1.0)
    (0, 1, 2)
    >>> turns(np.array([8.0, 0.0]), 1.0)
    (1, 1, 1, 1, 1, 1, 1, 1)
    """
    sites = len(loads)
    if np.ptp(loads) <= segment * (MATERIAL - 1):
        return tuple(range(sites))
    total, order = loads.astype(float).copy(), []
    for _ in range(TURNS * sites):
        site = int(np.argmin(total))
        order.append(site)
        total[site] += segment
    return tuple(order)


def busiest(loads: Floats, order: Sequence[int], segment: float, segments: float) -> float:
    """Load of the busiest site when so many segments go round in this order."""
    share = np.bincount(np.array(order), minlength=len(loads)) / len(order)
    return float((loads + share * segment * segments).max())


def lanes(
    partition_map: PartitionMap, in_use: Sequence[int], taken: PartitionSet, *, salt: int
) -> dict[int, int]:
    """A partition for each site, in which it gets rows: one that it has had, or any that is not taken.

    A site without one that is free gets none.
    """
    found: dict[int, int] = {}
    for partition in in_use:
        if partition not in taken:
            found.setdefault(partition_map.site_of_partition[partition], partition)
    for site, owned in enumerate(partition_map.partitions_by_site()):
        if site not in found and (free := list(owned - taken)):
            found[site] = free[salt % len(free)]
    return found


def cycle_of(order: Sequence[int], lane_of: Mapping[int, int]) -> tuple[int, ...]:
    """The partitions of sites that take turns."""
    return tuple(lane_of[site] for site in order)
