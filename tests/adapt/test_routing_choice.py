"""Costs of routers agree with what tables of paths come to, and states of routing outlive a restart."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.routing.coordinated_policy import lanes_for
from anabranch.adapt.routing.coordinated_state import CoordinatedState, orders_from, segments_of
from anabranch.adapt.routing.overhead import sent_per_second
from anabranch.adapt.routing.router_costs import router_costs, usual_cover
from anabranch.adapt.routing.site_loads import loads_beside
from anabranch.exchange.coordinated_router import Gate
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import NOTHING
from anabranch.language.flow import bind_query
from anabranch.plan.inputs import RoutedQuery, layout_of
from anabranch.reproduce.diffusion.diffusion_sim import setup_of
from anabranch.sim.diffusion_run import CoordinatedSites, simulate
from tests.engine.stations import names_of
from tests.engine.theta_joins import STREAMS
from tests.exchange.test_coordinated_table import steady_paths

TEXT = (
    "SELECT a.id AS a FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 1 SECONDS] "
    "WHERE abs(a.x - b.x) <= 1 AND b.k = c.k"
)


def routed_query() -> RoutedQuery:
    return layout_of([bind_query("q", TEXT, names_of(STREAMS))], {}).queries[0]


@pytest.mark.parametrize("sites", [6, 30])
def test_covers_are_as_large_as_the_costs_say(sites: int) -> None:
    sizes, _ = steady_paths(sites, 8, segments_of(sites), 3 if sites == 6 else 6)
    assert sum(sizes) / len(sizes) == pytest.approx(usual_cover(sites), rel=0.1)


def test_rows_that_travel_agree_with_equation_4() -> None:
    setup = replace(setup_of(2, 20, 0.1), seconds=40)
    sites = CoordinatedSites(setup)
    copied = simulate(setup, sites.second).copied
    cover = sum(sites.cover) / len(sites.cover)
    rates = setup.mean_rates().values()
    assert copied == pytest.approx(sum(sent_per_second(r, cover, 0.0, 0.0) for r in rates), rel=0.1)


def test_states_of_routing_come_back_from_the_manifest() -> None:
    routed = routed_query()
    lanes = lanes_for("q", PartitionMap.even(4), (), NOTHING)
    known = CoordinatedState.new(routed, lanes, Gate(closed=("b", 7)))
    back = CoordinatedState.from_json(known.to_json(), routed)
    assert back.lanes == known.lanes
    assert back.gate == known.gate
    assert back.table.units == known.table.units
    assert {alias: len(paths) for alias, paths in back.routes(3).paths.items()} == dict.fromkeys("abc", 2)


def test_no_order_is_a_cross_product_while_there_is_something_else() -> None:
    graph = routed_query().graph
    assert list(orders_from(graph, "a")) == [("b", "c")]
    assert set(orders_from(graph, "b")) == {("a", "c"), ("c", "a")}


def test_more_sites_and_longer_reach_speak_for_paths() -> None:
    routed, rates = routed_query(), dict.fromkeys("abc", 1e6)
    few, many = (router_costs(routed, rates, sites) for sites in (3, 64))
    assert many.aligned / many.coordinated > few.aligned / few.coordinated


def test_loads_beside_a_join_leave_out_what_it_takes_itself() -> None:
    busy = SiteReport(0, busy_s=3.0, diffused_s={"q": 2.0}), SiteReport(1, busy_s=3.0, diffused_s={"q": 3.0})
    beside, own = loads_beside("q", mock.Mock(sites=busy), 2)
    assert beside[0] > beside[1] == 0
    assert own == pytest.approx(0.8 * 5 / 3)
