"""What the first site makes of shared rows is counted apart, once."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from anabranch.adapt.measures.site_report import SiteReport
from anabranch.engine.reports import SlotReport, charge_shared
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.rows.shared_work import SHARED_WORK, SharedWork
from anabranch.plan.inputs import HASH, TIME

ROWS = 200_000


def rows(*, is_shared: bool) -> RowSet:
    draw = np.random.default_rng(1)
    columns = {HASH: draw.integers(0, 1 << 60, ROWS), TIME: draw.integers(0, 1 << 40, ROWS)}
    return RowSet(pa.record_batch(columns), is_shared=is_shared)


def test_only_what_is_made_of_shared_rows_counts_and_only_once() -> None:
    counted = []
    for is_shared in (False, True):
        made, before = rows(is_shared=is_shared), SHARED_WORK.seconds
        for _ in range(2):
            ordered = made.derived("ordered", lambda of=made: RowSet.sorted(of.batch, TIME))
            ordered.derived("again", lambda of=ordered: RowSet.sorted(of.batch, TIME))
            counted.append(SHARED_WORK.seconds - before)
    assert counted[:2] == [0.0, 0.0]
    assert counted[2] > 0
    assert counted[3] == counted[2]


def test_work_inside_work_counts_once() -> None:
    work, began_s = SharedWork(), time.thread_time()
    assert work.done(lambda: work.done(lambda: sum(range(100_000)))) == sum(range(100_000))
    assert 0 < work.seconds <= time.thread_time() - began_s


def test_sites_pay_by_the_rows_that_they_keep() -> None:
    site_of = np.array([0, 1, 1, 2])
    report = SlotReport(0, sites=[SiteReport(1, busy_s=1.0), SiteReport(2, busy_s=1.0)])
    charge_shared(report, 0.4, np.array([500.0, 20.0, 10.0, 10.0]), site_of)
    assert [round(site.busy_s, 6) for site in report.sites] == [1.3, 1.1]
    charge_shared(report, 0.4, np.zeros(4), site_of)
    assert [round(site.busy_s, 6) for site in report.sites] == [1.3, 1.1]
