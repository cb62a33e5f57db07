"""Who gets a home, who leaves it, and who moves."""

from __future__ import annotations

from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.placement.homes import COLD, FEW, ROUND, Homes, choose_homes

UNITS = tuple((f"q{i}",) for i in range(FEW))


def after(homes: Homes, steps: int, query_s: dict[str, float], busy: list[float]) -> Homes:
    for batch in range(steps):
        sites = [SiteReport(i, busy_s=b) for i, b in enumerate(busy)]
        homes, _ = choose_homes(homes, UNITS, query_s, sites, count=len(busy), slots=2, batch=batch)
    return homes


def small() -> dict[str, float]:
    return dict.fromkeys((q for unit in UNITS for q in unit), 0.001)


def test_small_queries_are_dealt_out_evenly() -> None:
    homes = after(Homes(), COLD + ROUND, small(), [0.5, 0.5])
    at = list(homes.site.values())
    assert at.count(0) == at.count(1) == FEW // 2


def test_few_small_queries_stay_where_they_are() -> None:
    query_s = dict(list(small().items())[1:]) | {"q0": 1.0}
    assert not after(Homes(), COLD + ROUND, query_s, [0.5, 0.5]).site


def test_a_large_query_has_no_home_and_one_that_grows_leaves_it() -> None:
    homes = after(Homes(), COLD + ROUND, small(), [0.5, 0.5])
    grown = after(homes, 3 * ROUND, small() | {"q3": 0.4}, [0.5, 0.5])
    assert "q3" in homes.site
    assert grown.site.keys() == homes.site.keys() - {"q3"}


def test_a_site_with_little_to_do_gets_queries_of_its_busiest_partner() -> None:
    homes = after(Homes(), COLD + ROUND, small(), [0.05, 0.05])
    moved = after(homes, ROUND, small(), [0.1, 0.02])
    assert list(moved.site.values()).count(1) > FEW // 2


def test_nothing_moves_while_sites_have_about_as_much_to_do() -> None:
    homes = after(Homes(), COLD + ROUND, small(), [0.5, 0.5])
    assert after(homes, 5 * ROUND, small(), [0.5, 0.45]).site == homes.site


def test_one_slot_learns_nothing() -> None:
    sites = [SiteReport(0, busy_s=1.0), SiteReport(1, busy_s=1.0)]
    homes, events = choose_homes(Homes(), UNITS, small(), sites, count=2, slots=1, batch=0)
    assert (homes, events) == (Homes(), ())
