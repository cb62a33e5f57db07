"""Once a step: which joins run at stations, and which of these in one order."""

from __future__ import annotations

import pytest

from anabranch.adapt.boundary.layouts import choose_layouts
from anabranch.adapt.boundary.observed import BoundarySettings
from anabranch.adapt.eddy.choice import StationChoice
from anabranch.adapt.eddy.eddy_state import EddyState
from anabranch.adapt.eddy.layout_choice import BOUNDARIES, EitherWay, LayoutVotes
from anabranch.adapt.measures.site_report import SiteReport, StationReport
from anabranch.exchange.partition_map import PartitionMap
from tests.support.observed_steps import observed_step

HERE = PartitionMap.even(2)
CHOICE = StationChoice("q", ("s",), ("s@rs", "s@st"), ("r–s", "s–t"))
SITE = SiteReport(
    0,
    at_stations_s={"q": 1.0},
    stations={
        "s@rs": StationReport.of_totals(arrived=1000, found=100),
        "s@st": StationReport.of_totals(arrived=1000, found=3000),
    },
)


@pytest.mark.parametrize(
    ("ordering", "step", "fixed"),
    [
        pytest.param("auto", 0, {"q"}, id="an order that is best for all rows is fixed"),
        pytest.param("eddy", 0, set(), id="not where users want an eddy"),
    ],
)
def test_an_order_is_fixed_and_told(ordering: str, step: int, fixed: set[str]) -> None:
    votes, eddies = LayoutVotes(orders={"q": BOUNDARIES - 1}), EddyState()
    eddies = eddies.after([CHOICE], [SITE], HERE)
    observed = observed_step(
        7,
        HERE,
        settings=BoundarySettings(sites=2, ordering=ordering),
        sites=(SITE,),
        choices=(CHOICE,),
        either_way=(EitherWay("q", at_stations=True, hops=2),),
        slots=2,
        step=step,
    )
    after, wanted, events = choose_layouts(votes, eddies, observed)
    assert (after.fixed, wanted) == (fixed, {})
    assert [e.data["way"] for e in events] == ["fixed order"] * len(fixed)


def test_a_further_step_tells_nothing_about_batches() -> None:
    votes = LayoutVotes({"q": BOUNDARIES - 1})
    join = EitherWay("q", at_stations=False, hops=2)
    observed = observed_step(7, HERE, sites=(SITE,), either_way=(join,), slots=2, step=1)
    after, wanted, _ = choose_layouts(votes, EddyState(), observed)
    assert (after.votes, wanted) == ({"q": BOUNDARIES - 1}, {})
