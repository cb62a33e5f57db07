"""Every site is told of and charged, and queries without state are charged apart."""

from __future__ import annotations

import pytest

from anabranch.engine.settings import Settings
from tests.engine.directed_runs import STREAMS, joined
from tests.engine.nasty_runs import bind, rows, running

BATCH = {"a": rows(*((k, k) for k in range(400))), "b": rows(*((k, 5) for k in range(400)))}


@pytest.mark.parametrize("slots", [1, 3])
def test_every_site_reports_its_own_rows_once(slots: int) -> None:
    with running(STREAMS, [joined("a", "b")], Settings(sites=5, slots=slots)) as run:
        summary = run.batch(BATCH)
    sites = [site for report in summary.reports for site in report.sites]
    assert sorted(site.site for site in sites) == list(range(5))
    assert sum(site.rows for site in sites) == 800
    assert sum(site.results for site in sites) == run.results("q").num_rows > 0
    site_of = summary.manifest.partition_map
    for site in sites:
        assert {site_of[p] for p, _, _ in site.partitions} <= {site.site}


def test_a_query_without_state_is_charged_apart_from_the_others() -> None:
    (plain,) = bind(STREAMS, plain="SELECT id FROM a WHERE v >= 0")
    with running(STREAMS, [plain], Settings(sites=2, slots=1)) as run:
        summary = run.batch(BATCH)
    sites = [site for report in summary.reports for site in report.sites]
    assert sum(site.passing_results for site in sites) == 400
    assert all(0 < site.passing_s <= site.busy_s for site in sites)


def test_a_query_over_its_quota_ends_alone() -> None:
    queries = [joined("a", "b"), *bind(STREAMS, plain="SELECT id FROM a WHERE v >= 0")]
    same = {"a": rows(*((1, 1) for _ in range(90))), "b": rows(*((1, 1) for _ in range(90)))}
    with running(STREAMS, queries, Settings(sites=2, slots=1, quota_pairs=500)) as run:
        summary = run.batch(same)
        assert list(run.loop.failures) == ["q"]
        assert not any(file.query == "q" for file in summary.manifest.results)
        assert run.results("plain").num_rows == 90
