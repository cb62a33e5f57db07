"""How the slots of a step keep to the memory budgets of their sites (Flux, section 6.1).

Partitions that are spilled (`Admission.spilled`) are not read. What that means depends on who reads a state:

==========  ========================================  =============================================
            new rows of a spilled partition           its state
==========  ========================================  =============================================
joins       wait until it is activated                the others are copied out of the blocks
aggregates  enter at once, and are answered then      only slices of the others are looked at
==========  ========================================  =============================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.operators.group.held_bytes import held_bytes
from anabranch.operators.kept_states import kept_states
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta

MERGE_COPIES = 4
"""Merging holds its rows so many times: as pieces, concatenated, sorted, and as the bytes of a file."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What the budget means for the states of a step; without a budget, nothing."""

    joined: frozenset[StateId] = frozenset()
    """States that joins read: new rows of spilled partitions wait to enter them."""
    grouped: frozenset[StateId] = frozenset()
    """States that aggregates and DISTINCT alone read: partitions in memory are slices of them."""
    held: Mapping[str, int] = field(default_factory=dict)
    """By state, bytes per row that answering holds beside it."""
    budget: int | None = None
    """Bytes of a site."""

    def most_to_merge(self, state: StateId) -> int | None:
        """Bytes of a state to merge at a time. Joins go through every piece, so that theirs are larger."""
        if self.budget is None or state not in self.grouped:
            return self.budget
        return max(1, self.budget // MERGE_COPIES)


NO_BUDGET = MemoryPlan()


def memory_plan(plans: Sequence[LocalPlan], budget: int | None) -> MemoryPlan:
    """Describe the states of all plans that sites run."""
    joined = frozenset(
        kept.state
        for plan in plans
        if plan.window is None or plan.window.joined
        for kept in kept_states(plan)
        if plan.window is None or kept.state != plan.window.state
    )
    grouped = frozenset(node.state for node in _windows(plans))
    return MemoryPlan(joined, grouped - joined, held_by_state(plans), budget)


def held_by_state(plans: Iterable[LocalPlan]) -> dict[str, int]:
    """By state, bytes per row that answering its queries holds beside it."""
    held: dict[str, int] = {}
    for node in {p.query.name: p.window for p in plans if p.window is not None}.values():
        held[node.state] = held.get(node.state, 0) + held_bytes(node)
    return held


def owing_partitions(
    plans: Iterable[LocalPlan], blocks: Iterable[BlockMeta], spilled: frozenset[int]
) -> dict[str, frozenset[int]]:
    """By state of aggregates and DISTINCT, the spilled partitions that have rows in it."""
    if not spilled:
        return {}
    owing: dict[str, set[int]] = {node.state: set() for node in _windows(plans)}
    for block in blocks:
        if block.state in owing:
            owing[block.state] |= spilled.intersection(p for p, _ in block.partitions)
    return {state: frozenset(partitions) for state, partitions in owing.items()}


def _windows(plans: Iterable[LocalPlan]) -> list[WindowNode]:
    return [plan.window for plan in plans if plan.window is not None]
