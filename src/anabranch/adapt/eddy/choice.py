"""Where rows have a choice of stations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.exchange.station_router import States
from anabranch.plan.nodes import StationsNode


@dataclass(frozen=True, slots=True)
class StationChoice:
    """Rows of some references, and the stations that they may take next.

    Attributes
    ----------
    query
        The first of those that share the choice.
    states
        What keeps the rows at each of the stations.
    stations
        Their names, such as `a–b`.
    others
        The other queries that share it.
    """

    query: str
    aliases: tuple[str, ...]
    states: States
    stations: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def queries(self) -> frozenset[str]:
        """All that share it."""
        return frozenset((self.query, *self.others))

    @property
    def is_first(self) -> bool:
        """Whether it is about rows of a stream, before they have met any other."""
        return len(self.aliases) == 1

    @classmethod
    def of(cls, query: str, root: StationsNode) -> Iterator[StationChoice]:
        """All choices of a query."""
        name_at = {node.state: str(s.edge) for s in root.stations for node in (*s.left, *s.right)}
        for options in root.choices():
            states = tuple(node.state for node in options)
            yield cls(query, options[0].aliases, states, tuple(name_at[state] for state in states))
