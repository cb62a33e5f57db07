"""A catalog made ready to run: what changes only when queries come or go."""

from __future__ import annotations

from dataclasses import dataclass, replace

from anabranch.engine.boundary.observation import IsOver, Observation
from anabranch.engine.task.arrival.wire import Wire, wire_of
from anabranch.engine.task.worker.constants import Compiled, Constants
from anabranch.language.expressions.user_predicates import bound_predicates
from anabranch.plan.roster_change import RosterChange
from anabranch.queries.catalog import Catalog

MOST_CHANGES = 64
"""Files of members that come and go, beside that of the constants."""
FEW = 256
"""Members that have come and gone: so many are told beside the constants, or a fourth of all."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The queries of a session as the batch loop works with them.

    Attributes
    ----------
    compiled
        What the slots are told once, and the plans of its tracks.
    observation
        Makes what the decider sees.
    """

    catalog: Catalog
    wire: Wire
    compiled: Compiled
    observation: Observation
    roster: tuple[RosterChange, ...] = ()
    """Members that have come and gone since the slots were told."""

    @classmethod
    def of(cls, catalog: Catalog, is_over: IsOver, *, like: Prepared | None = None) -> Prepared:
        """Make a catalog ready; `like` another one, whose rows it may have to read."""
        before = None if like is None else (like.catalog.layout.inputs, like.wire)
        wire = wire_of(catalog.layout.inputs, before)
        names = tuple(s.name for s in catalog.streams)
        times = {s.name: s.time for s in catalog.streams}
        compiled = Compiled(Constants(catalog.layout, wire, names, times, catalog.plans, bound_predicates()))
        return cls(catalog, wire, compiled, Observation(catalog, compiled.compiler, is_over))

    def with_catalog(self, catalog: Catalog) -> Prepared:
        """The same queries in another state."""
        return replace(self, catalog=catalog)

    def with_members(self, catalog: Catalog, is_over: IsOver) -> Prepared:
        """The same queries, but that members have come and gone: the slots hear of these alone.

        When that has become much, they are told everything anew.
        """
        if not len(catalog.roster):
            return self.with_catalog(catalog)
        roster = (*self.roster, catalog.roster)
        if len(roster) <= MOST_CHANGES and sum(map(len, roster)) <= max(FEW, len(catalog.states) // 4):
            return replace(self, catalog=catalog, roster=roster)
        return Prepared.of(catalog.with_members_in_layout(), is_over)
