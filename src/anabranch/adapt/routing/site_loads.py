"""What sites have to do beside a join whose rows are spread, and what the join itself takes."""

from __future__ import annotations

import numpy as np

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.routing.load_value import Floats, Usage, Weights, load_values

CPU_WEIGHT = Weights().cpu


def loads_beside(query: str, observed: Observed, sites: int) -> tuple[Floats, float]:
    """By site its load value without the join, above that of the least loaded; and the load of the join."""
    cpu, diffused, memory, rows = (np.zeros(sites) for _ in range(4))
    for report in observed.sites:
        if report.site < sites:
            cpu[report.site] = report.busy_s - report.copy_s - report.rebuild_s
            diffused[report.site] = report.diffused_s.get(query, 0.0)
            memory[report.site], rows[report.site] = report.state_bytes, report.rows
    seconds = cpu.mean() or 1.0
    loads = load_values(Usage(cpu - diffused, np.full(sites, seconds)), Usage(memory), Usage(rows))
    return loads - loads.min(), CPU_WEIGHT * float(diffused.sum() / seconds)
