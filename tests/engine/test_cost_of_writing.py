"""What writing results costs is the sites' in proportion to their results, whoever's row fills a piece."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.reports import SiteReport, SlotReport, charge_writing
from anabranch.engine.settings import Settings
from anabranch.engine.task.results import staging
from anabranch.engine.task.sites import site_groups
from tests.engine.nasty_runs import bind, rows, stream

A, B = stream("a"), stream("b")
JOIN = "SELECT a.id AS a, b.id AS b FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"
SITES = 4
WRITING_S = 0.1


def test_a_site_pays_for_its_share_of_the_results() -> None:
    report = SlotReport(0, sites=[SiteReport(0, busy_s=1.0, results=30), SiteReport(1, results=10)])
    charge_writing(report, 0.4)
    assert [round(site.busy_s, 9) for site in report.sites] == [1.3, 0.1]


def test_without_results_nobody_pays() -> None:
    report = SlotReport(0, sites=[SiteReport(0, busy_s=1.0)])
    charge_writing(report, 0.0)
    assert report.sites[0].busy_s == 1.0


def test_the_site_whose_row_fills_a_piece_does_not_pay_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table = staging.pq.ParquetWriter.write_table

    def slowly(self: object, *arguments: object, **options: object) -> None:
        until = time.thread_time() + WRITING_S
        while time.thread_time() < until:
            pass
        write_table(self, *arguments, **options)

    settings = Settings(sites=SITES, slots=1, rebalance="off")
    session = LocalRun(tmp_path, (A, B), bind((A, B), q=JOIN), settings=settings)
    session.batch({name: rows(*[(-1 - key, 0) for key in range(500)]) for name in "ab"})  # kernels compile
    monkeypatch.setattr(staging.pq.ParquetWriter, "write_table", slowly)
    monkeypatch.setattr(staging, "PIECE_ROWS", 300)
    monkeypatch.setattr(site_groups, "TOGETHER_ROWS", -1)
    summary = session.batch({name: rows(*[(key, 0) for key in range(500)]) for name in "ab"})
    session.close()
    sites = summary.reports[0].sites
    assert sum(site.results for site in sites) == 500
    assert sum(site.busy_s for site in sites) > 2 * WRITING_S  # a piece that was full, and the rest
    for site in sites:
        assert site.busy_s == pytest.approx(2 * WRITING_S * site.results / 500, abs=WRITING_S / 4)
