"""The join tree of a query without a key that all its streams share, set up as a distributed plan.

Its edges are equalities between two references. A spanning tree of them is enough: any other equality is
tested where its two sides meet. An edge becomes a *station*. It is partitioned over all sites by its own key,
and rows of either side are kept there (Zhou, COSMOS, section 5.3: the processing site of a join).

Which rows come to a station, and where they may go on, follows from the bits of the distributed plan
(`plan.stations.output_modules`): every reference is a place, and so is every station.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from anabranch.plan.graph import JoinGraph
from anabranch.plan.stations.distributed_graph import AnnotatedGraph, DistributedGraph
from anabranch.plan.stations.output_modules import DistributedPlan

EdgeEnds = tuple[str, str, int]
"""Two references, and the key class on which they meet."""
EdgeCost = Callable[[str, str, int], tuple[float, ...]]
"""What meeting on a key class costs two references: the less, the sooner the edge is taken."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An equality between two references, on one key class."""

    number: int
    key_class: int
    left: str
    right: str

    @property
    def key(self) -> str:
        """Logical column by which rows are addressed to its station."""
        return f"k{self.key_class}"

    def __str__(self) -> str:
        return f"{self.left}–{self.right}"


def candidate_edges(graph: JoinGraph) -> list[EdgeEnds]:
    """All equalities between two references."""
    return [
        (left, right, key_class)
        for left, right in combinations(graph.aliases, 2)
        for key_class in graph.shared_classes((left,), (right,))
    ]


@dataclass(frozen=True)
class JoinTree:
    """A spanning tree of a query's equalities."""

    aliases: tuple[str, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def of(
        cls, graph: JoinGraph, cost: EdgeCost | None = None, *, only: tuple[int, ...] = ()
    ) -> JoinTree | None:
        """The cheapest spanning tree, or None where equalities do not connect all references.

        Parameters
        ----------
        only
            Key classes of its edges; any, if there are none.
        """
        found = [edge for edge in candidate_edges(graph) if not only or edge[2] in only]
        if cost is not None:
            found.sort(key=lambda edge: cost(*edge))
        return cls.along(graph, found)

    @classmethod
    def along(cls, graph: JoinGraph, edges: Iterable[EdgeEnds]) -> JoinTree | None:
        """The spanning tree of the first edges that make no cycle; None where they connect not all."""
        part = {alias: alias for alias in graph.aliases}

        def root(alias: str) -> str:
            while part[alias] != alias:
                alias = part[alias]
            return alias

        taken = []
        for left, right, key_class in edges:
            if root(left) != root(right):
                taken.append((left, right, key_class))
                part[root(left)] = root(right)
        place = {alias: i for i, alias in enumerate(graph.aliases)}
        taken.sort(key=lambda edge: (place[edge[0]], place[edge[1]]))
        numbered = tuple(Edge(i, key_class, left, right) for i, (left, right, key_class) in enumerate(taken))
        return cls(graph.aliases, numbered) if len(numbered) == len(graph.aliases) - 1 else None

    @property
    def hops(self) -> int:
        """How often rows may travel, the first time included: between stations of one key they need not."""
        groups = {edge.number: {edge.number} for edge in self.edges}
        for one, other in combinations(self.edges, 2):
            if one.key_class == other.key_class and {one.left, one.right} & {other.left, other.right}:
                merged = groups[one.number] | groups[other.number]
                groups |= dict.fromkeys(merged, merged)
        return len({frozenset(group) for group in groups.values()})

    def edges_of(self, alias: str) -> tuple[Edge, ...]:
        """Edges at a reference."""
        return tuple(e for e in self.edges if alias in (e.left, e.right))

    @cached_property
    def plan(self) -> DistributedPlan:
        """Places and the ways between them."""
        homes = {alias: alias for alias in self.aliases}
        joins = {(e.left, e.right): str(e) for e in self.edges}
        return DistributedPlan.of(DistributedGraph.of(AnnotatedGraph(homes, joins)))

    def footprint(self, aliases: Iterable[str]) -> int:
        """Global footprint of a row of some references: their places, and the stations between them."""
        inside = frozenset(aliases)
        passed = [str(e) for e in self.edges if e.left in inside and e.right in inside]
        return self.plan.footprint((*inside, *passed))

    def ways(self, aliases: tuple[str, ...], at: Edge | None = None) -> tuple[Edge, ...]:
        """Edges to which a row may go on from the station that made it, or from its stream."""
        place = aliases[0] if at is None else str(at)
        targets = set(self.plan.ways(place, self.footprint(aliases)))
        return tuple(e for e in self.edges if str(e) in targets)

    def onward(self, aliases: tuple[str, ...]) -> tuple[Edge, ...]:
        """Edges to which a row may go on, wherever it was made: the same everywhere."""
        inside = frozenset(aliases)
        made_at = (e for e in self.edges if e.left in inside and e.right in inside)
        return self.ways(aliases, next(made_at, None))

    def rows_at(self, edge: Edge, end: str) -> tuple[tuple[str, ...], ...]:
        """Sets of references whose rows may arrive at an edge on one side."""
        return self._arrivals[edge.number, end]

    def arrivals(self) -> Iterator[tuple[Edge, tuple[str, ...]]]:
        """Every edge with every set of references whose rows may arrive there."""
        for edge in self.edges:
            for aliases in (*self.rows_at(edge, edge.left), *self.rows_at(edge, edge.right)):
                yield edge, aliases

    @cached_property
    def _arrivals(self) -> dict[tuple[int, str], tuple[tuple[str, ...], ...]]:
        """What comes to each side of each station, found by sending rows about until nothing new is made."""
        arrived: dict[tuple[int, str], dict[tuple[str, ...], None]] = {
            (e.number, end): {} for e in self.edges for end in (e.left, e.right)
        }
        waiting: list[tuple[tuple[str, ...], Edge | None]] = [((alias,), None) for alias in self.aliases]
        made = set(waiting)
        while waiting:
            rows, at = waiting.pop(0)
            for edge in self.ways(rows, at):
                end, other = (edge.left, edge.right) if edge.left in rows else (edge.right, edge.left)
                arrived[edge.number, end][rows] = None
                for met in arrived[edge.number, other]:
                    joined = self._in_order(rows + met), edge
                    if joined not in made:
                        made.add(joined)
                        waiting.append(joined)
        return {side: tuple(sorted(sets, key=len)) for side, sets in arrived.items()}

    def _in_order(self, aliases: Iterable[str]) -> tuple[str, ...]:
        place = {alias: i for i, alias in enumerate(self.aliases)}
        return tuple(sorted(aliases, key=place.__getitem__))
