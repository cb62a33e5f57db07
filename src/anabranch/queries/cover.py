"""The cover of many predicates: one conjunction that is true wherever one of them is, and its SQL.

A union of a thousand filters would be evaluated a thousand times per row. So the union is taken attribute by
attribute: of single values their set, of intervals the smallest that has them all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta

from anabranch.language.expressions.constants import spark_constant
from anabranch.operators.filter.coding import Coding
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.plan.logical import Field
from anabranch.plan.predicate import Between, Conjunction, Constant, Constraint, IsNull, OneOf, Predicate

MOST_VALUES = 64
"""Values up to which a union of single values stays a set."""


def cover_of(predicates: Sequence[Predicate], fields: Mapping[str, Field]) -> Conjunction:
    """The tightest conjunction that this finds of what all of them imply; `fields`: what attributes are."""
    each = [conjunction for predicate in predicates for conjunction in predicate.any_of]
    if not each:
        return Conjunction()
    by_attribute = [_by_attribute(conjunction) for conjunction in each]
    everywhere = frozenset.intersection(*(frozenset(found) for found in by_attribute))
    rests = frozenset.intersection(*(frozenset(conjunction.rest) for conjunction in each))
    covers: list[Constraint] = []
    for name in sorted(everywhere):
        some = [found[name] for found in by_attribute]
        covers += some[0] if all(other == some[0] for other in some) else _cover(some, fields[name])
    return Conjunction(tuple(covers), tuple(sorted(rests)))


def sql_of(
    cover: Conjunction, fields: Mapping[str, Field], *, exactly: Collection[Constraint] = ()
) -> str | None:
    """A conjunction in Spark SQL, or one that it implies; None where that says nothing.

    Raises
    ------
    ValueError
        A constraint that is wanted `exactly` cannot be written in SQL.
    """
    parts = []
    for constraint in cover.constraints:
        written, is_exact = _constraint_sql(constraint, fields[constraint.attribute])
        if constraint in exactly and not is_exact:
            raise ValueError(f"{constraint} has no form in SQL")
        parts += written
    parts += [f"({rest})" for rest in cover.rest]
    return " AND ".join(parts) or None


def _by_attribute(conjunction: Conjunction) -> dict[str, list[Constraint]]:
    found: dict[str, list[Constraint]] = {}
    for constraint in conjunction.constraints:
        found.setdefault(constraint.attribute, []).append(constraint)
    return found


def _cover(each: Sequence[Sequence[Constraint]], field: Field) -> list[Constraint]:
    name = each[0][0].attribute
    sets = [next((c.values for c in some if isinstance(c, OneOf)), None) for some in each]
    values = dict.fromkeys(value for found in sets if found is not None for value in found)
    if None not in sets and len(values) <= MOST_VALUES:
        return [OneOf(name, tuple(values))]
    bounds = [_bounds(some) for some in each]
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    coding = Coding.of(arrow_type(field.type), [v for v in (*lows, *highs) if v is not None])
    low = None if None in lows else min(lows, key=coding.code)
    high = None if None in highs else max(highs, key=coding.code)
    return [] if low is None and high is None else [Between(name, low, high)]


def _bounds(constraints: Sequence[Constraint]) -> tuple[Constant | None, Constant | None]:
    """Some interval around what all of them allow: the one of any of them is one."""
    low = high = None
    for constraint in constraints:
        if isinstance(constraint, Between):
            low = constraint.low if low is None else low
            high = constraint.high if high is None else high
        elif isinstance(constraint, OneOf) and len(constraint.values) == 1:
            return constraint.values[0], constraint.values[0]
    return low, high


def _constraint_sql(constraint: Constraint, field: Field) -> tuple[list[str], bool]:
    """A constraint in SQL, and whether it is all of it: what cannot be written is left out."""
    match constraint:
        case IsNull():
            return [f"({field.sql} IS NULL)"], True
        case Between(_, low, high, low_open, high_open):
            signs = (">" if low_open else ">=", low), ("<" if high_open else "<=", high)
            bounds = [(sign, _constant(bound, field.type)) for sign, bound in signs if bound is not None]
            written = [f"({field.sql} {sign} {bound})" for sign, bound in bounds if bound is not None]
            if not bounds:
                return [f"({field.sql} IS NOT NULL)"], True
            return written, len(written) == len(bounds)
        case _:
            values = [_constant(value, field.type) for value in constraint.values]
            known = [text for text in values if text is not None]
            if len(known) < len(values) or not known:
                return [], False
            among = f"{field.sql} IN ({', '.join(known)})"
            return [f"({among})" if isinstance(constraint, OneOf) else f"(NOT ({among}))"], True


def _constant(value: Constant, kind: str) -> str | None:
    """A constant in Spark SQL; None for bytes that are no text: then there is no bound."""
    if isinstance(value, bytes) and kind == "string":
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, datetime):
        value = (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days
    return spark_constant(value, kind)
