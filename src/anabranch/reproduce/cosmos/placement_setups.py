"""Clusters and disturbances that figures 6.5 to 6.11 of COSMOS share."""

from __future__ import annotations

import random
from collections.abc import Sequence

from anabranch.sim.placement.placement_run import Disturbance, PlacementPolicy, PlacementRun, PlacementTrace
from anabranch.sim.placement.queries import QueryLoad

ZIPF = 0.95
FOREIGN = 0.6
"""Load of ad-hoc queries: with that of its own, a site is busy for about 0.9 of the time."""
RAISED = 3.0


def seeds(*, quick: bool) -> tuple[int, ...]:
    return (1,) if quick else (1, 2, 3)


def skewed(seed: int, *, quick: bool, units: int = 1) -> QueryLoad:
    """Streams chosen by a Zipf distribution: the load is far from balanced at the start."""
    return _load(seed, quick=quick, skew=ZIPF, units=units)


def balanced(seed: int, *, quick: bool) -> QueryLoad:
    """Every stream is read by as many queries."""
    return _load(seed, quick=quick, skew=None, units=1)


def _load(seed: int, *, quick: bool, skew: float | None, units: int) -> QueryLoad:
    sites, queries = (16, 250) if quick else (32, 500)
    return QueryLoad(sites=sites, queries=queries, skew=skew, units=units, seed=seed)


def some_sites(load: QueryLoad, count: int) -> list[int]:
    return random.Random(100 + load.seed).sample(range(load.sites), count)


def raised(sites: Sequence[int], start: float, end: float) -> Disturbance:
    """The rates of these sites' streams are raised for a while."""
    faster = dict.fromkeys(sites, RAISED)
    return lambda now: (faster if start <= now < end else {}, {})


def foreign(sites: Sequence[int], start: float) -> Disturbance:
    """These sites get other work, from some time on."""
    busy = dict.fromkeys(sites, FOREIGN)
    return lambda now: ({}, busy if now >= start else {})


def traced(
    load: QueryLoad, policy: PlacementPolicy, until: float, disturbance: Disturbance | None = None
) -> PlacementTrace:
    """Run a cluster for so many seconds."""
    run = PlacementRun(load, policy) if disturbance is None else PlacementRun(load, policy, disturbance)
    return run.run(until)
