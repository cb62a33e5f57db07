"""The joins of a session: what does not change from batch to batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.adapt.tracks.common import Common
from anabranch.plan.cost.estimates import window_seconds
from anabranch.plan.inputs import Layout, RoutedQuery
from anabranch.plan.logical import Stream


@dataclass(frozen=True, slots=True)
class Joins:
    """Queries that join, by name."""

    layout: Layout
    queries: Mapping[str, RoutedQuery]
    windows_s: Mapping[str, Mapping[str, float]]
    """By query and reference."""
    lateness_s: Mapping[str, float]
    """By query: the largest of its streams."""
    unending: frozenset[str]
    """Those with a window that no row ever leaves."""

    def common(self, ended: frozenset[str]) -> Common:
        """What they have in common, once some have ended.

        A parallel track of an unending join would not end. And a state that several queries read has one
        life: tracks with states of their own would take it apart again.
        """
        return Common(self.layout.shared, self.by_moving, ended)

    @property
    def by_moving(self) -> frozenset[str]:
        """Those whose plans and sites change by moving state alone."""
        return self.unending | self.layout.shared.queries

    @classmethod
    def of(cls, layout: Layout, streams: Sequence[Stream]) -> Joins:
        queries = {r.query.name: r for r in layout.queries if len(r.query.refs) > 1}
        windows = {name: window_seconds(routed.query) for name, routed in queries.items()}
        lateness = {s.name: s.lateness_us / 1e6 for s in streams}
        return cls(
            layout,
            queries,
            windows,
            {name: max(lateness[ref.stream] for ref in r.query.refs) for name, r in queries.items()},
            frozenset(name for name, spans in windows.items() if math.inf in spans.values()),
        )
