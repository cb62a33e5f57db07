"""What queries of a session mean for each other's tracks: states that they have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.states.shared_states import SharedStates
from anabranch.plan.tree import state_of_aliases


@dataclass(frozen=True, slots=True)
class Common:
    """States that queries share, and queries whose state can only be moved.

    Attributes
    ----------
    by_moving
        Queries for which there is no parallel track.
    ended
        Queries that no longer work: what they kept is no longer complete.
    """

    shared: SharedStates = field(default_factory=SharedStates)
    by_moving: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()

    def strategy(self, query: str, wanted: Strategy) -> Strategy:
        """How a query changes plans or sites."""
        return Strategy.MOVING_STATE if query in self.by_moving else wanted

    def elsewhere(self, query: str, state: str) -> Iterator[tuple[str, str]]:
        """Other queries that could keep a state, and what they call it."""
        for other in self.shared.others(query, state.split(".")):
            if other.query not in self.ended:
                yield other.query, state_of_aliases(other.aliases)


ALONE = Common()
"""No query has anything in common with another."""
