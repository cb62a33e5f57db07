"""What routing remembers from boundary to boundary; the manifest has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from anabranch.adapt.boundary.observed import StreamClock
from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.routing.coordinated_state import CoordinatedState
from anabranch.adapt.routing.overhead import StreamRate, best_master
from anabranch.adapt.routing.segment_search import SegmentSearch
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.aligned_router import AlignedTable, Member
from anabranch.exchange.coordinated_router import Routes
from anabranch.exchange.partition_set import PartitionSet
from anabranch.plan.inputs import RoutedQuery

SHORTEST_US = 1_000
"""Of segments in a join whose windows say nothing about time."""
SEGMENTS_IN_REACH = 64
"""Segments that a window has in the beginning, when nothing is known about batches."""


@dataclass(frozen=True, slots=True)
class Resting:
    """Partitions with rows that another router has brought there, which rows to come may still meet.

    Attributes
    ----------
    until
        Once all watermarks are behind this time they cannot.
    """

    partitions: tuple[int, ...]
    until: int

    @classmethod
    def of(
        cls, partitions: Iterable[int], members: Iterable[Member], clocks: Mapping[str, StreamClock]
    ) -> Resting:
        ends = (n + m.window_us for m in members if (n := clocks[m.alias].newest) is not None)
        return cls(tuple(sorted(partitions)), max(ends, default=0))

    def is_over(self, clocks: Mapping[str, StreamClock]) -> bool:
        return all(c.watermark is not None and c.watermark > self.until for c in clocks.values())


@dataclass(frozen=True, slots=True)
class AlignedState:
    """One join with aligned routing.

    Attributes
    ----------
    rates
        By reference: rows per second of event time.
    wanted_master
        A master that would copy less, and for how many boundaries it would have.
    resting
        Partitions that get no segments yet.
    """

    table: AlignedTable
    search: SegmentSearch
    rates: Mapping[str, float] = field(default_factory=dict)
    wanted_master: tuple[str, int] = ("", 0)
    resting: tuple[Resting, ...] = ()

    def rested(self, clocks: Mapping[str, StreamClock]) -> AlignedState:
        """This state without rests that are over."""
        return replace(self, resting=tuple(rest for rest in self.resting if not rest.is_over(clocks)))

    @property
    def at_rest(self) -> PartitionSet:
        return PartitionSet.of(p for rest in self.resting for p in rest.partitions)

    @classmethod
    def new(cls, routed: RoutedQuery) -> AlignedState:
        """All rows in one partition, until more is known."""
        windows = {ref.alias: StreamRate(1.0, ref.window_us / 1e6) for ref in routed.query.refs}
        length = max(SHORTEST_US, max(r.window_us for r in routed.query.refs) // SEGMENTS_IN_REACH)
        home = salt_of(routed.query.name) % PARTITIONS
        return cls(AlignedTable.single(best_master(windows), length, (home,)), SegmentSearch(length))

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table.to_json(),
            "search": self.search.to_json(),
            "rates": dict(self.rates),
            "wanted_master": list(self.wanted_master),
            "resting": [[list(rest.partitions), rest.until] for rest in self.resting],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AlignedState:
        alias, times = data["wanted_master"]
        table, search = AlignedTable.from_json(data["table"]), SegmentSearch.from_json(data["search"])
        resting = tuple(Resting(tuple(its), until) for its, until in data.get("resting", ()))
        return cls(table, search, data["rates"], (alias, times), resting)


@dataclass(frozen=True, slots=True)
class RoutingState:
    """The joins that no key spreads, by name. One that changes its router has both for a while.

    Attributes
    ----------
    fresh
        Those of which no row has been routed yet; not remembered.
    convinced
        For how many boundaries another router would have been better; not remembered.
    """

    aligned: Mapping[str, AlignedState] = field(default_factory=dict)
    coordinated: Mapping[str, CoordinatedState] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    convinced: Mapping[str, int] = field(default_factory=dict)

    def tables(self) -> dict[str, AlignedTable]:
        return {name: state.table for name, state in self.aligned.items()}

    def routes(self, batch: int) -> dict[str, Routes]:
        """Paths of the units of a batch."""
        return {name: state.routes(batch) for name, state in self.coordinated.items()}

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: state.to_json() for name, state in self.aligned.items()}
        for name, state in self.coordinated.items():
            found.setdefault(name, {})["coordinated"] = state.to_json()
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any], joins: Joins) -> RoutingState:
        """Go on where a manifest left off, with the queries there are now."""
        spread = {name: routed for name, routed in joins.queries.items() if routed.is_aligned}
        known = {n: AlignedState.from_json(data[n]) for n in spread if "table" in data.get(n, ())}
        on_paths = {
            name: CoordinatedState.from_json(data[name]["coordinated"], routed)
            for name, routed in spread.items()
            if "coordinated" in data.get(name, ())
        }
        new = {name: AlignedState.new(routed) for name, routed in spread.items() if name not in data}
        return cls({**known, **new}, on_paths, frozenset(new))


def salt_of(query: str) -> int:
    """So that queries do not all choose the same partitions."""
    return xxhash.xxh3_64_intdigest(query.encode())
