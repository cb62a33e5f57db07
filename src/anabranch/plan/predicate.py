"""Predicates on the attributes of a row, in the form that can be indexed.

A predicate is a disjunction of conjunctions. A conjunction has constraints, each on one attribute, and a
rest: SQL that no index helps with. It holds for a row when everything in it is true, as in SQL: a
constraint on NULL is not true, unless it asks for NULL.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T", bound=Hashable)
Constant = Any
"""A Python value that Arrow can make a value of the attribute's type of; text may be bytes."""


@dataclass(frozen=True, slots=True)
class Between:
    """A value in an interval; None is no bound. Without bounds it says IS NOT NULL."""

    attribute: str
    low: Constant | None = None
    high: Constant | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value that is one of some: `=` and IN. Of no values it is never true."""

    attribute: str
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """A value that is known, and none of some: `<>` and NOT IN."""

    attribute: str
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """No value."""

    attribute: str


Constraint = Between | OneOf | NoneOf | IsNull


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Constraints that must all hold, and the SQL of what must hold besides."""

    constraints: tuple[Constraint, ...] = ()
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Predicate:
    """Conjunctions of which one must hold; none of them is FALSE."""

    any_of: tuple[Conjunction, ...]

    @property
    def attributes(self) -> frozenset[str]:
        """Attributes that some constraint is about."""
        return frozenset(c.attribute for both in self.any_of for c in both.constraints)


TRUE = Predicate((Conjunction(),))
FALSE = Predicate(())


def starts_with(attribute: str, prefix: str) -> Constraint:
    """`attribute LIKE 'prefix%'`: in binary order, an interval.

    >>> starts_with("name", "ab")
    Between(attribute='name', low=b'ab', high=b'ac', low_open=False, high_open=True)
    """
    low = prefix.encode()
    stem = low.rstrip(b"\xff")
    if not stem:
        return Between(attribute, low or None)
    return Between(attribute, low, stem[:-1] + bytes([stem[-1] + 1]), high_open=True)


def conjoined(left: Predicate, right: Predicate, *, most: int) -> Predicate | None:
    """Both predicates, multiplied out; None where that gives more than `most` conjunctions."""
    if len(left.any_of) * len(right.any_of) > most:
        return None
    return Predicate(
        tuple(
            Conjunction(_unique(a.constraints + b.constraints), _unique(a.rest + b.rest))
            for a in left.any_of
            for b in right.any_of
        )
    )


def disjoined(left: Predicate, right: Predicate) -> Predicate:
    """Either predicate."""
    return Predicate(_unique(left.any_of + right.any_of))


def _unique(items: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))
