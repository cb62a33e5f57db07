"""What a batch did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.placement.homes import Homes
from anabranch.adapt.routing.join_routing import JoinRouting
from anabranch.engine.reports import SlotReport
from anabranch.state import Manifest


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What a batch did, for progress and tests."""

    manifest: Manifest
    reports: tuple[SlotReport, ...]
    seconds: Mapping[str, float]
    replayed: bool = False
    events: tuple[Event, ...] = ()
    """What was decided at the boundary after the batch."""
    critical_path_s: float = 0.0
    """CPU time of the busiest site, hop by hop: what machines for each site would have waited for."""
    eddies: tuple[Mapping[str, Any], ...] = ()
    """Where rows choose among stations: tickets, shares, what decided."""
    spread: tuple[JoinRouting, ...] = ()
    """Joins whose rows were spread: routers, copies, what was predicted."""
    orderings: tuple[Mapping[str, Any], ...] = ()
    """Of joins that can run on one site and at stations: how they run, and what each way would take."""
    undelivered: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """By query whose sink waits: results that wait for it, and why."""
    homes: Homes = field(default_factory=Homes)
    """Queries that run at one site alone from the next step on."""
