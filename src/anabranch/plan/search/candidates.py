"""Candidates: every join tree of a query, bushy ones too, with as few cross products as its graph allows.

A join has no first side, so mirror images are one plan. It is written with the reference that comes
first in FROM on the left, at every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import Join, Plan

References = frozenset[str]
"""The references a node covers: they identify its state."""
Splits = Mapping[References, tuple[tuple[References, References], ...]]


def canonical(plan: Plan, graph: JoinGraph) -> Plan:
    """The same plan as it is written here.

    >>> from anabranch.plan.tree import parse_plan
    >>> str(canonical(parse_plan("(c (b a))"), JoinGraph(("a", "b", "c"), (frozenset("abc"),), ())))
    '((a b) c)'
    """
    if not isinstance(plan, Join):
        return plan
    first = {alias: i for i, alias in enumerate(graph.aliases)}
    left, right = sorted((plan.left, plan.right), key=lambda side: min(first[a] for a in side.aliases))
    return Join(canonical(left, graph), canonical(right, graph))


@lru_cache(maxsize=256)
def splits_of(graph: JoinGraph) -> Splits:
    """Per set of references, the ways to make it by one join; smaller sets first, single ones left out.

    A cross product is allowed only where no tree over these references has fewer of them. Whoever puts
    splits together from the top gets every plan with the fewest cross products, and no other.
    """
    bits = {alias: 1 << i for i, alias in enumerate(graph.aliases)}
    every = range(1 << len(bits))
    names = [frozenset(alias for alias, bit in bits.items() if mask & bit) for mask in every]
    classes, residuals = (
        [sum(bits[alias] for alias in members) for members in edges]
        for edges in (graph.class_aliases, graph.residual_aliases)
    )

    def is_product(left: int, right: int) -> bool:
        """`not graph.connected`, on bits: it is asked 3,025 times for eight references."""
        return not (
            any(c & left and c & right for c in classes)
            or any(r & left and r & right and not r & ~(left | right) for r in residuals)
        )

    fewest = [0 for _ in every]
    splits: dict[References, tuple[tuple[References, References], ...]] = {}
    for mask in sorted(every, key=lambda m: (m.bit_count(), m)):
        if mask.bit_count() < 2:
            continue
        found = [
            (fewest[left] + fewest[mask ^ left] + is_product(left, mask ^ left), left)
            for left in _left_sides(mask)
        ]
        fewest[mask] = min(found)[0]
        splits[names[mask]] = tuple(
            (names[left], names[mask ^ left]) for products, left in found if products == fewest[mask]
        )
    return splits


def _left_sides(mask: int) -> list[int]:
    """Proper subsets with the lowest bit: left-deep plans first, and of equals those in the order of FROM."""
    lowest = mask & -mask
    rest = side = mask ^ lowest
    found = []
    while side:
        side = (side - 1) & rest
        found.append(side | lowest)
    return sorted(found, key=lambda left: (-left.bit_count(), left))
