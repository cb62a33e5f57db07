"""Real batches on which the right adaptation is none: tiny ones, cold ones, filters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import choose
from anabranch.adapt.events import EventKind
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.reports import SiteReport
from anabranch.engine.settings import Settings
from anabranch.engine.task.sites import site_groups
from anabranch.exchange.partition_map import PartitionMap
from tests.engine.nasty_runs import START, bind, stream
from tests.support.observed_steps import observed_step

A, B = stream("a"), stream("b")
SECOND = 1_000_000
SITES = 8
FILTER = "SELECT id, k FROM a WHERE v > 1"
JOIN = "SELECT a.id AS a, b.id AS b FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k"


def scheduled_rows(batch: int, size: int, *, keys: int) -> pa.Table:
    """Rows whose times are full minutes of a timetable, so that many share one and with it a partition."""
    rng = np.random.default_rng(batch)
    times = START + batch * SECOND + np.sort(rng.integers(0, 3, size)) * (SECOND // 3)
    return pa.table(
        {
            "id": pa.array(batch * size + np.arange(size), pa.int32()),
            "k": np.minimum(rng.zipf(1.3, size), keys),
            "v": pa.array(rng.integers(0, 5, size), pa.int32()),
            "ts": pa.array(times).cast(pa.timestamp("us")),
        }
    )


@pytest.mark.parametrize("together", [4096, -1])
@pytest.mark.parametrize("text", [FILTER, JOIN])
def test_tiny_batches_move_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, together: int
) -> None:
    monkeypatch.setattr(site_groups, "TOGETHER_ROWS", together)
    settings = Settings(sites=SITES, slots=2)
    session = LocalRun(tmp_path, (A, B), bind((A, B), q=text), settings=settings)
    for batch in range(12):
        summary = session.batch({name: scheduled_rows(batch, 300, keys=50) for name in "ab"})
        assert EventKind.MOVE_ACCEPTED not in [event.kind for event in summary.events]
    session.close()


def reports(rows: np.ndarray, busy_s: np.ndarray, passing_s: np.ndarray) -> tuple[SiteReport, ...]:
    """What the sites say of a batch."""
    here = PartitionMap.even(SITES).as_array()
    return tuple(
        SiteReport(
            site,
            busy_s=float(busy_s[site]),
            passing_s=float(passing_s[site]),
            partitions=tuple((int(p), int(rows[p]), 0) for p in np.flatnonzero(here == site)),
        )
        for site in range(SITES)
    )


def accepted(*, wall_s: float, crowd: int = 1, passing_s: float = 0.0) -> list[float]:
    """Batches in which moves were decided.

    Parameters
    ----------
    crowd
        How many times as many rows as the others the partitions of site 0 get.
    passing_s
        Seconds that queries without state take at site 0.
    """
    state, here = BoundaryState(), PartitionMap.even(SITES)
    rng, moved = np.random.default_rng(5), []
    rows = np.where(here.as_array() == 0, crowd * 1_000, 1_000)
    passing = np.where(np.arange(SITES) == 0, passing_s, 0.0)
    for batch in range(8):
        work = np.bincount(here.as_array(), weights=rows, minlength=SITES) * 1e-6
        busy = work * rng.normal(1, 0.05, SITES) + passing
        sites = reports(rows, busy, passing)
        overhead_s = max(0.0, wall_s - max(site.busy_s for site in sites))
        state, choice = choose(state, observed_step(batch, here, sites=sites, overhead_s=overhead_s))
        moved += [event.batch for event in choice.events if event.kind is EventKind.MOVE_ACCEPTED]
    return moved


def test_the_time_of_a_batch_decides_whether_its_busiest_site_matters() -> None:
    assert accepted(wall_s=0.3, crowd=4)
    assert not accepted(wall_s=10.0, crowd=4)


def test_nothing_moves_after_the_first_batches() -> None:
    assert min(accepted(wall_s=0.3, crowd=4)) >= 2


def test_time_that_queries_without_state_take_moves_nothing() -> None:
    assert not accepted(wall_s=0.3, passing_s=0.1)
