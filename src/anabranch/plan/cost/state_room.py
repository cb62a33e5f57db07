"""Room for intermediate rows: what a plan is predicted to keep, in bytes, and whether that may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import Plan, joins

HIDDEN_BYTES = 24
"""Of every intermediate row: hash, newest time, deadline."""
INDEX_BYTES = 12
"""Of the order in which it is probed: a hash, and the place of the row."""


@dataclass(frozen=True, slots=True)
class StateRoom:
    """What a query may keep at a site.

    Attributes
    ----------
    most_bytes
        Of all intermediate states; None is any number.
    row_bytes
        What a row takes along from each reference.
    abandoned
        Plans that turned out to need more than was predicted.
    """

    most_bytes: int | None = None
    row_bytes: Mapping[str, float] = field(default_factory=dict)
    abandoned: frozenset[str] = frozenset()

    def has_room(self, plan: Plan, graph: JoinGraph, statistics: JoinStatistics) -> bool:
        """Whether the intermediate states of a plan fit, as far as one can tell."""
        if self.most_bytes is None:
            return True
        if str(plan) in self.abandoned:
            return False
        return self.bytes_of(plan, graph, statistics) <= self.most_bytes

    def bytes_of(self, plan: Plan, graph: JoinGraph, statistics: JoinStatistics) -> float:
        """Bytes of a plan's intermediate states, by the rows that are in state now.

        That is what moving state has to compute at once, and what a parallel track comes to if rates stay.

        >>> graph = JoinGraph(("a", "b", "c"), (frozenset("abc"),), ())
        >>> pairs = {frozenset(pair): 0.5 for pair in ("ab", "ac", "bc")}
        >>> known = JoinStatistics(dict.fromkeys("abc", 1.0), dict.fromkeys("abc", 10.0), pairs)
        >>> from anabranch.plan.tree import parse_plan
        >>> StateRoom(row_bytes=dict.fromkeys("abc", 7.0)).bytes_of(parse_plan("((a b) c)"), graph, known)
        2500.0
        """
        estimates = Estimates(graph, statistics)
        return sum(
            estimates.rows(frozenset(join.aliases))
            * (HIDDEN_BYTES + INDEX_BYTES + sum(self.row_bytes.get(alias, 0.0) for alias in join.aliases))
            for join in joins(plan)
            if join is not plan
        )


ANY_ROOM = StateRoom()
