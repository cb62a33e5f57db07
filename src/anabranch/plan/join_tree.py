"""The distributed join graph of a query without a key that all its streams share.

Its edges are equalities between two references. A spanning tree of them is enough: any other equality is
tested where its two sides meet. An edge becomes a *station*. It is partitioned over all sites by its own key,
and rows of either side are kept there (Zhou, COSMOS, section 5.3: the processing site of a join).

The bit vectors of the paper have one bit per edge here. A row of some references has *passed* the edges
between them: its global footprint. It may go on to the edges that lead out of its references. Any other
edge would be void routing; an edge that it has passed would be redundant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from anabranch.plan.graph import JoinGraph


@dataclass(frozen=True, slots=True)
class Edge:
    """An equality between two references, on one key class."""

    number: int
    key_class: int
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.left}–{self.right}"


@dataclass(frozen=True)
class JoinTree:
    """A spanning tree of a query's equalities."""

    aliases: tuple[str, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def of(cls, graph: JoinGraph) -> JoinTree | None:
        """A spanning tree, or None where equalities do not connect all references."""
        part = {alias: alias for alias in graph.aliases}

        def root(alias: str) -> str:
            while part[alias] != alias:
                alias = part[alias]
            return alias

        edges: list[Edge] = []
        for left, right in combinations(graph.aliases, 2):
            shared = graph.shared_classes((left,), (right,))
            if shared and root(left) != root(right):
                edges.append(Edge(len(edges), shared[0], left, right))
                part[root(left)] = root(right)
        return cls(graph.aliases, tuple(edges)) if len(edges) == len(graph.aliases) - 1 else None

    def edges_of(self, alias: str) -> tuple[Edge, ...]:
        """Edges at a reference."""
        return tuple(e for e in self.edges if alias in (e.left, e.right))

    def passed(self, aliases: Iterable[str]) -> int:
        """Global footprint of a row of some references: a bit for every edge between them."""
        inside = frozenset(aliases)
        return sum(1 << e.number for e in self.edges if e.left in inside and e.right in inside)

    def open_edges(self, aliases: Iterable[str]) -> tuple[Edge, ...]:
        """Edges to which a row of some references may go on."""
        inside = frozenset(aliases)
        return tuple(e for e in self.edges if (e.left in inside) != (e.right in inside))

    def allows(self, edge: Edge, aliases: Iterable[str]) -> bool:
        """Whether a row may be routed to an edge: its footprint matches `allowing` under `validating`."""
        inside = frozenset(aliases)
        return bool(inside & {edge.left, edge.right}) and not self.passed(inside) >> edge.number & 1

    @cached_property
    def _sides(self) -> dict[tuple[int, str], tuple[tuple[str, ...], ...]]:
        return {
            (e.number, end): tuple(self._grown(end, without=e))
            for e in self.edges
            for end in (e.left, e.right)
        }

    def rows_at(self, edge: Edge, end: str) -> tuple[tuple[str, ...], ...]:
        """Sets of references whose rows may arrive at an edge on one side: connected, its end among them."""
        return self._sides[edge.number, end]

    def _grown(self, end: str, *, without: Edge) -> Iterator[tuple[str, ...]]:
        order = {alias: i for i, alias in enumerate(self.aliases)}
        seen, waiting = {frozenset({end})}, [frozenset({end})]
        while waiting:
            found = waiting.pop(0)
            yield tuple(sorted(found, key=order.__getitem__))
            for edge in self.open_edges(found):
                grown = found | {edge.left, edge.right}
                if edge is not without and grown not in seen:
                    seen.add(grown)
                    waiting.append(grown)
