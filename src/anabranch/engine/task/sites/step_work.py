"""The work of all sites in a step, and what follows from its plans alone.

Most steps have the work of the step before, so that this is made once and looked at often.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from anabranch.engine.step.manifests.retention import KeptStates
from anabranch.engine.task.sites.memory_plan import MemoryPlan, memory_plan
from anabranch.engine.task.sites.site_work import TrackWork, all_plans, needed_partitions
from anabranch.exchange.partition_set import PartitionSet
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import StationsNode
from anabranch.plan.states.shared_states import SharedStates
from anabranch.plan.states.state_id import StateId


class StepWork:
    """The tracks of every site, and what their plans keep.

    Parameters
    ----------
    by_site
        The tracks of every site.
    shared
        States that several queries could read.
    """

    def __init__(
        self, by_site: Mapping[int, tuple[TrackWork, ...]], shared: SharedStates | None = None
    ) -> None:
        self.by_site = by_site
        self._shared = shared
        self.plans: tuple[LocalPlan, ...] = all_plans(by_site)
        """Every plan that some site runs, once."""
        self._memory: dict[int | None, MemoryPlan] = {}

    @cached_property
    def windowed(self) -> tuple[LocalPlan, ...]:
        """Plans that group rows."""
        return tuple(plan for plan in self.plans if plan.window is not None)

    @cached_property
    def kept(self) -> KeptStates:
        """States that are read again in later batches."""
        return KeptStates.of(self.plans, self._shared)

    @cached_property
    def stateful(self) -> frozenset[StateId]:
        """Their names."""
        return frozenset(self.kept.ways)

    @cached_property
    def needed(self) -> Mapping[StateId, PartitionSet]:
        """By intermediate state the partitions on which some track keeps it."""
        return needed_partitions(self.by_site)

    @cached_property
    def stations(self) -> int:
        """How often rows may travel between stations, the first time included."""
        roots = (plan.root for plan in self.plans)
        return max((r.hops for r in roots if isinstance(r, StationsNode)), default=1)

    @cached_property
    def ending(self) -> tuple[tuple[int, PartitionSet], ...]:
        """Sites with tracks that end, and the partitions of these."""
        return tuple(
            (site, item.partitions)
            for site, work in self.by_site.items()
            for item in work
            if item.until is not None
        )

    def memory(self, budget: int | None) -> MemoryPlan:
        """What the memory budget of a site means for each state."""
        if budget not in self._memory:
            self._memory[budget] = memory_plan(self.plans, budget)
        return self._memory[budget]
