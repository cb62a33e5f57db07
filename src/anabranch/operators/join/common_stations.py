"""Joined rows at stations that several queries have in common: found once at a site, by the first to come.

Only what a query has found to the end is given to others, and goes on: if it is ended by a quota, the next
one finds these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.operators.rows.arrays import Int64s
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.states.state_id import StateId

Counts = Mapping[StateId, Int64s]
"""By state, rows by partition."""


@dataclass(frozen=True, slots=True)
class FoundForAll:
    """What one query has found that others have, too.

    Attributes
    ----------
    states
        Whose rows these are, also where there were none.
    travelling
        Rows that go on to other sites.
    staying
        By round and state, rows that stay at this site and arrive in the next round.
    led_to
        By the state that stands for those of a join, what eddies are told: rows to which new rows of either
        side have led, and rows that were there (`station_join`).
    """

    states: set[StateId] = field(default_factory=set)
    travelling: list[tuple[StateId, pa.RecordBatch]] = field(default_factory=list)
    staying: dict[tuple[int, StateId], list[RowSet]] = field(default_factory=dict)
    led_to: dict[StateId, list[tuple[Counts, Counts]]] = field(default_factory=dict)


class CommonStations:
    """What the queries of a site have found for each other in one hop."""

    def __init__(self) -> None:
        self._given: list[FoundForAll] = []

    def give(self, found: FoundForAll) -> None:
        self._given.append(found)

    def has(self, state: StateId) -> bool:
        """Whether all rows that go to a state from here are known."""
        return any(state in given.states for given in self._given)

    def staying(self, number: int, state: StateId) -> list[RowSet]:
        """Rows of a state that arrive after a round."""
        return [rows for given in self._given for rows in given.staying.get((number, state), ())]

    def led_to(self, target: StateId) -> Iterator[tuple[Counts, Counts]]:
        for given in self._given:
            yield from given.led_to.get(target, ())
