"""Rows of one partition by unit: those that have come along a path meet the units that are joined here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anabranch.exchange.coordinated_router import units_of
from anabranch.operators.join.sources.row_source import Meeting, Way
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH
from anabranch.plan.nodes import JoinNode


class Probing(NamedTuple):
    """Rows that have come, and the units that they meet."""

    rows: RowSet
    units: frozenset[int]


class UnitRows:
    """The row source of a join along paths.

    Parameters
    ----------
    stored
        Rows of the probed reference in this partition.
    """

    def __init__(self, probing: Sequence[Probing], stored: Iterable[RowSet]) -> None:
        self._probing = probing
        self._stored = tuple(stored)

    def ways(self, node: JoinNode) -> Iterator[Way]:
        yield Way(node, (Meeting(rows, self._met(units), new_is_left=True) for rows, units in self._probing))

    def _met(self, units: frozenset[int]) -> list[RowSet]:
        return [piece for rows in self._stored for piece in pieces_of(rows, units)]

    def examined(self) -> int:
        """Pairs of rows that could have met."""
        return sum(len(rows) * sum(map(len, self._met(units))) for rows, units in self._probing)


def by_unit(rows: RowSet) -> list[tuple[int, RowSet]]:
    """Rows of one partition by unit; those of a block are cut once."""

    def cut() -> list[tuple[int, RowSet]]:
        units = units_of(np.ascontiguousarray(rows.int64s(HASH)))
        bounds = [0, *(np.flatnonzero(np.diff(units)) + 1).tolist(), len(units)]
        if len(bounds) == 2:
            return [(int(units[0]), rows)] if len(units) else []
        pairs = pairwise(bounds)
        return [(int(units[begin]), RowSet(rows.batch.slice(begin, end - begin))) for begin, end in pairs]

    return rows.derived("units", cut)


def pieces_of(rows: RowSet, units: Collection[int]) -> list[RowSet]:
    """The rows of some units, in as few pieces as there are: most often all or none of a block."""
    cut = by_unit(rows)
    mine = [piece for unit, piece in cut if unit in units]
    return [rows] if len(mine) == len(cut) else mine
