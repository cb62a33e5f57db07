"""When a join without a common key is to run at stations, and when as a tree on one site."""

from __future__ import annotations

import json

import pytest

from anabranch.adapt.eddy.layout_choice import BOUNDARIES, EitherWay, LayoutVotes
from anabranch.adapt.measures.site_report import JoinReport, SiteReport

SITES = 8


def reports(busy_s: float, *, at_stations: bool) -> list[SiteReport]:
    """What sites tell that were busy for so long, all together, with a query `q`."""
    if not at_stations:
        return [SiteReport(0, joins={"q": JoinReport(busy_s=busy_s)})]
    return [SiteReport(site, at_stations_s={"q": busy_s / SITES}) for site in range(SITES)]


def wanted_after(
    steps: int, busy_s: float, *, at_stations: bool, overhead_s: float, hops: int = 2
) -> dict[str, bool]:
    votes, wanted = LayoutVotes(), dict[str, bool]()
    join = EitherWay("q", at_stations=at_stations, hops=hops)
    for _ in range(steps):
        votes, wanted = votes.after(
            [join], reports(busy_s, at_stations=at_stations), sites=SITES, slots=2, overhead_s=overhead_s
        )
        votes = LayoutVotes.from_json(json.loads(json.dumps(votes.to_json())))
    return wanted


@pytest.mark.parametrize(
    ("at_stations", "busy_s", "overhead_s", "wanted"),
    [
        pytest.param(True, 0.01, 0.4, {"q": False}, id="a tiny join leaves stations: hops cost more"),
        pytest.param(True, 2.0, 0.4, {}, id="a large one stays there"),
        pytest.param(False, 2.0, 0.4, {"q": True}, id="a join that has grown goes to stations"),
        pytest.param(False, 0.01, 0.4, {}, id="a tiny one stays on one site"),
        pytest.param(True, 0.01, 0.001, {}, id="where hops cost nothing it stays, however small it is"),
        pytest.param(True, 0.1, 0.4, {}, id="what is a little cheaper is no reason"),
        pytest.param(False, 0.1, 0.4, {}, id="in neither direction"),
    ],
)
def test_the_cheaper_way_is_taken_where_it_is_clearly_cheaper(
    at_stations: bool, busy_s: float, overhead_s: float, wanted: dict[str, bool]
) -> None:
    found = wanted_after(BOUNDARIES, busy_s, at_stations=at_stations, overhead_s=overhead_s)
    assert found == wanted


def test_it_has_to_be_so_for_a_while() -> None:
    assert not wanted_after(BOUNDARIES - 1, 0.01, at_stations=True, overhead_s=0.4)


def test_one_step_that_says_otherwise_starts_the_count_again_and_one_without_rows_does_not() -> None:
    join, votes = EitherWay("q", at_stations=True, hops=2), LayoutVotes({"q": BOUNDARIES - 1})
    votes, wanted = votes.after([join], [], sites=SITES, slots=2, overhead_s=0.4)
    assert (votes.votes["q"], wanted) == (BOUNDARIES - 1, {})
    votes, wanted = votes.after([join], reports(9.0, at_stations=True), sites=SITES, slots=2, overhead_s=0.4)
    assert (votes.votes["q"], wanted) == (0, {})


def test_with_one_slot_nothing_travels_and_nothing_is_to_be_gained() -> None:
    join, votes = EitherWay("q", at_stations=True, hops=2), LayoutVotes({"q": BOUNDARIES})
    given = reports(0.01, at_stations=True)
    assert votes.after([join], given, sites=SITES, slots=1, overhead_s=0.4) == (LayoutVotes(), {})


def test_a_machine_that_is_busy_with_other_things_makes_hops_no_dearer() -> None:
    join = EitherWay("q", at_stations=True, hops=2)
    votes, _ = LayoutVotes().after(
        [join], reports(0.05, at_stations=True), sites=SITES, slots=2, overhead_s=0.01
    )
    for _ in range(BOUNDARIES):
        votes, wanted = votes.after(
            [join], reports(0.05, at_stations=True), sites=SITES, slots=2, overhead_s=3.0
        )
        assert not wanted
