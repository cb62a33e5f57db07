"""How long the states of a set of plans keep their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anabranch.operators.operator import KeptState, kept_states
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import UNBOUNDED_US
from anabranch.state.block import BlockMeta
from anabranch.state.expiry import DROP_ALL, may_drop

BUCKETS_PER_WINDOW = 4
"""Blocks are merged inside a quarter of the window, so that expired rows linger no longer than that."""


def states_of(plans: Iterable[LocalPlan]) -> set[str]:
    """States that the plans read again in later batches."""
    return {kept.state for plan in plans for kept in kept_states(plan)}


def live_blocks(
    blocks: Sequence[BlockMeta],
    plans: Sequence[LocalPlan],
    watermarks: Mapping[str, int | None],
    emitted: Mapping[str, int],
) -> tuple[BlockMeta, ...]:
    """Blocks with rows that some plan can still use.

    Parameters
    ----------
    watermarks
        By stream.
    emitted
        By query that emits rows once they are final: the time up to which it has.
    """
    horizons = horizons_of(plans, watermarks, emitted)
    return tuple(b for b in blocks if not may_drop(b, horizons.get(b.state, DROP_ALL)))


def horizons_of(
    plans: Sequence[LocalPlan], watermarks: Mapping[str, int | None], emitted: Mapping[str, int]
) -> dict[str, int]:
    """Per state the time or deadline below which rows are out of reach of every plan."""
    return {
        state: min(use.horizon(watermarks, emitted) for use in uses) for state, uses in _uses(plans).items()
    }


def bucket_lengths(plans: Iterable[LocalPlan]) -> dict[str, int | None]:
    """Per state the length of its time buckets; None where nothing ever expires."""
    longest = {state: max(use.window_us for use in uses) for state, uses in _uses(plans).items()}
    return {
        state: None if window >= UNBOUNDED_US else max(1, window // BUCKETS_PER_WINDOW)
        for state, window in longest.items()
    }


def _uses(plans: Iterable[LocalPlan]) -> dict[str, list[KeptState]]:
    uses: dict[str, list[KeptState]] = {}
    for plan in plans:
        for kept in kept_states(plan):
            uses.setdefault(kept.state, []).append(kept)
    return uses
