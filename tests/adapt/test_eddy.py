"""Eddies: what stations report becomes ranks, tickets and a lottery, the same whenever it is computed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from anabranch.adapt.eddy.account import Account
from anabranch.adapt.eddy.choice import StationChoice
from anabranch.adapt.eddy.eddy_state import EddyState
from anabranch.adapt.eddy.lottery import (
    LOOK_EVERY,
    LOOK_SELDOM,
    REGRET,
    DecidedBy,
    Station,
    draw,
    path_costs,
)
from anabranch.adapt.eddy.pressure import Pressure
from anabranch.adapt.events import EventKind
from anabranch.adapt.measures.site_report import SiteReport, StationReport
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap

CHOICE = StationChoice("q", ("s",), ("s@rs", "s@st"), ("r–s", "s–t"))
MAP = PartitionMap.even(2)


def even_report(arrived: int, found: float, *, stored: int = 0, met: float = 0) -> StationReport:
    counts = (np.full(PARTITIONS, round(value / PARTITIONS)) for value in (arrived, found, stored, met))
    return StationReport(*counts)


def seen(rs: StationReport, st: StationReport) -> list[SiteReport]:
    return [SiteReport(0, busy_s=0.1, rows=1000, stations={"s@rs": rs, "s@st": st})]


def after(state: EddyState, batch: int, rs: float, st: float, *, rows: tuple[int, int]) -> EddyState:
    reports = seen(even_report(rows[0], rs * rows[0]), even_report(rows[1], st * rows[1]))
    return state.after([CHOICE], reports, MAP).decided(batch, [CHOICE], MAP).state


def best(state: EddyState) -> str | None:
    (told,) = state.decided(0, [CHOICE], MAP).told
    favourite: str | None = told["favourite"]
    return favourite


def test_nothing_known_shares_rows_evenly() -> None:
    decided = EddyState().decided(0, [CHOICE], MAP)
    assert decided.router.ways_of(CHOICE.states).drawn == (512, 512)
    assert decided.told[0]["decidedBy"] == "nothing is known"


def test_rows_go_to_the_more_selective_station() -> None:
    state = after(EddyState(), 0, 0.2, 1.0, rows=(50_000, 50_000))
    assert best(state) == "r–s"
    ways = state.decided(1, [CHOICE], MAP).router.ways_of(CHOICE.states)
    assert min(ways.ranks[0]) > max(ways.ranks[1])


def test_two_batches_after_a_flip_rows_go_the_other_way() -> None:
    state = EddyState()
    for batch in range(6):
        state = after(state, batch, 0.1, 5.0, rows=(99_000, 1_000))
    for batch in range(6, 8):
        state = after(state, batch, 5.0, 0.1, rows=(99_000, 1_000))
    assert best(state) == "s–t"


def test_a_change_of_order_is_an_event_with_tickets_and_what_decided() -> None:
    state = after(EddyState(), 0, 0.1, 0.9, rows=(50_000, 50_000))
    reports = seen(even_report(50_000, 250_000), even_report(50_000, 5_000))
    (event,) = state.after([CHOICE], reports, MAP).decided(1, [CHOICE], MAP).events
    assert event.kind is EventKind.ORDER_CHANGED
    assert "rows of s go to station s–t first, no longer to r–s" in event.message
    assert event.data["decidedBy"] == "lottery"
    assert event.data["tickets"][0] < event.data["tickets"][1]


def test_partitions_with_opposite_orders_are_told_apart() -> None:
    hot = np.arange(PARTITIONS) < PARTITIONS // 2
    arrived = np.full(PARTITIONS, 200)
    rs, st = (
        StationReport(arrived, np.where(which, 2000, 20), arrived * 0, arrived * 0) for which in (hot, ~hot)
    )
    decided = EddyState().after([CHOICE], seen(rs, st), MAP).decided(1, [CHOICE], MAP)
    ranks = decided.router.ways_of(CHOICE.states).ranks
    assert max(ranks[0][: PARTITIONS // 2]) < min(ranks[0][PARTITIONS // 2 :])
    assert min(ranks[1][: PARTITIONS // 2]) > max(ranks[1][PARTITIONS // 2 :])


def test_partitions_of_a_slow_site_are_visited_later() -> None:
    reports = seen(even_report(50_000, 10_000), even_report(50_000, 10_000))
    reports[0].busy_s, reports[0].rows = 1.0, 1_000
    others = [SiteReport(site, busy_s=0.1, rows=1_000) for site in (1, 2)]
    at = PartitionMap.even(3)
    decided = EddyState().after([CHOICE], [*reports, *others], at).decided(1, [CHOICE], at)
    ranks = np.array(decided.router.ways_of(CHOICE.states).ranks[0])
    slow = at.as_array() == 0
    assert ranks[slow].max() < ranks[~slow].min()


def test_rows_of_yesterdays_choice_do_not_count_against_todays() -> None:
    """Many stored rows are met, few new rows arrive: the station is as selective as it was."""
    account = Account.new(1)
    for _ in range(4):
        account = account.after(
            StationReport.of_totals(arrived=10_000, found=2_000, stored=20_000, met=2_000)
        )
    before = account.selectivity(lifetime=2.0)[0]
    account = account.after(StationReport.of_totals(arrived=100, found=20, stored=20_000, met=2_000))
    assert account.selectivity(lifetime=2.0)[0] == pytest.approx(before, rel=0.05)


def test_the_lottery_costs_no_more_than_its_regret() -> None:
    for selectivities in ((0.1, 5.0), (0.5, 0.6), (2.0, 1.0), (0.2, 0.4, 3.0)):
        stations = [Station.of(s) for s in selectivities]
        outcome = draw(stations)
        costs = path_costs(stations)[0]
        extra = sum(part * (cost / costs.min() - 1) for part, cost in zip(outcome.drawn, costs, strict=True))
        assert extra <= REGRET * 1.01 or max(outcome.drawn) <= 4 / 512
        assert all(part > 0 for part in outcome.drawn), (
            "a station without rows would never be seen to improve"
        )


def test_tickets_decide_where_a_station_has_some_and_the_price_where_none_has() -> None:
    assert draw([Station.of(0.2), Station.of(1.0)]).by is DecidedBy.LOTTERY
    assert draw([Station.of(2.0), Station.of(1.0)]).by is DecidedBy.BACK_PRESSURE
    assert draw([Station.of(0.2), None]).by is DecidedBy.NOTHING


def test_the_order_of_ranks_is_the_order_of_costs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        first, second = (Station.of(*rng.uniform(0, 3, 1), pressure=rng.uniform(1, 8)) for _ in range(2))
        costs = path_costs([first, second])[0]
        assert (first.rank[0] >= second.rank[0]) == (costs[0] <= costs[1] + 1e-12)


def test_looks_come_in_turn_while_things_are_as_expected() -> None:
    outcome = draw([Station.of(0.1), Station.of(5.0)])
    held = [batch for batch in range(2 * LOOK_EVERY) if any(outcome.in_turn(batch, rows=100.0).drawn)]
    assert held == [0, LOOK_EVERY]


def test_the_state_is_the_same_after_a_manifest() -> None:
    state = after(EddyState(), 0, 0.31, 1.7, rows=(12_340, 7_770))
    again = EddyState.from_json(json.loads(json.dumps(state.to_json())))
    assert again.to_json() == state.to_json()
    mine, theirs = (s.decided(3, [CHOICE], MAP).router.ways_of(CHOICE.states) for s in (state, again))
    assert mine == theirs, "a replay sends the same rows the same way"


def test_a_step_without_new_rows_changes_nothing() -> None:
    state = after(EddyState(), 0, 0.31, 1.7, rows=(12_340, 7_770))
    idle = state.after([CHOICE], seen(even_report(0, 0, stored=5_000), even_report(0, 0, stored=5_000)), MAP)
    assert idle.accounts["s@rs"].to_json() == state.accounts["s@rs"].to_json()


def test_pressure_within_the_noise_is_none() -> None:
    reports = [SiteReport(s, busy_s=0.01 * (1 + 0.3 * (s == 1)), rows=1000) for s in range(3)]
    assert Pressure().after(reports, 3).by_site().tolist() == [1.0, 1.0, 1.0]


def test_a_fixed_order_sends_all_rows_one_way_and_looks_about_seldom() -> None:
    state = EddyState()
    for batch in range(3):
        state = after(state, batch, 0.1, 5.0, rows=(50_000, 50_000))
    for batch in (LOOK_EVERY, LOOK_SELDOM):
        decided = state.decided(batch, [CHOICE], MAP, fixed=frozenset({"q"}))
        ways = decided.router.ways_of(CHOICE.states)
        assert decided.told[0]["decidedBy"] == "fixed order"
        assert [len(ranks) for ranks in ways.ranks] == [1, 1]
        assert ways.ranks[0] > ways.ranks[1]
        assert (sum(ways.drawn) > 0) == (batch == LOOK_SELDOM)


def test_a_choice_that_queries_share_is_fixed_when_all_of_them_are() -> None:
    state = after(EddyState(), 0, 0.1, 5.0, rows=(50_000, 50_000))
    shared = replace(CHOICE, others=("p",))
    for fixed, by in (({"q"}, "lottery"), ({"q", "p"}, "fixed order")):
        assert state.decided(1, [shared], MAP, fixed=frozenset(fixed)).told[0]["decidedBy"] == by
    assert state.order_costs([shared], MAP).keys() == {"q", "p"}
