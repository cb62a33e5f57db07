"""Reports of several hops become one for each slot; the critical path waits for each hop's busiest site."""

from __future__ import annotations

import pytest

from anabranch.adapt.measures.site_report import StationReport
from anabranch.engine.reports import SiteReport, SlotReport
from anabranch.engine.step.hop_reports import critical_path_s, merged_hops


def site(number: int, busy_s: float, **more: object) -> SiteReport:
    return SiteReport(number, busy_s, **more)  # type: ignore[arg-type]


def test_the_critical_path_is_the_sum_of_the_busiest_sites_of_each_hop() -> None:
    reports = [
        SlotReport(0, 0, sites=[site(0, 2.0), site(2, 1.0)]),
        SlotReport(1, 0, sites=[site(1, 3.0)]),
        SlotReport(0, 1, sites=[site(0, 0.5), site(2, 4.0)]),
        SlotReport(1, 1, sites=[site(1, 0.1)]),
    ]
    assert critical_path_s(reports) == pytest.approx(3.0 + 4.0)


def test_what_a_site_did_in_all_hops_is_added_up() -> None:
    reports = [
        SlotReport(0, 1, sites=[site(4, 0.5, rows=2, pairs=3, partitions=((7, 2, 3), (9, 0, 1)))]),
        SlotReport(0, 0, sites=[site(4, 1.0, rows=5, pairs=1, partitions=((7, 5, 1),))]),
    ]
    (merged,) = merged_hops(reports)
    (found,) = merged.sites
    assert (found.busy_s, found.rows, found.pairs) == (1.5, 7, 4)
    assert found.partitions == ((7, 7, 4), (9, 0, 1))


def test_adding_up_leaves_the_hops_as_they_were() -> None:
    """Or the critical path would count later hops twice."""
    seen = {"s": StationReport.of_totals(arrived=5, found=2)}
    reports = [
        SlotReport(0, 0, sites=[site(0, 2.0, stations=dict(seen), at_stations_s={"q": 1.0})]),
        SlotReport(0, 1, sites=[site(0, 0.5, stations=dict(seen), at_stations_s={"q": 0.25})]),
    ]
    for _ in range(2):
        (merged,) = merged_hops(reports)
        (found,) = merged.sites
        assert int(found.stations["s"].arrived.sum()) == 10
        assert found.at_stations_s == {"q": 1.25}
        assert critical_path_s(reports) == pytest.approx(2.5)


def test_slots_stay_apart_and_phases_are_added_up() -> None:
    reports = [
        SlotReport(1, 0, seconds={"join": 1.0}),
        SlotReport(0, 0, seconds={"join": 2.0}),
        SlotReport(0, 1, seconds={"join": 0.5, "open": 0.25}, failures={"q": "too much"}),
    ]
    first, second = merged_hops(reports)
    assert (first.slot, dict(first.seconds), first.failures) == (
        0,
        {"join": 2.5, "open": 0.25},
        {"q": "too much"},
    )
    assert (second.slot, dict(second.seconds)) == (1, {"join": 1.0})
