"""How many rows pass a predicate, guessed from its form; measured rates replace the guess later."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from anabranch.plan.predicate import Between, Constraint, IsNull, NoneOf, OneOf, Predicate

EQUAL = 0.1
RANGE = 0.25
HALF_OPEN = 1 / 3
NULLS = 0.01
REST = 0.5
"""Shares that System R made common: of a value, an interval, one with one bound, NULL, and anything else."""


def selectivity(predicate: Predicate, types: Mapping[str, pa.DataType]) -> float:
    """Share of the rows that a predicate is true for, as a guess."""
    missed = 1.0
    for conjunction in predicate.any_of:
        share = REST ** len(conjunction.rest)
        for constraint in conjunction.constraints:
            share *= _share(constraint)
        missed *= 1 - share
    return 1 - missed


def _share(constraint: Constraint) -> float:
    match constraint:
        case OneOf(_, values):
            return min(EQUAL * len(values), 1.0)
        case NoneOf(_, values):
            return max(1 - EQUAL * len(values), EQUAL)
        case IsNull():
            return NULLS
        case Between(_, low, high):
            return (
                1.0 if low is None and high is None else HALF_OPEN if low is None or high is None else RANGE
            )
