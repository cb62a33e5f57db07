"""Load is what comes again: what a move, a rebuild or a query without state took does not count."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.adapt.boundary.load import load_of
from anabranch.adapt.boundary.observed import BoundarySettings
from anabranch.adapt.measures.site_report import SiteReport
from anabranch.exchange.partition_map import PartitionMap
from tests.support.observed_steps import observed_step

HERE = PartitionMap.even(2)


def test_costs_that_do_not_come_again_are_left_out() -> None:
    sites = (
        SiteReport(0, busy_s=1.0, copy_s=0.2, rebuild_s=0.3, passing_s=0.1, partitions=((3, 50, 7),)),
        SiteReport(1, busy_s=0.1, copy_s=0.2, partitions=((200, 5, 1),)),
    )
    observed = observed_step(4, HERE, settings=BoundarySettings(sites=2), sites=sites)
    load = load_of(observed, frozenset())
    assert load.busy_s.tolist() == pytest.approx([0.4, 0.0])
    assert (load.rows[3], load.rows[200], load.rows.sum()) == (50, 5, 55)


def test_spilled_partitions_and_budgets_are_told_to_the_policies() -> None:
    observed = observed_step(4, HERE, settings=BoundarySettings(sites=2, memory_budget=500), sites=())
    load = load_of(observed, frozenset({7}))
    assert np.flatnonzero(load.on_disk).tolist() == [7]
    assert load.memory_bytes.tolist() == [500, 500]
