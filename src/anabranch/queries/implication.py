"""Whether one predicate implies another: sound, and complete enough for what people write.

A yes is a proof. A no means that no proof was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from anabranch.operators.filter.coding import LEAST, MOST
from anabranch.operators.filter.entry_arrays import flatten
from anabranch.operators.filter.kernel import IN_RANGE, IN_SET, NO_VALUE
from anabranch.plan.predicate import Conjunction, Predicate


def implies(left: Predicate, right: Predicate, types: Mapping[str, pa.DataType]) -> bool:
    """Whether every row that `left` is true for is one that `right` is true for.

    >>> from anabranch.plan.predicate import Between
    >>> narrow, wide = (Predicate((Conjunction((Between("x", 0, most),)),)) for most in (5, 9))
    >>> implies(narrow, wide, {"x": pa.int64()}), implies(wide, narrow, {"x": pa.int64()})
    (True, False)
    """
    both = [*left.any_of, *right.any_of]
    used = {name: kind for name, kind in types.items() if name in left.attributes | right.attributes}
    domains = _domains(both, used)
    ours, theirs = domains[: len(left.any_of)], domains[len(left.any_of) :]
    return all(
        any(
            _within(mine, other) and set(other_text.rest) <= set(my_text.rest)
            for other, other_text in zip(theirs, right.any_of, strict=True)
        )
        for mine, my_text in zip(ours, left.any_of, strict=True)
        if mine is not None
    )


@dataclass(slots=True)
class _Domain:
    """Values that a conjunction leaves to one attribute, as codes."""

    is_null: bool = False
    low: int = LEAST
    high: int = MOST
    among: frozenset[int] | None = None
    without: frozenset[int] = field(default_factory=frozenset)

    def values(self) -> frozenset[int] | None:
        """All of them, if they are few."""
        among = self.among
        if among is None and self.low == self.high:
            among = frozenset((self.low,))
        if among is None:
            return None
        return frozenset(v for v in among if self.low <= v <= self.high and v not in self.without)


def _domains(
    conjunctions: list[Conjunction], types: Mapping[str, pa.DataType]
) -> list[dict[int, _Domain] | None]:
    """By conjunction what it leaves to each attribute that it is about; None where no row is left."""
    flat = flatten(conjunctions, types)
    found: list[dict[int, _Domain] | None] = [
        None if i in flat.dead else {} for i in range(len(conjunctions))
    ]
    checks = zip(
        flat.entry.tolist(),
        flat.attribute.tolist(),
        flat.kind.tolist(),
        flat.low.tolist(),
        flat.high.tolist(),
        strict=True,
    )
    for entry, attribute, kind, low, high in checks:
        domains = found[entry]
        assert domains is not None
        domain = domains.setdefault(attribute, _Domain())
        if kind == IN_RANGE:
            domain.low, domain.high = low, high
        elif kind == NO_VALUE:
            domain.is_null = True
        else:
            values = frozenset(flat.sets[low:high].tolist())
            if kind == IN_SET:
                domain.among = values if domain.among is None else domain.among & values
            else:
                domain.without |= values
    return found


def _within(ours: dict[int, _Domain], theirs: dict[int, _Domain] | None) -> bool:
    return theirs is not None and all(
        attribute in ours and _inside(ours[attribute], asked) for attribute, asked in theirs.items()
    )


def _inside(ours: _Domain, asked: _Domain) -> bool:
    if ours.is_null or asked.is_null:
        return ours.is_null and asked.is_null
    few = ours.values()
    if few is not None:
        return all(_has(asked, value) for value in few)
    if asked.among is not None or ours.low < asked.low or ours.high > asked.high:
        return False
    return all(value in ours.without or not ours.low <= value <= ours.high for value in asked.without)


def _has(domain: _Domain, value: int) -> bool:
    among = domain.among is None or value in domain.among
    return among and domain.low <= value <= domain.high and value not in domain.without
