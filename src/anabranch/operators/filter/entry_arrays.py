"""Conjunctions as flat arrays of checks: what an index is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.filter.coding import LEAST, MOST, Coding
from anabranch.operators.filter.kernel import IN_RANGE, IN_SET, NO_VALUE, NOT_IN_SET
from anabranch.operators.rows.arrays import Int64s
from anabranch.plan.predicate import Between, Conjunction, Constant, Constraint, IsNull, OneOf

Check = tuple[int, int, int, int]
"""Attribute, kind, low and high, as the kernel has them."""


@dataclass(frozen=True, slots=True)
class EntryArrays:
    """The checks of all conjunctions, one after the other.

    Attributes
    ----------
    entry, attribute, kind, low, high
        One value per check, entries ascending. Conjunctions that nothing satisfies have none and are dead.
    sets
        Members of sets, ascending inside each.
    dead
        Entries that no row satisfies.
    """

    codings: tuple[Coding, ...]
    entry: Int64s
    attribute: Int64s
    kind: Int64s
    low: Int64s
    high: Int64s
    sets: Int64s
    dead: frozenset[int]


def flatten(conjunctions: Sequence[Conjunction], types: Mapping[str, pa.DataType]) -> EntryArrays:
    """Code the constants of all conjunctions, and merge constraints on one attribute where that is easy."""
    names = {name: i for i, name in enumerate(types)}
    codings = _codings(conjunctions, types)
    sets: list[int] = []
    dead = set()
    found: list[tuple[int, int, int, int, int]] = []
    for number, conjunction in enumerate(conjunctions):
        ranges: dict[int, tuple[int, int]] = {}
        others: list[Check] = []
        for constraint in conjunction.constraints:
            attribute = names[constraint.attribute]
            check = _check(constraint, attribute, codings[attribute], sets)
            if check[1] == IN_RANGE:
                low, high = ranges.get(attribute, (LEAST, MOST))
                ranges[attribute] = max(low, check[2]), min(high, check[3])
            else:
                others.append(check)
        if _impossible(ranges, others):
            dead.add(number)
            continue
        found += [(number, attribute, IN_RANGE, low, high) for attribute, (low, high) in ranges.items()]
        found += [(number, *check) for check in others]
    columns = np.array(found, dtype=np.int64).reshape(-1, 5).T
    entry, attribute_of, kind, lows, highs = (np.ascontiguousarray(column) for column in columns)
    return EntryArrays(
        codings, entry, attribute_of, kind, lows, highs, np.array(sets, np.int64), frozenset(dead)
    )


def _impossible(ranges: Mapping[int, tuple[int, int]], others: Sequence[Check]) -> bool:
    empty = any(low > high for low, high in ranges.values())
    nulls = {attribute for attribute, kind, _, _ in others if kind == NO_VALUE}
    known = {attribute for attribute, kind, _, _ in others if kind != NO_VALUE} | ranges.keys()
    no_value = any(kind == IN_SET and low == high for _, kind, low, high in others)
    return empty or no_value or bool(nulls & known)


def _codings(conjunctions: Sequence[Conjunction], types: Mapping[str, pa.DataType]) -> tuple[Coding, ...]:
    constants: dict[str, dict[Constant, None]] = {name: {} for name in types}
    for conjunction in conjunctions:
        for constraint in conjunction.constraints:
            constants[constraint.attribute].update(dict.fromkeys(_constants(constraint)))
    return tuple(Coding.of(kind, list(constants[name])) for name, kind in types.items())


def _constants(constraint: Constraint) -> tuple[Constant, ...]:
    match constraint:
        case Between(_, low, high):
            return tuple(bound for bound in (low, high) if bound is not None)
        case IsNull():
            return ()
        case _:
            return constraint.values


def _check(constraint: Constraint, attribute: int, coding: Coding, sets: list[int]) -> Check:
    match constraint:
        case Between(_, low, high, low_open, high_open):
            least = LEAST if low is None else coding.code(low)
            most = MOST if high is None else coding.code(high)
            if (low_open and low is not None and least == MOST) or (
                high_open and high is not None and most == LEAST
            ):
                return attribute, IN_RANGE, MOST, LEAST
            least += low_open and low is not None
            most -= high_open and high is not None
            return attribute, IN_RANGE, least, most
        case IsNull():
            return attribute, NO_VALUE, 0, 0
        case OneOf(_, (value,)):
            return attribute, IN_RANGE, coding.code(value), coding.code(value)
        case _:
            start = len(sets)
            sets += sorted({coding.code(value) for value in constraint.values})
            kind = IN_SET if isinstance(constraint, OneOf) else NOT_IN_SET
            return attribute, kind, start, len(sets)
