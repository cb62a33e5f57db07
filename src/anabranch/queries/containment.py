"""Containment of continuous queries (COSMOS, section 3.2): whether one has all results of another.

Theorem 3.1. A select-project-join query is contained in another if it is so without windows, and none of its
windows is longer. Theorem 3.2. A query with aggregates is contained in another if it is so without windows,
and its windows are the same.

Without windows, a join is contained in another of the same streams when its filters imply the other's, its
equalities include the other's and its residuals do. For an aggregate it must group the same rows: filters may
differ in what they say of group keys alone, for then they let a group through as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from anabranch.plan.logical import Query, Ref, Stream
from anabranch.queries.implication import implies
from anabranch.queries.predicates import attribute_types
from anabranch.queries.shape import Shape

MOST_ORDERS = 24
"""Ways to match references of one stream with each other that are tried."""


def contained(inner: Query, outer: Query, streams: Mapping[str, Stream]) -> bool:
    """Whether every result of `inner` comes from rows that `outer` has a result of. A yes is a proof.

    Parameters
    ----------
    streams
        By name: what both queries read.
    """
    if sorted(r.stream for r in inner.refs) != sorted(r.stream for r in outer.refs):
        return False
    if (inner.grouping is None) != (outer.grouping is None):
        return False
    return any(_contained(_ordered(inner, order), outer, streams) for order in _orders(inner, outer))


def _orders(inner: Query, outer: Query) -> list[Sequence[Ref]]:
    """Ways to match references of the inner query with those of the outer, stream by stream."""
    wanted = [r.stream for r in sorted(outer.refs, key=lambda ref: ref.stream)]
    found = (order for order in permutations(inner.refs) if [r.stream for r in order] == wanted)
    return [order for order, _ in zip(found, range(MOST_ORDERS), strict=False)]


def _ordered(query: Query, refs: Sequence[Ref]) -> Query:
    return replace(query, refs=tuple(refs))


def _contained(inner: Query, outer: Query, streams: Mapping[str, Stream]) -> bool:
    ours, theirs = Shape(inner, streams), Shape(outer, streams)
    return (
        _windows_fit(ours, theirs)
        and _equalities_hold(ours, theirs)
        and set(theirs.residuals) <= set(ours.residuals)
        and _filters_imply(ours, theirs)
        and (inner.grouping is None or _groups_alike(ours, theirs))
    )


def _windows_fit(ours: Shape, theirs: Shape) -> bool:
    """Condition 2 of both theorems."""
    pairs = [(a.window_us, b.window_us) for a, b in zip(ours.refs, theirs.refs, strict=True)]
    if ours.query.grouping is not None:
        return all(a == b for a, b in pairs)
    return len(pairs) == 1 or all(a <= b for a, b in pairs)


def _equalities_hold(ours: Shape, theirs: Shape) -> bool:
    """Whether all that the outer query joins by is equal in the inner query, too, in the same type."""
    return all(
        any(kind == other_kind and members <= other for other_kind, other in ours.classes)
        for kind, members in theirs.classes
    )


def _filters_imply(ours: Shape, theirs: Shape) -> bool:
    for a, b in zip(ours.filters, theirs.filters, strict=True):
        if not implies(a.predicate, b.predicate, attribute_types({**a.fields, **b.fields})):
            return False
    return True


def _groups_alike(ours: Shape, theirs: Shape) -> bool:
    """Whether groups of the inner query are groups of the outer, of the same rows."""
    inner, outer = ours.query.grouping, theirs.query.grouping
    assert inner is not None
    assert outer is not None
    if len(ours.refs) > 1:
        return False  # groups above a join are proved by nobody yet
    if ours.query.refs[0].filter != theirs.query.refs[0].filter and not _differ_in_keys(ours, theirs):
        return False
    same = (inner.distinct, inner.rows, inner.window) == (outer.distinct, outer.rows, outer.window)
    keys = [k.hashed for k in inner.keys] == [k.hashed for k in outer.keys]
    having = outer.having is None or _spelled(ours, inner.having) == _spelled(theirs, outer.having)
    return same and keys and having and set(_aggregates(ours)) <= set(_aggregates(theirs))


def _differ_in_keys(ours: Shape, theirs: Shape) -> bool:
    """Whether both filters are a conjunction, and what only one of them says is about group keys."""
    if any(len(s.filters[0].predicate.any_of) != 1 for s in (ours, theirs)):
        return False
    grouping = ours.query.grouping
    assert grouping is not None
    fields = ours.query.refs[0].fields
    keys = {f"{fields[k.field].sql}::{fields[k.field].type}" for k in grouping.keys}
    mine, other = (s.filters[0].predicate.any_of[0] for s in (ours, theirs))
    apart = set(mine.constraints) ^ set(other.constraints)
    return mine.rest == other.rest and all(c.attribute in keys for c in apart)


def _aggregates(shape: Shape) -> list[tuple[object, ...]]:
    grouping, fields = shape.query.grouping, shape.query.refs[0].fields
    assert grouping is not None
    return [
        (
            a.function,
            None if a.field is None else fields[a.field],
            None if a.by is None else fields[a.by],
            a.parameter,
            a.type,
        )
        for a in grouping.aggregates
    ]


def _spelled(shape: Shape, having: str | None) -> str | None:
    if having is None:
        return None
    for number, aggregate in reversed(list(enumerate(_aggregates(shape)))):
        having = having.replace(f'"#.{number}"', repr(aggregate))
    return shape.spelled(having)
