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
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from anabranch.adapt.measures.statistics import Floats, Ints, Statistics, sum_by_site

Capacity = int | Literal["auto"]
"""Rows that may wait, over all sites; `auto`: as many as arrived in the last batch."""

SLACK = 1.5
"""A site may take this times as long as the average one."""
LEAST_S = 0.02
"""Nobody puts rows off to save less: they are written and read once more, and short times are noise."""
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
class SiteRecord:
    """What is remembered of the sites from one batch to the next.

    Attributes
    ----------
    over
        Batches for which sites were over their budget, less one for every batch that they were not. So one
        that is over it with short breaks counts as one that always is.
    slowness
        By site, its seconds per row in the last batch, 1 being the average.
    """

    over: Mapping[int, int] = field(default_factory=dict)
    slowness: tuple[float, ...] = ()

    def after(self, over: Ints, slowness: Floats) -> SiteRecord:
        """One batch later, with these sites over their budget.

        >>> SiteRecord({1: 2, 2: 1}).after(np.array([0, 1]), np.ones(3)).over
        {0: 1, 1: 3}
        """
        now = {site: count - 1 for site, count in self.over.items() if count > 1}
        now |= {int(s): min(self.over.get(int(s), 0) + 1, 2 * PATIENCE) for s in over}
        return SiteRecord(dict(sorted(now.items())), tuple(float(f"{v:.4g}") for v in slowness))

    def believed(self, slowness: Floats) -> Floats:
        """As slow or fast as in this batch and the last: what happens once does not say what comes.

        >>> SiteRecord({}, (1.0, 2.0, 0.5)).believed(np.array([4.0, 3.0, 0.8])).tolist()
        [1.0, 2.0, 0.8]
        """
        known = self.slowness if len(self.slowness) == len(slowness) else np.ones(len(slowness))
        believed: Floats = np.clip(1.0, np.minimum(slowness, known), np.maximum(slowness, known))
        return believed

    def is_lasting(self, site: int) -> bool:
        """Whether putting rows off has not helped this site."""
        return self.over.get(site, 0) > PATIENCE

    def to_json(self) -> dict[str, Any]:
        return {"over": {str(site): n for site, n in self.over.items()}, "slowness": list(self.slowness)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SiteRecord:
        over = {int(site): int(count) for site, count in data.get("over", {}).items()}
        return cls(over, tuple(data.get("slowness", ())))


def plan_budgets(
    batch: Statistics,
    arrived: Ints,
    *,
    ran_at: Ints,
    next_at: Ints,
    record: SiteRecord,
    capacity: Capacity,
) -> tuple[dict[int, RowBudget], SiteRecord]:
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
    >>> batch = Statistics.of_batch([0.9, 0.3, 0.3], rows)
    >>> how = {"ran_at": here, "next_at": here, "record": SiteRecord(), "capacity": "auto"}
    >>> budgets, record = plan_budgets(batch, rows, **how)
    >>> budgets, record.over
    ({0: RowBudget(rows=25000, waiting=50000)}, {0: 1})
    """
    space = int(arrived.sum()) if capacity == "auto" else capacity
    usual_s = float(batch.busy_s.sum() / max(batch.rows.sum(), 1))
    if not space or not usual_s or not arrived.sum():
        return {}, record  # what waits may enter while nothing else comes
    slowness = _slowness(batch, ran_at, usual_s)
    row_s = usual_s * record.believed(slowness)
    expected_s = sum_by_site(arrived * row_s[ran_at], next_at, batch.sites)
    allowed_s = SLACK * expected_s.mean()
    over = expected_s > allowed_s + LEAST_S
    record = record.after(np.flatnonzero(over), slowness)
    waits = sum_by_site(batch.pending_rows, next_at, batch.sites) > 0
    named = [site for site in np.flatnonzero(over | waits).tolist() if not record.is_lasting(site)]
    rows = sum_by_site(arrived, next_at, batch.sites)
    paces = np.divide(rows, expected_s, out=np.full(batch.sites, 1 / usual_s), where=expected_s > 0)
    budgets = {s: RowBudget(max(1, round(paces[s] * allowed_s)), space // len(named)) for s in named}
    return budgets, record


def _slowness(batch: Statistics, site_of: Ints, usual_s: float) -> Floats:
    """Seconds per row by site, 1 being the average; a site without rows counts as usual."""
    rows = sum_by_site(batch.rows, site_of, batch.sites)
    slowness: Floats = np.divide(batch.busy_s, rows * usual_s, out=np.ones(batch.sites), where=rows > 0)
    return slowness
