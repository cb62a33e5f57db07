"""Every plan of a query, for whoever wants to try them all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from anabranch.plan.graph import JoinGraph
from anabranch.plan.search.candidates import References, splits_of
from anabranch.plan.tree import Join, Leaf, Plan


def every_plan(graph: JoinGraph) -> Iterator[Plan]:
    """All candidates: (2n - 3)!! for n references on one key, so for small n only."""
    splits = splits_of(graph)

    def trees(references: References) -> Iterator[Plan]:
        if len(references) == 1:
            yield from map(Leaf, references)
        for left, right in splits.get(references, ()):
            for sides in product(trees(left), trees(right)):
                yield Join(*sides)

    yield from trees(frozenset(graph.aliases))
