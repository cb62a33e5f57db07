"""Policies and stages that Flux's experiments have in common (sections 3, 5.4 and 6.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anabranch.adapt.balance.best_fit_policy import BestFitPolicy
from anabranch.adapt.balance.controller import Controller
from anabranch.adapt.balance.controller_settings import ControllerSettings
from anabranch.adapt.balance.hybrid_policy import HybridPolicy
from anabranch.adapt.balance.load_policy import LoadPolicy
from anabranch.adapt.balance.policy import Policy
from anabranch.adapt.balance.self_tuning import TuningLimits
from anabranch.adapt.measures.rolling import Memory
from anabranch.adapt.memory.memory_policy import MemoryPolicy
from anabranch.sim.cluster import MB, PAPERS_CPU_LEFT, Cluster, Disturbance, Network
from anabranch.sim.pipeline import Pipeline, Stage
from anabranch.sim.trace import Trace
from anabranch.sim.workload import uniform

SITES = 32
LOAD_PARTITIONS = 64
"""Per site, sections 5.4."""
MEMORY_PARTITIONS = 128
"""Per site, section 6.3."""
LARGE_STATE = 6 * MB


def published(policy: Policy, *, minimum_round: float = 0.010) -> Controller:
    """The paper's controller: its thresholds, its damping, no memory of earlier rounds, no tuning."""
    return Controller(policy, ControllerSettings.as_published(minimum_round=minimum_round))


def published_load(*, minimum_round: float = 0.010) -> Controller:
    return published(LoadPolicy(), minimum_round=minimum_round)


def published_memory() -> Controller:
    return published(MemoryPolicy())


def published_hybrid() -> Controller:
    return published(HybridPolicy.as_published())


def tuned_load() -> Controller:
    """The paper's policy under our self-tuning, started at the δ_min that makes it thrash."""
    limits = TuningLimits(imbalance=1.2, keenest_imbalance=1.1, minimum_round=0.010, longest_round=2.0)
    settings = ControllerSettings.as_published()
    return Controller(LoadPolicy(), replace(settings, limits=limits, self_tuning=True, undo_span=10))


def our_settings() -> ControllerSettings:
    """The engine's defaults, on a cluster where moves take time and rounds are seconds long."""
    limits = TuningLimits(minimum_round=0.1, longest_round=4.0)
    memory = Memory(fit_costs=False)
    return ControllerSettings(limits=limits, memory=memory, instant=False)


def our_load() -> Controller:
    return Controller(BestFitPolicy(), our_settings())


def our_hybrid() -> Controller:
    policy = HybridPolicy(MemoryPolicy(passes=4, only_when_short=True), BestFitPolicy(within_memory=True))
    return Controller(policy, our_settings())


def small_cluster(disturbances: tuple[Disturbance, ...] = (), *, sites: int = SITES) -> Cluster:
    """The paper's cluster; with fewer sites, the same number of rows is under way to each."""
    return Cluster(
        sites=sites, network=Network(rows_per_connection=24 * SITES // sites), disturbances=disturbances
    )


def ideal_share(sites: int, loaded: int) -> float:
    """Throughput of a perfect spread against the unloaded cluster's."""
    return (sites - loaded * (1 - PAPERS_CPU_LEFT)) / sites


def loaded_sites(count: int, *, sites: int = SITES, seed: int = 0) -> list[int]:
    """A random subset of the sites."""
    return sorted(np.random.default_rng(5 + seed).permutation(sites)[:count].tolist())


def seeds(*, quick: bool) -> tuple[int, ...]:
    """Every figure is measured under each of these; the median decides."""
    return (0,) if quick else (0, 1, 2)


def load_stage(cluster: Cluster, *, seed: int) -> Stage:
    """Section 5.4: 64 partitions of 800 KB per site, uniform rows."""
    return Stage(cluster, uniform(cluster.sites * LOAD_PARTITIONS), seed=seed)


def memory_stage(cluster: Cluster, *, seed: int, tick_s: float = 0.01) -> Stage:
    """Section 6.3: 128 partitions of 6 MB per site; 768 of 1,024 MB are in use."""
    return Stage(
        cluster,
        uniform(cluster.sites * MEMORY_PARTITIONS),
        state_bytes=LARGE_STATE,
        rows_per_partition=LARGE_STATE // 80,
        spills=True,
        tick_s=tick_s,
        seed=seed,
    )


def memory_pressure(
    sites: list[int], *, start_s: float = 0.0, memory_bytes: float = 512 * MB, busy: bool = False
) -> tuple[Disturbance, ...]:
    """Another process that pins memory and, if asked, also keeps the CPU busy."""
    left = PAPERS_CPU_LEFT if busy else 1.0
    return tuple(Disturbance(s, start_s, cpu_left=left, memory_bytes=memory_bytes) for s in sites)


def run(stage: Stage, controller: Controller | None, duration_s: float) -> Trace:
    return Pipeline(stage, controller).run(duration_s)
