"""Edges that were chosen for the stations of a join, as checkpoints remember them: by keys, not numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anabranch.plan.inputs import field_column
from anabranch.plan.logical import Query
from anabranch.plan.stations.join_tree import EdgeEnds


def edges_json(query: Query, edges: Iterable[EdgeEnds]) -> list[list[str]]:
    """Two references each, and the key of the first."""
    return [[left, right, _key(query, left, number)] for left, right, number in edges]


def edges_from(query: Query, told: Iterable[Sequence[str]]) -> tuple[EdgeEnds, ...]:
    """The edges again, of a query that has the same equalities in perhaps another order."""
    return tuple(
        (
            left,
            right,
            next(
                number
                for number, key_class in enumerate(query.classes)
                if {left, right} <= {m.alias for m in key_class.members} and _key(query, left, number) == key
            ),
        )
        for left, right, key in told
    )


def _key(query: Query, alias: str, key_class: int) -> str:
    return next(field_column(m.field) for m in query.classes[key_class].members if m.alias == alias)
