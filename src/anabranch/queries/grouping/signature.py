"""The signature of a query: equal for queries that one representative can answer.

So a new query finds its group with one look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable

from anabranch.plan.logical import Grouping
from anabranch.plan.predicate import Constraint
from anabranch.queries.shape import Shape


def signature(shape: Shape) -> Hashable | None:
    """What a query must share with its group; None for a query that stays alone.

    Same streams and same equalities. Filters may differ in constraints, not in their rest. Residuals may
    differ where there is an equality; a join by nothing but a residual would be lost without it. Aggregates
    need the same windows, keys and rows (theorem 3.2), up to constraints on group keys.
    """
    if any(len(rest) != 1 for rest in shape.rests):
        return None
    streams = tuple(ref.stream for ref in shape.refs)
    common: tuple[Hashable, ...] = (streams, shape.classes, shape.rests)
    if shape.query.grouping is not None:
        return _grouped(shape, shape.query.grouping, common)
    if len(streams) > 1 and not shape.classes:
        return (*common, frozenset(shape.residuals))
    return common


def _grouped(shape: Shape, grouping: Grouping, common: tuple[Hashable, ...]) -> Hashable | None:
    if len(shape.refs) > 1 or len(shape.filters[0].predicate.any_of) != 1:
        return None
    windows = grouping.distinct, grouping.rows, grouping.window, shape.refs[0].window_us
    keys = tuple(k.hashed for k in grouping.keys)
    return (*common, windows, keys, frozenset(row_constraints(shape)))


def key_attributes(shape: Shape) -> frozenset[str]:
    """Attributes that have one value in each group."""
    grouping, fields = shape.query.grouping, shape.refs[0].fields
    assert grouping is not None
    return frozenset(f"{fields[k.field].sql}::{fields[k.field].type}" for k in grouping.keys)


def row_constraints(shape: Shape) -> list[Constraint]:
    """Of an aggregate's filter: constraints that let some rows of a group through and others not."""
    keys = key_attributes(shape)
    (conjunction,) = shape.filters[0].predicate.any_of
    return [c for c in conjunction.constraints if c.attribute not in keys]
