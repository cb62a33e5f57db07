"""Columns of a plan's nodes: which a reference has, which a join must keep, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Mapping

from anabranch.plan.inputs import HASH, Input, RoutedQuery, field_column, is_wide, key_hash_column
from anabranch.plan.logical import Query, Ref, column_name
from anabranch.plan.nodes import LeafNode

QUOTED = re.compile(r"""'(?:[^']|'')*'|"([^"]+)\"""")
"""A text constant, which may contain quotes of the other kind, or the name of a column."""


def leaf_node(
    routed: RoutedQuery, ref: Ref, source: Input, *, foreign: Mapping[str, str] | None = None
) -> LeafNode:
    """A reference, read from one of its inputs.

    Parameters
    ----------
    foreign
        Columns that joins take along for other queries, and what they are called in the input's rows.
    """
    names = {**(foreign or {})}
    names |= {column_name(ref.alias, i): field_column(field) for i, field in enumerate(ref.fields)}
    for c, key_class in enumerate(routed.query.classes):
        for member in key_class.members:
            if member.alias == ref.alias:
                single_route = source.route.keys == (member.field,)
                names[f"k{c}"] = HASH if single_route else key_hash_column(member.field)
                if is_wide(key_class.type):
                    names[f"key{c}"] = field_column(member.field)
    return LeafNode((ref.alias,), source.id, source.state, ref.window_us, names)


def to_verify(query: Query, classes: tuple[int, ...]) -> tuple[str, ...]:
    """A lone 64-bit key is proved by its hash, which is a bijection; wide or combined keys are not."""
    return tuple(
        f"key{c}" if is_wide(query.classes[c].type) else f"k{c}"
        for c in classes
        if is_wide(query.classes[c].type) or len(classes) > 1
    )


def columns_above(routed: RoutedQuery, inside: tuple[str, ...]) -> tuple[str, ...]:
    """Logical columns of the references `inside` that something above their join still needs."""
    query, here = routed.query, frozenset(inside)
    columns = []
    for c, members in enumerate(routed.graph.class_aliases):
        if members & here and members - here:
            if routed.routing != (c,):
                columns.append(f"k{c}")
            if is_wide(query.classes[c].type):
                columns.append(f"key{c}")
    open_residuals = [
        r.sql for r, a in zip(query.residuals, routed.graph.residual_aliases, strict=True) if a - here
    ]
    wanted = query.outputs if query.grouping is None else query.grouping.values
    used = columns_in(query, open_residuals + [o.sql for o in wanted])
    return tuple(columns) + tuple(name for name in used if name.rsplit(".", 1)[0] in here)


def quoted_names(sql: str) -> tuple[str, ...]:
    """Names of columns that an expression reads.

    >>> quoted_names('"a.0" || "b.1" || "a.0"')
    ('a.0', 'b.1')
    """
    return tuple(dict.fromkeys(name for name in QUOTED.findall(sql) if name))


def columns_in(query: Query, expressions: list[str]) -> tuple[str, ...]:
    known = {column_name(r.alias, i) for r in query.refs for i in range(len(r.fields))}
    found = dict.fromkeys(name for sql in expressions for name in QUOTED.findall(sql))
    return tuple(name for name in found if name in known)
