"""Rows of states that several queries have in common: made once at a site, and given to the others.

The first query to come makes them. Only what it has made to the end is given: if it is ended by a quota, or
leaves its plan for lack of memory, the next one makes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from anabranch.exchange.partition_set import PartitionSet, union
from anabranch.operators.join.common_stations import CommonStations
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.states.shared_states import SharedStates
from anabranch.plan.states.state_id import StateId


class CommonRows:
    """What the queries of some sites have made in this batch for each other.

    Parameters
    ----------
    shared
        The states that they have in common.
    """

    def __init__(self, shared: SharedStates) -> None:
        self._shared = shared
        self.new: dict[StateId, Sequence[RowSet]] = {}
        """New rows."""
        self.stations = CommonStations()
        """What they have found at stations."""
        self._rebuilt: dict[StateId, list[tuple[PartitionSet, Sequence[RowSet]]]] = {}

    def give(
        self,
        new: Mapping[StateId, Sequence[RowSet]],
        rebuilt: Iterable[tuple[StateId, PartitionSet, Sequence[RowSet]]],
    ) -> None:
        """Let others have what a query has made: new rows, and those of states that it had to compute."""
        self.new |= {state: rows for state, rows in new.items() if state in self._shared.readers}
        for state, partitions, rows in rebuilt:
            if state in self._shared.readers:
                self._rebuilt.setdefault(state, []).append((partitions, rows))

    def rebuilt(self, state: StateId, partitions: PartitionSet) -> list[RowSet] | None:
        """Rows of a state that another query has computed for these partitions; None if nobody has."""
        found = [(p, rows) for p, rows in self._rebuilt.get(state, ()) if p & partitions]
        if not found:
            return None
        # What one query lacks of a state, all lack that read it there; they may go about it part by part.
        assert not partitions - union(p for p, _ in found), f"{state} is computed for some partitions only"
        mine = partitions.flags()
        return [row if not p - partitions else row.within(mine) for p, rows in found for row in rows]
