"""Whether a group of queries still pays: what it takes, and what its members would take alone.

COSMOS (section 3.2) forms a group where its members together have more results than their representative.
Here both sides are CPU time: a query costs something even without results, and splitting is not free.

    group   a query; what its representative took, splitting included
    alone   for each member a query, its rows written, and its part of the join: (given / results)^(1/k)

Of k streams whose filters let alike shares pass, a query with a share s of the results reads s^(1/k) of the
rows. Where filters differ, one stream may be read by more of it; but members that do not filter a stream
share what is read of it, group or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

AT_SITE_S, AT_SLOT_S = 3e-4, 2e-3
"""CPU seconds of a further query in a batch, however few rows it has: at a site, and for files of a slot."""
RESULT_S = 1e-7
"""CPU seconds of writing a result of a query that runs alone."""
MATTERS_S = 5e-3
"""CPU seconds of a batch below which nobody looks whether a group pays."""
MARGIN = 0.7
"""A group is dissolved when members alone would take at most this share of what it takes: the way back is
long, and for the length of a window both run."""
PATIENCE = 8
"""Batches in a row in which it must not pay."""


def query_s(sites: int, slots: int) -> float:
    """CPU seconds of a query in a batch, whatever it asks."""
    return AT_SITE_S * sites + AT_SLOT_S * slots


@dataclass(frozen=True, slots=True)
class GroupMeasure:
    """What a group did in a step.

    Attributes
    ----------
    members, references
        Queries in it, and streams that it joins.
    results, given
        Results of its representative, and rows of all members together.
    seconds, split_s
        CPU time, and how much of it was splitting.
    is_open
        Whether somebody has asked for it, to be joined later: then it stays.
    """

    members: int
    references: int
    results: int
    given: int
    seconds: float
    split_s: float = 0.0
    is_open: bool = False

    def group_s(self, fixed_s: float) -> float:
        """CPU time of the group; `fixed_s`: that of any query (`query_s`)."""
        return fixed_s + self.seconds

    def alone_s(self, fixed_s: float) -> float:
        """CPU time of the members, if each ran by itself."""
        each = min(1.0, self.given / (self.members * max(1, self.results)))
        joined_s = max(0.0, self.seconds - self.split_s) * float(each ** (1 / self.references))
        return self.members * (fixed_s + joined_s) + RESULT_S * self.given

    def pays(self, fixed_s: float) -> bool:
        """Whether the group is worth keeping, or too small to matter."""
        if self.is_open or self.seconds < MATTERS_S:
            return True
        return self.alone_s(fixed_s) > MARGIN * self.group_s(fixed_s)


@dataclass(frozen=True, slots=True)
class GroupVotes:
    """How many batches in a row each group has not paid. A new session counts anew."""

    against: Mapping[str, int] = field(default_factory=dict)

    def after(self, measures: Mapping[str, GroupMeasure], fixed_s: float) -> GroupVotes:
        """Take note of a step. Groups without results tell nothing."""
        votes = {}
        for name, measure in measures.items():
            before = self.against.get(name, 0)
            if not measure.results:
                votes[name] = before
            elif not measure.pays(fixed_s):
                votes[name] = before + 1
        return GroupVotes(votes)

    def dissolved(self) -> tuple[str, ...]:
        """Groups that have not paid for long enough."""
        return tuple(name for name, votes in self.against.items() if votes >= PATIENCE)
