"""Does a batch of window aggregates take longer when the state is ten times larger?

Runs the real batch loop and slot task in one process, without Spark, on one core. The wide run has a
window `scale` times as long over the same keys, so that every aggregate covers `scale` times more rows;
the spread one has as many times more keys in addition, so that every group is as big as in the narrow run.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream

INTERVAL_US = 1_000_000
AGGREGATES = "COUNT(*) AS n, SUM(x) AS s, MAX(x) AS hi, AVG(y) AS m, STDDEV(y) AS d"


@dataclass(frozen=True, slots=True)
class AggregateRun:
    """One run; medians over the last batches."""

    state_rows: int
    rows_per_group: float
    """In a window."""
    result_rows: float
    """Per batch."""
    operator_ms: float
    """CPU time of the sites: evaluating, without writing."""
    slot_ms: float
    """All that the slot does: sorting, evaluating, writing results and blocks, compaction."""


def run_aggregate_scale(
    *, rows: int = 50_000, window_batches: int = 10, scale: int = 10, keys: int = 10_000, measured: int = 12
) -> dict[str, AggregateRun]:
    """Run with the narrow window, with the wide one, and with the wide one over more keys."""
    batches = window_batches * scale + measured

    def run(factor: int, key_space: int) -> AggregateRun:
        return _run(rows, window_batches * factor, key_space, batches, measured)

    return {"narrow": run(1, keys), "wide": run(scale, keys), "spread": run(scale, keys * scale)}


def _run(rows: int, window: int, keys: int, batches: int, measured: int) -> AggregateRun:
    stream = Stream(
        "s",
        (Column("k", "bigint"), Column("x", "bigint"), Column("y", "double"), Column("ts", "timestamp")),
        "ts",
        INTERVAL_US // 2,
    )
    text = f"SELECT k, {AGGREGATES} FROM s [RANGE {window * INTERVAL_US} MICROSECONDS] GROUP BY k"
    with tempfile.TemporaryDirectory() as root:
        run = LocalRun(
            Path(root),
            [stream],
            [bind_query("q", text, {"s": stream})],
            sinks={"q": _Nowhere()},
            settings=Settings(sites=1, slots=1, rebalance="off"),
        )
        done = [run.batch({"s": _rows(batch, rows, keys)}) for batch in range(batches)][-measured:]
        run.close()
    reports = [summary.reports[0] for summary in done]
    return AggregateRun(
        state_rows=sum(block.rows for block in done[-1].manifest.blocks),
        rows_per_group=rows * window / keys,
        result_rows=statistics.median(r.sites[0].results for r in reports),
        operator_ms=1000 * statistics.median(r.sites[0].busy_s for r in reports),
        slot_ms=1000 * statistics.median(sum(r.seconds.values()) for r in reports),
    )


def _rows(batch: int, rows: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(batch)
    times = batch * INTERVAL_US + rng.integers(-INTERVAL_US // 2, INTERVAL_US, rows)
    return pa.table(
        {
            "k": rng.integers(0, keys, rows),
            "x": rng.integers(-(10**6), 10**6, rows),
            "y": rng.normal(size=rows),
            "ts": pa.array(np.maximum(times, 0)).cast(pa.timestamp("us")),
        }
    )


class _Nowhere:
    """A sink that keeps nothing."""

    def open(self, query: str, schema: pa.Schema) -> None:
        """Nothing to prepare."""

    def publish(self, results: object) -> None:
        """Results stay where they are."""


def main() -> None:
    """Print a table."""
    print("run     state rows  rows/group  results/batch  operator ms  slot ms")
    for name, run in run_aggregate_scale().items():
        print(
            f"{name:7} {run.state_rows:>10,}  {run.rows_per_group:>10,.0f}  {run.result_rows:>13,.0f}  "
            f"{run.operator_ms:>11.1f}  {run.slot_ms:>7.1f}"
        )


if __name__ == "__main__":
    main()
