"""A skew buffer that puts rows off in sessions of a few rows, by the real decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from anabranch.adapt import site_budgets
from anabranch.adapt.statistics import Statistics, sum_by_site
from anabranch.exchange.partition_map import PartitionMap
from anabranch.runtime.adaptation import Adaptation


@contextmanager
def eager_buffer() -> Iterator[None]:
    """While it lasts, every row costs the same, and a site with more rows than the average waits.

    Seconds that are counted instead of measured make a session repeatable.
    """
    measured = Adaptation._statistics

    def counted(self: Adaptation, partition_map: PartitionMap, *what: Any) -> Statistics:
        found = measured(self, partition_map, *what)
        site_of = partition_map.as_array().astype(np.int64)
        return replace(found, busy_s=sum_by_site(found.rows, site_of, found.sites) / 1e6)

    with (
        mock.patch.object(site_budgets, "LEAST_S", 0.0),
        mock.patch.object(site_budgets, "SLACK", 1.0),
        mock.patch.object(Adaptation, "_statistics", counted),
    ):
        yield
