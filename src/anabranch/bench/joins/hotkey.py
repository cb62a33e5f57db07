"""A key with half of the rows, whole and spread over the sites, and what looking for it costs where there is
none.

The batch loop and its state without Spark. What counts is the critical path: CPU time of the busiest site,
batch by batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from anabranch.bench.joins.duckdb_join import DuckDBJoin
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.task import slot_run
from anabranch.engine.task.arrival.heavy_keys import heavy_keys
from anabranch.workloads.hot_key import BATCH_US, NEAR, STREAMS, WINDOW_BATCHES, HotKeyStreams, hot_key_query

SITES = 8
WARM_UP = WINDOW_BATCHES + 1
"""Batches that fill the windows and find the key."""


@dataclass(frozen=True, slots=True)
class HotKeyBench:
    """Critical paths per batch, and the cost of looking on even keys."""

    rows: int
    """Per stream and batch."""
    references: int
    results: int
    whole_s: float
    """Median of the busiest site, with the key at one site."""
    spread_s: float
    duckdb_s: float | None
    """Median of a query of DuckDB with one thread: new rows against the windows; of two streams."""
    looking: float
    """Share of a slot's CPU time that looking for hot keys takes, where all keys are alike."""

    @property
    def ratio(self) -> float:
        """How many times shorter the critical path is with the key spread."""
        return self.whole_s / self.spread_s


def run_hotkey(scratch: Path, *, rows: int = 3_000, references: int = 2, batches: int = 6) -> HotKeyBench:
    """Join batch after batch in both ways; raises if their numbers of results differ."""
    hot = HotKeyStreams(rows, references)
    whole, whole_results = _run(scratch / "whole", hot, batches, hot_keys="off")
    spread, results = _run(scratch / "spread", hot, batches, hot_keys="auto")
    if results != whole_results:
        raise AssertionError(f"{results:,} results with the key spread, {whole_results:,} without")
    duckdb_s = median(_duckdb(hot, batches, results)) if references == 2 else None
    looking = _looking(scratch / "even", HotKeyStreams(20 * rows, references, hot=0.0), batches)
    return HotKeyBench(rows, references, results, median(whole), median(spread), duckdb_s, looking)


def _run(scratch: Path, streams: HotKeyStreams, batches: int, *, hot_keys: str) -> tuple[list[float], int]:
    settings = Settings(
        sites=SITES,
        slots=1,
        hot_keys=hot_keys,
        rebalance="off",
        migration="off",
        skew_buffer_rows=0,  # rows of the last batch must not wait for one that never comes
        quota_pairs=1 << 40,
    )
    query = hot_key_query(streams.references)
    run = LocalRun(scratch, STREAMS[: streams.references], [query], settings=settings)
    try:
        seconds = [run.batch(tables).critical_path_s for tables in streams.batches(WARM_UP + batches)]
        return seconds[WARM_UP:], run.results(query.name).num_rows
    finally:
        run.close()


def _duckdb(streams: HotKeyStreams, batches: int, results: int) -> list[float]:
    """CPU time of each batch; raises if the number of results differs."""
    columns = {"id": "BIGINT", "k": "BIGINT", "x": "DOUBLE"}
    condition = f"a.k = b.k AND abs(a.x - b.x) <= {NEAR}"
    peer = DuckDBJoin(columns, condition, WINDOW_BATCHES * BATCH_US)
    seconds = []
    for tables in streams.batches(WARM_UP + batches):
        peer.batch(tables)
        seconds.append(peer.cpu_s)
    if peer.results != results:
        raise AssertionError(f"{results:,} results, DuckDB {peer.results:,}")
    return seconds[WARM_UP:]


def _looking(scratch: Path, streams: HotKeyStreams, batches: int) -> float:
    """Share of the CPU time of slots that goes into looking."""
    spent = {"looking": 0.0, "all": 0.0}

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return work(*args, **kwargs)
            finally:
                spent[name] += time.thread_time() - began

        return run

    with (
        mock.patch("anabranch.engine.task.slot_run.heavy_keys", timed("looking", heavy_keys)),
        mock.patch.object(slot_run._SlotRun, "run", timed("all", slot_run._SlotRun.run)),
    ):
        _run(scratch, streams, batches, hot_keys="auto")
    return spent["looking"] / spent["all"]
