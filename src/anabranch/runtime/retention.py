"""How long the states of a set of plans keep their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anabranch.plan.local_plan import LeafNode, LocalPlan
from anabranch.plan.logical import UNBOUNDED_US, Query
from anabranch.state.block import BlockMeta
from anabranch.state.expiry import (
    DROP_ALL,
    LeafUse,
    WindowRef,
    intermediate_horizon,
    leaf_horizon,
    may_drop,
)

BUCKETS_PER_WINDOW = 4
"""Blocks are merged inside a quarter of the window, so that expired rows linger no longer than that."""


def states_of(plans: Iterable[LocalPlan]) -> set[str]:
    """States that the plans read: of every node but the root."""
    return {node.state for plan in plans for node in plan.nodes() if node is not plan.root}


def live_blocks(
    blocks: Sequence[BlockMeta], plans: Sequence[LocalPlan], watermarks: Mapping[str, int | None]
) -> tuple[BlockMeta, ...]:
    """Blocks with rows that some plan can still join."""
    horizons = horizons_of(plans, watermarks)
    return tuple(b for b in blocks if not may_drop(b, horizons.get(b.state, DROP_ALL)))


def horizons_of(plans: Sequence[LocalPlan], watermarks: Mapping[str, int | None]) -> dict[str, int]:
    """Per state the deadline below which rows are out of reach of every plan."""
    leaf_uses: dict[str, list[LeafUse]] = {}
    horizons: dict[str, int] = {}
    for plan in plans:
        refs = _refs(plan.query)
        position = {r.alias: i for i, r in enumerate(plan.query.refs)}
        for node in plan.nodes():
            if node is plan.root:
                continue
            if isinstance(node, LeafNode):
                leaf_uses.setdefault(node.state, []).append(LeafUse(refs, position[node.aliases[0]]))
            else:
                inside = {position[a] for a in node.aliases}
                horizon = intermediate_horizon(refs, inside, watermarks)
                horizons[node.state] = min(horizon, horizons.get(node.state, DROP_ALL))
    return horizons | {state: leaf_horizon(uses, watermarks) for state, uses in leaf_uses.items()}


def bucket_lengths(plans: Iterable[LocalPlan]) -> dict[str, int | None]:
    """Per state the length of its time buckets; None where nothing ever expires."""
    longest: dict[str, int] = {}
    for plan in plans:
        windows = {r.alias: r.window_us for r in plan.query.refs}
        for node in plan.nodes():
            if node is not plan.root:
                window = min(windows[a] for a in node.aliases)
                longest[node.state] = max(longest.get(node.state, 0), window)
    return {
        state: None if window >= UNBOUNDED_US else max(1, window // BUCKETS_PER_WINDOW)
        for state, window in longest.items()
    }


def _refs(query: Query) -> tuple[WindowRef, ...]:
    return tuple(
        WindowRef(r.stream, None if r.window_us >= UNBOUNDED_US else r.window_us) for r in query.refs
    )
