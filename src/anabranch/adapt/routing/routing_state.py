"""What routing remembers from boundary to boundary; the manifest has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from anabranch.adapt.plans.joins import Joins
from anabranch.adapt.routing.overhead import StreamRate, best_master
from anabranch.adapt.routing.segment_search import SegmentSearch
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.aligned_router import AlignedTable
from anabranch.plan.inputs import RoutedQuery

SHORTEST_US = 1_000
"""Of segments in a join whose windows say nothing about time."""
SEGMENTS_IN_REACH = 64
"""Segments that a window has in the beginning, when nothing is known about batches."""


@dataclass(frozen=True, slots=True)
class AlignedState:
    """One join with aligned routing.

    Attributes
    ----------
    rates
        By reference: rows per second of event time.
    wanted_master
        A master that would copy less, and for how many boundaries it would have.
    """

    table: AlignedTable
    search: SegmentSearch
    rates: Mapping[str, float] = field(default_factory=dict)
    wanted_master: tuple[str, int] = ("", 0)

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
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AlignedState:
        alias, times = data["wanted_master"]
        table, search = AlignedTable.from_json(data["table"]), SegmentSearch.from_json(data["search"])
        return cls(table, search, data["rates"], (alias, times))


@dataclass(frozen=True, slots=True)
class RoutingState:
    """The joins with aligned routing, by name.

    Attributes
    ----------
    fresh
        Those of which no row has been routed yet; not remembered.
    """

    aligned: Mapping[str, AlignedState] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()

    def tables(self) -> dict[str, AlignedTable]:
        return {name: state.table for name, state in self.aligned.items()}

    def to_json(self) -> dict[str, Any]:
        return {name: state.to_json() for name, state in self.aligned.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], joins: Joins) -> RoutingState:
        """Go on where a manifest left off, with the queries there are now."""
        spread = {name: routed for name, routed in joins.queries.items() if routed.is_aligned}
        known = {name: AlignedState.from_json(data[name]) for name in spread if name in data}
        new = {name: AlignedState.new(routed) for name, routed in spread.items() if name not in data}
        return cls({**known, **new}, frozenset(new))


def salt_of(query: str) -> int:
    """So that queries do not all choose the same partitions."""
    return xxhash.xxh3_64_intdigest(query.encode())
