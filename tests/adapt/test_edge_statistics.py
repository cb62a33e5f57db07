"""Rates and selectivities from what batches report."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.plans.edge_statistics import EdgeReport, EdgeStatistics
from anabranch.plan.cost.edge_count import EdgeCount
from anabranch.plan.cost.estimates import JoinStatistics
from anabranch.plan.graph import JoinGraph

GRAPH = JoinGraph(("a", "b", "c"), (frozenset("ab"), frozenset("bc")), ())
WINDOWS = dict.fromkeys("abc", 10.0)
AB, BC = frozenset("ab"), frozenset("bc")


def report(*, elapsed_s: float = 2.0, rows: int = 100, state: int = 500, **pairs: float | None) -> EdgeReport:
    """`ab=50` says that 100 probes into 500 rows met 50 of them."""
    return EdgeReport(
        elapsed_s,
        dict.fromkeys("abc", rows),
        dict.fromkeys("abc", state),
        {frozenset(k): EdgeCount(rows * state, n, n) for k, n in pairs.items() if n is not None},
    )


def known(statistics: EdgeStatistics, site: int = 0, **changes) -> JoinStatistics:
    found = statistics.join_statistics(site, "q", **{"graph": GRAPH, "windows_s": WINDOWS} | changes)
    assert found is not None
    return found


def reported(*reports: EdgeReport, site: int = 0, decay: float = 0.8) -> EdgeStatistics:
    statistics = EdgeStatistics(decay=decay)
    for one in reports:
        statistics.add(site, "q", one)
    return statistics


def test_one_batch_tells_rates_states_and_selectivities() -> None:
    found = known(reported(report(ab=5000.0, bc=50.0)))
    assert found.rates == dict.fromkeys("abc", 50.0)
    assert found.state_rows == dict.fromkeys("abc", 500.0)
    assert found.selectivities[AB] == pytest.approx(0.1, rel=1e-3)
    assert found.selectivities[BC] == pytest.approx(0.001, rel=0.02)
    assert found.windows_s == WINDOWS


def test_old_batches_fade() -> None:
    statistics = reported(*[report(ab=5000.0)] * 20)
    seen = []
    for _ in range(15):
        statistics.add(0, "q", report(ab=50.0, rows=100))
        seen.append(known(statistics).selectivities[AB])
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < 0.01 < seen[0]


def test_rates_are_per_second_of_event_time_however_long_the_batches() -> None:
    assert known(reported(report(elapsed_s=1.0, rows=10), report(elapsed_s=9.0, rows=90), decay=1.0)).rates[
        "a"
    ] == pytest.approx(10)


def test_states_are_those_of_the_last_batch() -> None:
    assert known(reported(report(state=500), report(state=20))).state_rows["a"] == 20


def test_no_pair_seen_is_not_no_pair_ever() -> None:
    assert 0 < known(reported(report(ab=0.0))).selectivities[AB] < 1e-4


def test_an_edge_unknown_here_is_taken_from_the_other_sites() -> None:
    statistics = reported(report(ab=5000.0))
    statistics.add(1, "q", report(ab=500.0, bc=500.0))
    statistics.add(2, "q", report(bc=1500.0))
    found = known(statistics, site=0)
    assert found.selectivities[AB] == pytest.approx(0.1, rel=1e-3)
    assert found.selectivities[BC] == pytest.approx(0.02, rel=1e-3)


def of_sites(*pairs: float) -> list[float]:
    """The selectivity of `ab` that each site works with, after it has found so many pairs of 50,000."""
    statistics = EdgeStatistics()
    for site, found in enumerate(pairs):
        statistics.add(site, "q", report(ab=found))
    return [known(statistics, site).selectivities[AB] for site in range(len(pairs))]


def test_a_few_pairs_more_or_less_are_chance_and_all_sites_see_the_same() -> None:
    together = sum(found := (20.0, 30.0, 25.0, 17.0, 33.0)) / (len(found) * 50_000)
    assert of_sites(*found) == pytest.approx([together] * len(found), rel=0.01)


def test_a_site_whose_streams_meet_otherwise_goes_by_its_own_pairs() -> None:
    own = of_sites(30.0, 25.0, 35.0, 200.0)[3]
    assert own == pytest.approx(200 / 50_000, rel=0.01)
    rare = of_sites(300.0, 250.0, 350.0, 10.0)[3]
    assert rare == pytest.approx(10 / 50_000, rel=0.06)


def test_doubt_shrinks_with_the_pairs_that_were_found() -> None:
    few, many = (known(reported(report(ab=found))) for found in (24.0, 2500.0))
    assert few.doubts[AB] / few.selectivities[AB] == pytest.approx(1 / 5, rel=0.05)
    assert many.doubts[AB] / many.selectivities[AB] == pytest.approx(1 / 50, rel=0.05)
    assert BC not in few.doubts, "nothing was measured there"


def test_an_edge_unknown_everywhere_gives_each_row_one_partner() -> None:
    assert known(reported(report(state=500))).selectivities[BC] == pytest.approx(1 / 500)


def test_an_unknown_predicate_lets_a_third_pass() -> None:
    graph = JoinGraph(("a", "b", "c"), (AB,), (BC,))
    assert known(reported(report()), graph=graph).selectivities[BC] == pytest.approx(1 / 3)


def test_an_edge_that_is_no_longer_probed_keeps_its_selectivity() -> None:
    statistics = reported(report(ab=5000.0))
    before = known(statistics).selectivities[AB]
    for _ in range(50):
        statistics.add(0, "q", report(bc=5.0))
    assert known(statistics).selectivities[AB] == before


def test_unbounded_windows_have_the_rows_they_have() -> None:
    found = known(reported(report(state=12345)), windows_s=dict.fromkeys("abc", math.inf))
    assert found.rows_of("a") == 12345


@pytest.mark.parametrize(("site", "query"), [(1, "q"), (0, "other")], ids=["site", "query"])
def test_nothing_reported_is_nothing_known(site: int, query: str) -> None:
    found = reported(report()).join_statistics(site, query, graph=GRAPH, windows_s=WINDOWS)
    assert found is None


def test_a_batch_in_which_no_event_time_passed_has_no_rate() -> None:
    statistics = reported(report(elapsed_s=0.0))
    assert statistics.join_statistics(0, "q", graph=GRAPH, windows_s=WINDOWS) is None
    statistics.add(0, "q", report(elapsed_s=2.0, rows=100))
    assert known(statistics).rates["a"] == pytest.approx(180 / 2)


counts = st.integers(0, 10**6)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.floats(0.1, 10), counts, counts, st.none() | counts, st.none() | counts
        ),
        min_size=1,
        max_size=8,
    )
)
def test_statistics_survive_json(batches) -> None:
    statistics = EdgeStatistics()
    for site, elapsed, rows, state, ab, bc in batches:
        statistics.add(site, "q", report(elapsed_s=elapsed, rows=rows, state=state, ab=ab, bc=bc))
    text = json.dumps(statistics.to_json())
    again = EdgeStatistics.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    site = batches[0][0]
    for one, other in zip(
        (known(statistics, site).rates, known(statistics, site).selectivities),
        (known(again, site).rates, known(again, site).selectivities),
        strict=True,
    ):
        assert other == pytest.approx(one, rel=1e-4)


def test_what_goes_into_the_manifest_is_small() -> None:
    statistics = EdgeStatistics()
    for site in range(128):
        for number in range(10):
            statistics.add(site, "q", report(rows=100 + site, ab=3.0 * number, bc=7.0))
    assert len(json.dumps(statistics.to_json())) < 128 * 128
