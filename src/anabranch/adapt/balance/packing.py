"""How well partitions could be spread at best: a bound and a packing to compare with."""

from __future__ import annotations

import heapq

import numpy as np

from anabranch.adapt.measures.statistics import Floats, Ints


def fluid_level(
    work_s: Floats, slowness: Floats, *, fixed_s: float = 0.0, most_s: Floats | None = None
) -> float:
    """Load every site would have if work could be split at will.

    A site that needs `s` seconds for a second of work takes `level / s` of it.

    Parameters
    ----------
    most_s
        Load that each site can take, for want of memory; the others share what it leaves.

    Examples
    --------
    >>> fluid_level(np.array([3.0, 3.0]), np.array([1.0, 2.0]))
    4.0
    >>> fluid_level(np.array([3.0, 3.0]), np.ones(2), most_s=np.array([1.0, np.inf]))
    5.0
    """
    speed, left = 1.0 / slowness, float(work_s.sum()) + fixed_s * len(slowness)
    most = np.full(len(slowness), np.inf) if most_s is None else most_s
    below = np.ones(len(slowness), np.bool_)
    while True:
        level = (left - float((most * speed)[~below].sum())) / float(speed[below].sum())
        full = below & (most < level)
        if not full.any() or full.sum() == below.sum():
            return level
        below &= ~full


def longest_first(work_s: Floats, slowness: Floats, *, fixed_s: float = 0.0) -> Ints:
    """Pack from scratch: the partitions by falling work, each to the site that finishes it first.

    Graham's LPT rule: the busiest site has at most 4/3 of the optimum's load on equal sites. It ignores
    where partitions are now, so it is a yardstick and not a policy.

    >>> longest_first(np.array([5.0, 4.0, 3.0, 3.0, 3.0]), np.ones(2)).tolist()
    [0, 1, 1, 0, 1]
    """
    site_of = np.zeros(len(work_s), np.int64)
    load = slowness * fixed_s
    if np.all(slowness == slowness[0]):
        heap = [(float(load[s]), s) for s in range(len(slowness))]
        for partition in np.argsort(-work_s, kind="stable"):
            level, site = heap[0]
            site_of[partition] = site
            heapq.heapreplace(heap, (level + float(work_s[partition] * slowness[site]), site))
        return site_of
    for partition in np.argsort(-work_s, kind="stable"):
        after = load + slowness * work_s[partition]
        site = int(after.argmin())
        site_of[partition], load[site] = site, after[site]
    return site_of
