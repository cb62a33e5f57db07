"""What a group of sites did is shared out: counts exactly, times by rows and pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.reports import SiteReport
from anabranch.engine.task.sites.site_groups import SiteGroup
from anabranch.engine.task.sites.site_shares import SiteShares, whole_shares
from anabranch.exchange.address import PARTITIONS

HALVES = np.repeat([0, 1], PARTITIONS // 2)


def arrived(**rows: int) -> np.ndarray:
    counts = np.zeros(PARTITIONS, dtype=np.int64)
    for partition, count in rows.items():
        counts[int(partition[1:])] = count
    return counts


def test_a_site_gets_its_own_rows_and_its_share_of_the_time() -> None:
    shares = SiteShares(HALVES, 2, {0: arrived(p3=30, p200=10)}, {})
    report = SiteReport(0, busy_s=4.0, rows=40, pairs=40, results=8, partitions=((3, 30, 30), (200, 10, 10)))
    first, second = shares.of(SiteGroup((0, 1), ()), report)
    assert (first.rows, second.rows) == (30, 10)
    assert (first.busy_s, second.busy_s) == pytest.approx((3.0, 1.0))
    assert (first.pairs, second.pairs, first.results, second.results) == (30, 10, 6, 2)
    assert (first.partitions, second.partitions) == (((3, 30, 30),), ((200, 10, 10),))


def test_sites_that_did_nothing_share_evenly() -> None:
    shares = SiteShares(HALVES, 2, {}, {})
    first, second = shares.of(SiteGroup((0, 1), ()), SiteReport(0, busy_s=1.0))
    assert first.busy_s == second.busy_s == 0.5


@given(st.integers(0, 10**6), st.lists(st.integers(1, 1_000), min_size=1, max_size=20))
def test_whole_shares_add_up_and_are_off_by_one_at_most(total: int, weights: list[int]) -> None:
    share = np.array(weights) / sum(weights)
    found = whole_shares(total, share)
    assert sum(found) == total
    assert all(abs(part - total * wanted) <= 1 for part, wanted in zip(found, share, strict=True))
