"""The decision between two steps is pure: the same input gives the same output, and nothing else changes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from anabranch.adapt.boundary.boundary_state import KEPT_EVENTS, BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Choice
from anabranch.adapt.boundary.enact import enact, start_with
from anabranch.adapt.boundary.observed import BoundarySettings, Observed
from anabranch.adapt.events import Event, EventKind
from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.memory.admission import OPEN
from anabranch.adapt.tracks.tracks import Migration, Tracks
from anabranch.exchange.partition_map import PartitionMap
from anabranch.plan.cost.migration_cost import Strategy
from tests.support.observed_steps import NO_JOINS, observed_step

SITES = 4
ALL = BoundarySettings(sites=SITES, memory_budget=30_000)
"""With a budget that a site with three of four rows exceeds."""
AB_C, BC_A = "((a b) c)", "((b c) a)"


def crowded_step(batch: int, here: PartitionMap, settings: BoundarySettings) -> Observed:
    """Partitions of the first site get many rows; every row takes as long as any other."""
    rows = np.where(PartitionMap.even(SITES).as_array() == 0, 900, 100)
    site_of = here.as_array()
    sites = tuple(
        SiteReport(
            site,
            busy_s=float(rows[site_of == site].sum()) * 1e-5,
            partitions=tuple((int(p), int(rows[p]), 0) for p in np.flatnonzero(site_of == site)),
        )
        for site in range(here.sites)
    )
    return observed_step(batch, here, settings=settings, sites=sites, state_bytes=rows, overhead_s=0.1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(BoundarySettings(sites=SITES), EventKind.MOVE_ACCEPTED, id="partitions move"),
        pytest.param(replace(ALL, rebalance="off"), EventKind.MEMORY_PLANNED, id="partitions are spilled"),
        pytest.param(
            BoundarySettings(sites=SITES, rebalance="off"), EventKind.ROWS_PUT_OFF, id="rows are put off"
        ),
    ],
)
def test_deciding_twice_gives_the_same_and_changes_nothing(
    settings: BoundarySettings, expected: EventKind
) -> None:
    decider, state, here = AdaptiveDecider(), BoundaryState(), PartitionMap.even(SITES)
    kinds = set()
    for batch in range(8):
        observed, before = crowded_step(batch, here, settings), json.dumps(state.to_json())
        decided, decisions = decider.decide(state, observed)
        again, same = decider.decide(state, observed)
        assert decisions == same
        assert json.dumps(decided.to_json()) == json.dumps(again.to_json())
        assert json.dumps(state.to_json()) == before
        state, here = decided, decisions.partition_map
        kinds |= {event.kind for event in decisions.events}
    assert expected in kinds


def test_the_manifest_has_all_of_the_state() -> None:
    decider, state, here = AdaptiveDecider(), BoundaryState(), PartitionMap.even(SITES)
    for batch in range(6):
        state, decisions = decider.decide(state, crowded_step(batch, here, ALL))
        here = decisions.partition_map
    written = json.loads(json.dumps(state.to_json()))
    assert json.loads(json.dumps(BoundaryState.from_json(written, NO_JOINS).to_json())) == written


def test_a_start_with_another_budget_spills_before_the_first_step() -> None:
    observed = crowded_step(-1, PartitionMap.even(SITES), ALL)
    _, without = AdaptiveDecider().start(
        BoundaryState(), replace(observed, settings=replace(ALL, memory_budget=0))
    )
    _, decisions = AdaptiveDecider().start(BoundaryState(), observed)
    assert without.admission.is_open
    assert decisions.admission.spilled


def test_a_start_spreads_partitions_over_the_sites_there_are_now() -> None:
    tracks = Tracks({}).for_queries({"q": AB_C}, SITES)
    observed = replace(crowded_step(3, PartitionMap.even(SITES), BoundarySettings(sites=7)), tracks=tracks)
    started = start_with(OPEN, observed)
    assert started.partition_map == PartitionMap.even(SITES).rescaled(7)
    assert started.tracks.plans == {"q": (AB_C,) * 7}


def test_a_request_waits_while_partitions_of_its_site_move() -> None:
    here = PartitionMap.even(SITES)
    asked = tuple(Migration("q", site, BC_A, Strategy.MOVING_STATE) for site in (0, 3))
    tracks = Tracks({}).for_queries({"q": AB_C}, SITES)
    observed = replace(crowded_step(3, here, ALL), tracks=tracks, requests=asked)
    decisions = enact(Choice(here.moved({0: 1})), observed)
    assert decisions.postponed == asked[:1]
    assert decisions.tracks.plans["q"] == (AB_C, AB_C, AB_C, BC_A)
    assert EventKind.PLAN_POSTPONED in {event.kind for event in decisions.events}


def test_only_the_newest_events_are_kept() -> None:
    events = [Event(n, EventKind.TUNED, f"number {n}") for n in range(KEPT_EVENTS + 3)]
    kept = BoundaryState().with_events(events[:5]).with_events(events[5:]).events
    assert [event["batch"] for event in kept] == list(range(3, KEPT_EVENTS + 3))
