"""Load: what the sites report of a batch, as the statistics that policies take."""

from __future__ import annotations

import numpy as np

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.measures.statistics import Statistics
from anabranch.exchange.address import PARTITIONS


def load_of(observed: Observed, spilled: frozenset[int]) -> Statistics:
    """Statistics of a batch.

    Parameters
    ----------
    spilled
        Partitions that were not in memory.
    """
    sites = observed.partition_map.sites
    busy = np.zeros(sites)
    rows, pairs = np.zeros(PARTITIONS, np.int64), np.zeros(PARTITIONS, np.int64)
    for site in observed.sites:
        # What a move or another plan took once says nothing about the load that is to come, and rows that
        # no state keeps come to another partition every time.
        busy[site.site] = max(0.0, site.busy_s - site.copy_s - site.rebuild_s - site.passing_s - site.split_s)
        for partition, arrived, matched in site.partitions:
            rows[partition] += arrived
            pairs[partition] += matched
    on_disk = np.zeros(PARTITIONS, np.bool_)
    on_disk[sorted(spilled)] = True
    budget = observed.settings.memory_budget
    return Statistics.of_batch(
        busy,
        rows,
        probes=rows,
        matches=pairs,
        state_bytes=observed.state_bytes,
        pending_rows=observed.pending_rows,
        on_disk=on_disk,
        memory_bytes=np.full(sites, budget) if budget else None,
        overhead_s=observed.overhead_s,
    )
