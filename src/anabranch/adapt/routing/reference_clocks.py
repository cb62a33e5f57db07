"""How far the streams of a join have come, by reference, and how many of their rows came."""

from __future__ import annotations

from dataclasses import replace

from anabranch.adapt.boundary.observed import Observed, StreamClock
from anabranch.plan.inputs import RoutedQuery


def clocks_of(routed: RoutedQuery, observed: Observed) -> dict[str, StreamClock]:
    """By reference; rows are those that its filter let through."""
    found = {}
    for ref in routed.query.refs:
        clock = observed.clocks.get(ref.stream, StreamClock())
        rows = observed.arrived.get(routed.input_of(ref.alias), (0, 0))[0]
        found[ref.alias] = replace(clock, rows=rows)
    return found
