"""How long the states of a set of plans keep their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.operators.kept_states import KeptState, joined_rows, kept_states
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import UNBOUNDED_US
from anabranch.plan.states.shared_states import SharedStates
from anabranch.plan.states.state_id import StateId
from anabranch.state.block import BlockMeta
from anabranch.state.expiry import DROP_ALL, may_drop

BUCKETS_PER_WINDOW = 4
"""Blocks are merged inside a quarter of the window, so that expired rows linger no longer than that."""


def states_of(plans: Iterable[LocalPlan]) -> set[StateId]:
    """States that the plans read again in later batches."""
    return {kept.state for plan in plans for kept in kept_states(plan)}


@dataclass(frozen=True, slots=True)
class KeptStates:
    """The states of a set of plans, and how they are read.

    Thousands of queries read their states in a few ways, which alone are looked at in every batch.
    """

    uses: tuple[KeptState, ...]
    """The ways, each once."""
    ways: Mapping[StateId, tuple[int, ...]]
    """Which of them, by state."""
    buckets: Mapping[str, int | None]
    """By state the length of its time buckets; None where nothing ever expires."""

    @classmethod
    def of(cls, plans: Sequence[LocalPlan], shared: SharedStates | None = None) -> KeptStates:
        """The states of some plans.

        Parameters
        ----------
        shared
            States that several queries could read: they keep what any of these that run needs.
        """
        numbers: dict[KeptState, int] = {}
        ways: dict[StateId, list[int]] = {}
        for kept in _all_uses(plans, shared or SharedStates()):
            number = numbers.setdefault(replace(kept, state=""), len(numbers))  # type: ignore[type-var]
            mine = ways.setdefault(kept.state, [])
            if number not in mine:
                mine.append(number)
        uses = tuple(numbers)
        windows = {state: max(uses[i].window_us for i in mine) for state, mine in ways.items()}
        buckets: dict[str, int | None] = {
            state: None if window >= UNBOUNDED_US else max(1, window // BUCKETS_PER_WINDOW)
            for state, window in windows.items()
        }
        return cls(uses, {state: tuple(mine) for state, mine in ways.items()}, buckets)


def _all_uses(plans: Sequence[LocalPlan], shared: SharedStates) -> Iterator[KeptState]:
    """How plans read their states, and how other queries of theirs could."""
    common: dict[StateId, None] = {}
    for plan in plans:
        for kept in kept_states(plan):
            yield kept
            if kept.state in shared.readers:
                common[kept.state] = None
    running = {plan.query.name: plan.query for plan in plans} if common else {}
    for state in common:
        for reader in shared.readers[state]:
            if reader.query in running:
                yield joined_rows(state, running[reader.query], reader.aliases)


def live_blocks(
    blocks: Sequence[BlockMeta],
    kept: KeptStates,
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
    horizons = horizons_of(kept, watermarks, emitted)
    return tuple(b for b in blocks if not may_drop(b, horizons.get(b.state, DROP_ALL)))


def horizons_of(
    kept: KeptStates, watermarks: Mapping[str, int | None], emitted: Mapping[str, int]
) -> dict[str, int]:
    """Per state the time or deadline below which rows are out of reach of every plan."""
    horizons = [use.horizon(watermarks, emitted) for use in kept.uses]
    return {state: min([horizons[i] for i in mine]) for state, mine in kept.ways.items()}
