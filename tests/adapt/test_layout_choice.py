"""When a join without a common key runs on one site, at stations in one order, and at stations as an eddy."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest

from anabranch.adapt.eddy.layout_choice import BOUNDARIES, EitherWay, LayoutVotes, Way
from anabranch.adapt.eddy.lottery import Station
from anabranch.adapt.eddy.order_costs import OrderCosts
from anabranch.adapt.measures.site_report import JoinReport, SiteReport

SITES = 8
ALIKE = OrderCosts.of([(1000.0, [Station.of(0.1), Station.of(3.0)])])
"""One station is the better one for all rows."""
DIFFERENT = OrderCosts.of(
    [(1000.0, [Station(np.array(s), np.ones(2), np.ones(2)) for s in ([0.1, 9.0], [9.0, 0.1])])]
)
"""Rows of one partition should go to the first, those of the other to the second."""


def reports(busy_s: float, *, at_stations: bool) -> list[SiteReport]:
    """What sites tell that were busy for so long, all together, with a query `q`."""
    if not at_stations:
        return [SiteReport(0, joins={"q": JoinReport(busy_s=busy_s)})]
    return [SiteReport(site, at_stations_s={"q": busy_s / SITES}) for site in range(SITES)]


def after(
    votes: LayoutVotes,
    busy_s: float,
    *,
    at_stations: bool = True,
    overhead_s: float = 0.4,
    slots: int = 2,
    orders: Mapping[str, OrderCosts] | None = None,
) -> tuple[LayoutVotes, dict[str, bool]]:
    join = EitherWay("q", at_stations=at_stations, hops=2)
    told = reports(busy_s, at_stations=at_stations) if busy_s else []
    votes, wanted = votes.after([join], told, orders or {}, sites=SITES, slots=slots, overhead_s=overhead_s)
    written = json.dumps(votes.to_json(), allow_nan=False)
    assert LayoutVotes.from_json(json.loads(written)).to_json() == votes.to_json() | {"weighed": []}
    return votes, wanted


def wanted_after(steps: int, busy_s: float, *, at_stations: bool, overhead_s: float) -> dict[str, bool]:
    votes, wanted = LayoutVotes(), dict[str, bool]()
    for _ in range(steps):
        votes, wanted = after(votes, busy_s, at_stations=at_stations, overhead_s=overhead_s)
    return wanted


@pytest.mark.parametrize(
    ("at_stations", "busy_s", "overhead_s", "wanted"),
    [
        pytest.param(True, 0.01, 0.4, {"q": False}, id="a tiny join leaves stations: hops cost more"),
        pytest.param(True, 2.0, 0.4, {}, id="a large one stays there"),
        pytest.param(False, 2.0, 0.4, {"q": True}, id="a join that has grown goes to stations"),
        pytest.param(False, 0.01, 0.4, {}, id="a tiny one stays on one site"),
        pytest.param(True, 0.01, 0.001, {}, id="where hops cost nothing it stays, however small it is"),
        pytest.param(True, 0.15, 0.4, {}, id="what is a little cheaper is no reason"),
        pytest.param(False, 0.15, 0.4, {}, id="in neither direction"),
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
    votes, wanted = after(LayoutVotes({"q": BOUNDARIES - 1}), 0.0)
    assert (votes.votes["q"], wanted) == (BOUNDARIES - 1, {})
    votes, wanted = after(votes, 9.0)
    assert (votes.votes["q"], wanted) == (0, {})


def test_with_one_slot_nothing_travels_and_nothing_is_to_be_gained() -> None:
    votes, wanted = after(LayoutVotes({"q": BOUNDARIES}), 0.01, slots=1)
    assert (votes.votes, wanted) == ({"q": 0}, {})


def test_a_machine_that_is_busy_with_other_things_makes_hops_no_dearer() -> None:
    votes, _ = after(LayoutVotes(), 0.05, overhead_s=0.01)
    for _ in range(BOUNDARIES):
        votes, wanted = after(votes, 0.05, overhead_s=3.0)
        assert not wanted


def test_an_order_is_fixed_where_an_eddy_has_gained_nothing_for_a_while() -> None:
    votes = LayoutVotes()
    for step in range(BOUNDARIES):
        assert not votes.fixed
        votes, wanted = after(votes, 2.0, orders={"q": ALIKE})
        assert not wanted
        assert votes.weighed["q"].for_steps == (step + 1) % BOUNDARIES
    assert votes.fixed == {"q"}
    votes, _ = after(votes, 2.0, orders={"q": ALIKE})
    assert (votes.weighed["q"].runs, votes.weighed["q"].cheapest) == (Way.FIXED, Way.FIXED)


def test_rows_with_orders_of_their_own_keep_the_eddy() -> None:
    votes = LayoutVotes()
    for _ in range(2 * BOUNDARIES):
        votes, _ = after(votes, 2.0, orders={"q": DIFFERENT})
    assert not votes.fixed
    assert votes.weighed["q"].cheapest is Way.EDDY


@pytest.mark.parametrize(
    ("orders", "steps"),
    [
        pytest.param(OrderCosts(1.0, 0.9, surprised=True), 1, id="at once, where a station surprises"),
        pytest.param(DIFFERENT, BOUNDARIES, id="after a while, where rows would gain"),
    ],
)
def test_a_fixed_order_is_given_up(orders: OrderCosts, steps: int) -> None:
    votes = LayoutVotes(fixed=frozenset({"q"}))
    for _ in range(steps):
        assert votes.fixed
        votes, _ = after(votes, 2.0, orders={"q": orders})
    assert not votes.fixed


def test_what_each_way_takes_is_told() -> None:
    votes, _ = after(LayoutVotes(), 0.8, overhead_s=0.4, orders={"q": OrderCosts(1.0, 2.0)})
    (told,) = votes.to_json()["weighed"]
    assert told["costsMs"] == {"one site": 533.333, "eddy": 200.0, "fixed order": 300.0}
    assert (told["runs"], told["cheapest"], told["forSteps"]) == ("eddy", "eddy", 0)
