"""A skew buffer that puts rows off in sessions of a few rows, by the real decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.measures.site_report import SiteReport
from anabranch.adapt.memory import site_budgets


class CountingDecider(AdaptiveDecider):
    """Decides as if every row cost the same: seconds that are counted make a session repeatable."""

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        counted = tuple(_counted(site) for site in observed.sites)
        return super().decide(state, replace(observed, sites=counted))


def _counted(site: SiteReport) -> SiteReport:
    rows = sum(arrived for _, arrived, _ in site.partitions)
    return replace(site, busy_s=rows / 1e6, copy_s=0.0, rebuild_s=0.0, passing_s=0.0)


@contextmanager
def eager_buffer() -> Iterator[CountingDecider]:
    """While it lasts, a site with more rows than the average waits, if this decider decides."""
    with mock.patch.object(site_budgets, "LEAST_S", 0.0), mock.patch.object(site_budgets, "SLACK", 1.0):
        yield CountingDecider()
