"""What coordinated routing remembers of a join from boundary to boundary; the manifest has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, isqrt
from typing import Any

from anabranch.exchange.batch_paths import BatchPaths
from anabranch.exchange.coordinated_router import ALWAYS, Gate, Routes
from anabranch.exchange.coordinated_table import MOST_SEGMENTS, CoordinatedTable, Stream
from anabranch.plan.graph import JoinGraph
from anabranch.plan.inputs import RoutedQuery

MOST_ORDERS = 6
"""Join orders of a reference that are tried for each of its units."""
SPREAD = 1
"""Units of a reference and batch that each place gets, about; more are more even, and more small joins."""
FIRST_SLICE_US = 1_000
"""Length of slices of time, before it is known how long a batch is."""


def warm_up_places(lanes: int) -> int:
    """Places that a unit gets at least.

    Two references that have each of their units at the square root of all places meet everywhere once. With
    fewer the covers stay at a few places, and the others are left idle.

    >>> [warm_up_places(n) for n in (1, 2, 6, 30, 100)]
    [1, 2, 3, 6, 10]
    """
    return max(1, isqrt(max(0, lanes - 1)) + 1) if lanes > 1 else 1


def segments_of(lanes: int) -> int:
    """Segments of a reference in a batch."""
    if lanes <= 1:
        return 1
    return min(MOST_SEGMENTS, max(2, ceil(SPREAD * lanes / warm_up_places(lanes))))


@dataclass(frozen=True, slots=True)
class CoordinatedState:
    """One join with coordinated routing.

    Attributes
    ----------
    lanes
        Places for new rows: a partition of each site.
    loads
        Load value by place.
    watermarks, rates
        By reference.
    counted
        By references that a join is about: pairs of rows that could have met of late, and those that did.
    gate
        Which results it finds.
    """

    table: CoordinatedTable
    lanes: tuple[int, ...]
    length: int = FIRST_SLICE_US
    loads: Mapping[int, float] = field(default_factory=dict)
    unit_load: float = 1.0
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    counted: Mapping[frozenset[str], tuple[float, float]] = field(default_factory=dict)
    gate: Gate = ALWAYS
    _planned: dict[int, Routes] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def new(cls, routed: RoutedQuery, lanes: Sequence[int], gate: Gate = ALWAYS) -> CoordinatedState:
        return cls(
            CoordinatedTable(streams_of(routed, {}), {}, {}, linked_in(routed.graph)), tuple(lanes), gate=gate
        )

    def routes(self, batch: int) -> Routes:
        """The paths of the units of the next batch; worked out once."""
        if batch not in self._planned:
            paths = BatchPaths(
                self.table,
                batch,
                lanes=self.lanes,
                loads=self.loads,
                watermarks=self.watermarks,
                warm_up=warm_up_places(len(self.lanes)),
                unit_load=self.unit_load,
            )
            segments = dict.fromkeys((s.alias for s in self.table.streams), segments_of(len(self.lanes)))
            self._planned[batch] = Routes(batch, self.length, paths.of_all(segments), self.gate)
        return self._planned[batch]

    def used(self) -> frozenset[int]:
        """All places that have rows of the join, or get them."""
        return self.table.used() | frozenset(self.lanes)

    def to_json(self) -> dict[str, Any]:
        gates = [list(g) if g is not None else None for g in (self.gate.opened, self.gate.closed)]
        return {
            "units": self.table.to_json(),
            "lanes": list(self.lanes),
            "length": self.length,
            "loads": [[place, load] for place, load in self.loads.items()],
            "unit_load": self.unit_load,
            "watermarks": dict(self.watermarks),
            "rates": dict(self.rates),
            "counted": [[sorted(about), *counts] for about, counts in self.counted.items()],
            "gate": gates,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], routed: RoutedQuery) -> CoordinatedState:
        counted = {frozenset(about): (examined, found) for about, examined, found in data["counted"]}
        known = CoordinatedTable.from_json(data["units"], ())
        opened, closed = (None if g is None else (g[0], g[1]) for g in data["gate"])
        return cls(
            informed(known, routed, data["rates"], counted),
            tuple(data["lanes"]),
            data["length"],
            dict(data["loads"]),
            data["unit_load"],
            data["watermarks"],
            data["rates"],
            counted,
            Gate(opened, closed),
        )


def informed(
    table: CoordinatedTable,
    routed: RoutedQuery,
    rates: Mapping[str, float],
    counted: Mapping[frozenset[str], tuple[float, float]],
) -> CoordinatedTable:
    """A table that knows what has been measured."""
    matching = {about: found / examined for about, (examined, found) in counted.items() if examined}
    streams = streams_of(routed, rates)
    bare = CoordinatedTable(streams, table.units, matching, linked_in(routed.graph))
    # The orders with the fewest rows on their way come first, and only some are tried.
    most = max(2, MOST_ORDERS // max(1, len(streams) - 2))
    ranked = (replace(s, orders=_fewest_rows_first(bare, s)[:most]) for s in streams)
    return replace(bare, streams=tuple(ranked))


def _fewest_rows_first(table: CoordinatedTable, stream: Stream) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(stream.orders, key=lambda order: sum(table.results_of(stream.alias, order)[:-1])))


def streams_of(routed: RoutedQuery, rates: Mapping[str, float]) -> tuple[Stream, ...]:
    """The references of a join with the orders in which their rows may look for others."""
    return tuple(
        Stream(r.alias, r.window_us, rates.get(r.alias, 1.0), tuple(orders_from(routed.graph, r.alias)))
        for r in routed.query.refs
    )


def linked_in(graph: JoinGraph) -> dict[str, frozenset[str]]:
    """By reference, those that a key or a predicate joins with it."""
    edges = (*graph.class_aliases, *graph.residual_aliases)
    return {a: frozenset().union(*(e for e in edges if a in e)) - {a} for a in graph.aliases}


def orders_from(graph: JoinGraph, first: str) -> Iterator[tuple[str, ...]]:
    """Orders of all other references, none of them a cross product as long as there is something else.

    >>> graph = JoinGraph(("a", "b", "c"), (frozenset("ab"),), (frozenset("bc"),))
    >>> list(orders_from(graph, "a")), list(orders_from(graph, "b"))
    ([('b', 'c')], [('a', 'c'), ('c', 'a')])
    """

    def longer(inside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        left = [alias for alias in graph.aliases if alias not in inside]
        if not left:
            yield inside[1:]
        near = [alias for alias in left if graph.connected(inside, (alias,))]
        for alias in near or left:
            yield from longer((*inside, alias))

    yield from longer((first,))
