"""What a second hop brings: groups above a join by another column, on many sites and on one; no Spark."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.oracle_compare import compare_rows

INTERVAL_US = 1_000_000
WARM_UP = 3
STREAMS = tuple(
    Stream(name, (Column("k", "bigint"), Column("g", "bigint"), Column("ts", "timestamp")), "ts", 0)
    for name in ("a", "b")
)
TEXT = (
    "SELECT b.g AS g, COUNT(*) AS n, SUM(a.g) AS total FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] "
    "WHERE a.k = b.k GROUP BY b.g"
)


@dataclass(frozen=True, slots=True)
class GroupScale:
    """Critical path in seconds of the same batches, once windows are full."""

    rows: int
    sites: int
    spread_s: float
    alone_s: float

    @property
    def ratio(self) -> float:
        """How many times as fast all sites are as one."""
        return self.alone_s / self.spread_s


def run_group_scale(
    scratch: Path, *, rows: int = 100_000, groups: int = 2_000, sites: int = 8, batches: int = 6
) -> GroupScale:
    """Run both; raises if they give different results."""
    spread_s, spread = _run(scratch / "spread", rows, groups, sites=sites, batches=batches)
    alone_s, alone = _run(scratch / "alone", rows, groups, sites=1, batches=batches)
    different = compare_rows(spread, alone)
    if not different.empty:
        raise AssertionError(different.describe("groups"))
    return GroupScale(rows, sites, spread_s, alone_s)


def _run(scratch: Path, rows: int, groups: int, *, sites: int, batches: int) -> tuple[float, pa.Table]:
    query = bind_query("groups", TEXT, {stream.name: stream for stream in STREAMS})
    settings = Settings(sites=sites, slots=2, rebalance="off", migration="off", skew_buffer_rows=0)
    run = LocalRun(scratch, STREAMS, [query], settings=settings)
    seconds = 0.0
    for number in range(WARM_UP + batches):
        summary = run.batch(_tables(number, rows, groups))
        seconds += summary.critical_path_s if number >= WARM_UP else 0.0
    results = run.results("groups")
    run.close()
    return seconds, results


def _tables(number: int, rows: int, groups: int) -> dict[str, pa.Table]:
    draw = np.random.default_rng(number)
    times = INTERVAL_US * number + np.sort(draw.integers(0, INTERVAL_US, rows))
    return {
        stream.name: pa.table(
            {
                "k": draw.integers(0, rows, rows),
                "g": draw.integers(0, groups, rows),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        for stream in STREAMS
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run_group_scale(Path(folder) / "compiled", rows=100, batches=1)
        found = run_group_scale(Path(folder) / "measured")
    print(
        f"{found.rows:,} rows per stream and batch: critical path {found.spread_s:.3f} s on {found.sites} "
        f"sites, {found.alone_s:.3f} s on one ({found.ratio:.1f} times)"
    )
