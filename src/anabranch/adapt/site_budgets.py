"""Which sites put rows off, and how many they take meanwhile (Flux, section 4, between micro-batches).

A site that would keep the others waiting takes its share of the next batch and leaves the rest in the
buffer. That pays while the skew is short, because the rows are caught up with when it is another site's
turn to be slow. A skew that lasts only fills the buffer: after a few batches the site takes everything
again, and whether partitions move is the load policy's decision.

    rows that arrive at a site   1  1  3  3  1  1  1        3  3  3  3  3  3  3
    rows that it takes           1  1  3  2  2  1  1        3  2  2  2  6  3  3
                                       └ noticed, put off      └ noticed    └ given up
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from anabranch.adapt.statistics import Floats, Ints, Statistics, sum_by_site

Capacity = int | Literal["auto"]
"""Rows that may wait, over all sites; `auto`: as many as arrived in the last batch."""

SLACK = 1.5
"""A site may take this times as long as the average one."""
LEAST_ROWS = 1000
"""Nobody waits for fewer rows than that: measured seconds of so few say nothing."""
PATIENCE = 3
"""Batches in a row for which a site over its budget puts rows off."""


@dataclass(frozen=True, slots=True)
class RowBudget:
    """What one site does with its rows in the next batch.

    Attributes
    ----------
    rows
        Those that it takes, while the others have room in the buffer.
    waiting
        Room in the buffer: what does not fit is taken, too.
    """

    rows: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Overload:
    """Sites over their budget: for how many batches, less one for every batch that they were not.

    So a site that is over it with short breaks counts as one that always is.
    """

    batches: Mapping[int, int]

    def after(self, over: Ints) -> Overload:
        """One batch later, with these sites over their budget.

        >>> Overload({1: 2, 2: 1}).after(np.array([0, 1])).batches
        {0: 1, 1: 3}
        """
        now = {site: count - 1 for site, count in self.batches.items() if count > 1}
        now |= {int(s): min(self.batches.get(int(s), 0) + 1, 2 * PATIENCE) for s in over}
        return Overload(dict(sorted(now.items())))

    def is_lasting(self, site: int) -> bool:
        """Whether putting rows off has not helped this site."""
        return self.batches.get(site, 0) > PATIENCE

    def to_json(self) -> dict[str, int]:
        return {str(site): count for site, count in self.batches.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Overload:
        return cls({int(site): int(count) for site, count in data.items()})


def plan_budgets(
    batch: Statistics,
    arrived: Ints,
    *,
    ran_at: Ints,
    next_at: Ints,
    overload: Overload,
    capacity: Capacity,
) -> tuple[dict[int, RowBudget], Overload]:
    """Decide which sites put rows off in the next batch, should it be like the last one.

    Sites that are not named take everything. Where rows wait for one that is no longer over its budget, it
    catches up with them at the pace that the budget allows.

    Parameters
    ----------
    batch
        What was done and what waits now.
    arrived
        Rows by partition that came in this batch, whether they were taken or not.
    ran_at, next_at
        Sites by partition in the last batch and in the next, so that moves just decided are counted on.

    Examples
    --------
    >>> rows, here = np.array([30_000, 10_000, 10_000]), np.arange(3)
    >>> batch = Statistics.of_batch([0.3, 0.1, 0.1], rows)
    >>> how = {"ran_at": here, "next_at": here, "overload": Overload({}), "capacity": "auto"}
    >>> budgets, overload = plan_budgets(batch, rows, **how)
    >>> budgets, overload.batches
    ({0: RowBudget(rows=25000, waiting=50000)}, {0: 1})
    """
    space = int(arrived.sum()) if capacity == "auto" else capacity
    expected_s = sum_by_site(arrived * _seconds_per_row(batch, ran_at)[ran_at], next_at, batch.sites)
    if not space or not expected_s.any():
        return {}, overload
    rows = sum_by_site(arrived, next_at, batch.sites)
    pace = np.divide(rows, expected_s, out=np.zeros(batch.sites), where=expected_s > 0)
    allowed = np.maximum(np.round(pace * SLACK * expected_s.mean()), float(LEAST_ROWS))
    overload = overload.after(np.flatnonzero(rows > allowed))
    waiting = sum_by_site(batch.pending_rows, next_at, batch.sites)
    eased = np.flatnonzero((rows > allowed) | (waiting > 0)).tolist()
    named = [site for site in eased if not overload.is_lasting(site)]
    return {site: RowBudget(int(allowed[site]), space // len(named)) for site in named}, overload


def _seconds_per_row(batch: Statistics, site_of: Ints) -> Floats:
    """By site; one that had no rows counts as the average one."""
    rows = sum_by_site(batch.rows, site_of, batch.sites)
    usual = float(batch.busy_s.sum() / max(rows.sum(), 1.0))
    seconds: Floats = np.divide(batch.busy_s, rows, out=np.full(batch.sites, usual), where=rows > 0)
    return seconds
