"""States that several queries of a session have in common.

Each of these queries could read such a state, whether or not its plan of today does. So the state keeps the
columns and the rows that any of them needs: as long as one keeps it in a partition, it is complete for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from anabranch.plan.states.state_id import StateId


@dataclass(frozen=True, slots=True)
class Carried:
    """A column of the rows of a fragment, and where it comes from."""

    name: str
    reference: str
    """Name of the reference by content (`plan.states.fragments`)."""
    column: str
    """What it is called in the reference's own rows."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A query that has a fragment, and the references of it."""

    query: str
    aliases: frozenset[str]


@dataclass(frozen=True, slots=True)
class SharedStates:
    """Intermediate states with several possible readers.

    Attributes
    ----------
    readers
        By state.
    columns
        By state, what some reader needs of its rows.
    states
        By reader.
    stations
        By state of joined rows at stations that several queries have, what some of them need of its rows.
    """

    readers: Mapping[StateId, tuple[Reader, ...]] = field(default_factory=dict)
    columns: Mapping[StateId, tuple[Carried, ...]] = field(default_factory=dict)
    states: Mapping[Reader, StateId] = field(default_factory=dict)
    stations: Mapping[StateId, tuple[Carried, ...]] = field(default_factory=dict)

    @property
    def queries(self) -> frozenset[str]:
        """Queries that could share a state with another."""
        return frozenset(reader.query for reader in self.states)

    def others(self, query: str, aliases: Iterable[str]) -> Iterator[Reader]:
        """The other queries with the same fragment."""
        state = self.states.get(Reader(query, frozenset(aliases)))
        if state is not None:
            yield from (reader for reader in self.readers[state] if reader.query != query)

    def taken_from(self, reference: str) -> dict[str, str]:
        """Columns that fragments take from a reference, and what they are called in its own rows."""
        needed = chain.from_iterable((*self.columns.values(), *self.stations.values()))
        return {c.name: c.column for c in needed if c.reference == reference}
