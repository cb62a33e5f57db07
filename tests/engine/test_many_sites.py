"""A site costs what its rows cost: many sites with few rows are as cheap as few sites."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.reports import SiteReport
from anabranch.engine.settings import Settings
from anabranch.engine.step.batch_loop import BatchSummary
from anabranch.engine.task.sites import site_groups
from anabranch.engine.task.sites.site_groups import group_sites
from anabranch.engine.task.sites.site_work import TrackWork
from tests.engine.nasty_runs import START, bind, stream

A, B = stream("a"), stream("b")
SECOND = 1_000_000
JOIN = "SELECT a.id AS a, b.id AS b FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k"
THREE = f"{JOIN.replace('FROM', 'FROM a [RANGE 4 SECONDS] c,')} AND a.k = c.k AND a.v = c.v"
TEXTS = {
    **{f"filter{i}": f"SELECT id, k FROM a WHERE v > {i}" for i in range(3)},
    **{f"join{i}": f"{JOIN} AND a.v >= {i}" for i in range(3)},
    "three": THREE,
    **{
        f"count{i}": f"SELECT k, COUNT(*) AS n FROM a [RANGE 1 SECOND] WHERE v >= {i} GROUP BY k"
        for i in range(3)
    },
}


def rows_of(batch: int, name: str, size: int) -> pa.Table:
    rng = np.random.default_rng([batch, ord(name)])
    times = START + np.sort(rng.integers(batch * SECOND, (batch + 1) * SECOND, size))
    return pa.table(
        {
            "id": pa.array(batch * size + np.arange(size), pa.int32()),
            "k": rng.integers(0, 2_000, size),
            "v": pa.array(rng.integers(0, 40, size), pa.int32()),
            "ts": pa.array(times).cast(pa.timestamp("us")),
        }
    )


def run(
    root: Path, sites: int, *, batches: int, size: int = 1_000
) -> tuple[list[float], BatchSummary, LocalRun]:
    """Seconds of CPU by batch, the last batch, and the run."""
    settings = Settings(sites=sites, slots=2, rebalance="off", skew_buffer_rows=0)
    session = LocalRun(root, (A, B), bind((A, B), **TEXTS), settings=settings)
    seconds = []
    for batch in range(batches):
        tables = {name: rows_of(batch, name, size) for name in "ab"}
        began = time.thread_time()
        summary = session.batch(tables)
        seconds.append(time.thread_time() - began)
    session.close()
    return seconds, summary, session


def test_ten_queries_on_256_sites_cost_at_most_twice_what_they_cost_on_8(tmp_path: Path) -> None:
    run(tmp_path / "warm", 8, batches=6)  # kernels compile
    few, many = (min(run(tmp_path / str(sites), sites, batches=10)[0][4:]) for sites in (8, 256))
    assert many <= 2 * few


def sites_of(summary: BatchSummary) -> list[SiteReport]:
    return [site for report in summary.reports for site in report.sites]


def test_sites_worked_on_together_tell_what_each_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, together, one = run(tmp_path / "together", 16, batches=4)
    monkeypatch.setattr(site_groups, "TOGETHER_ROWS", -1)
    _, alone, other = run(tmp_path / "alone", 16, batches=4)
    for name in TEXTS:
        assert Counter(map(str, one.results(name).to_pylist())) == Counter(
            map(str, other.results(name).to_pylist())
        )
    pairs = list(zip(sites_of(together), sites_of(alone), strict=True))
    for a, b in pairs:
        assert (a.site, a.rows, a.partitions, a.state_bytes) == (b.site, b.rows, b.partitions, b.state_bytes)
        mine, its = a.joins["three"], b.joins["three"]
        assert (mine.new_rows, mine.state_rows) == (its.new_rows, its.state_rows)
    for total in ("pairs", "results", "passing_results"):
        assert sum(getattr(a, total) for a, _ in pairs) == sum(getattr(b, total) for _, b in pairs) > 0
    assert sum(a.joins["three"].probes for a, _ in pairs) == sum(b.joins["three"].probes for _, b in pairs)


def test_a_query_without_state_is_told_apart(tmp_path: Path) -> None:
    _, summary, _ = run(tmp_path, 4, batches=3)
    for site in sites_of(summary):
        assert 0 < site.passing_s < site.busy_s
    kept = sum(rows for site in sites_of(summary) for _, rows, _ in site.partitions)
    assert kept < sum(site.rows for site in sites_of(summary))


def test_sites_with_other_plans_and_sites_with_many_rows_stay_apart(tmp_path: Path) -> None:
    session = LocalRun(tmp_path, (A, B), bind((A, B), q=JOIN), settings=Settings(sites=5, slots=1))
    work = session.loop._task(0, 0.0).work
    session.close()
    rows = np.array([10.0, 20.0, 5_000.0, 4_000.0, 90.0])
    assert [g.sites for g in group_sites(range(5), work, rows)] == [(0, 1), (2,), (3, 4)]
    assert [g.sites for g in group_sites(range(5), work, rows, apart={1})] == [(0,), (1,), (2,), (3, 4)]
    busy = TrackWork(work[1][0].plan, work[1][0].partitions, until=7)
    assert [g.sites for g in group_sites(range(2), {**work, 1: (busy,)}, rows)] == [(0,), (1,)]
    both = group_sites(range(2), work, rows)[0].work[0].partitions
    assert both == work[0][0].partitions | work[1][0].partitions
