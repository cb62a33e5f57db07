"""Under a memory budget the partitions of a join take turns, and its blocks are merged in pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from anabranch.testing.stream_model import expected_rows
from tests.support.oracle_check import check_rows
from tests.support.small_budgets import budgets_in_bytes

STREAMS = tuple(
    Stream(name, (Column("id", "bigint"), Column("k", "bigint"), Column("ts", "timestamp")), "ts", 0)
    for name in "ab"
)
JOIN = "SELECT a.id AS a, b.id AS b FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS] WHERE a.k = b.k"
QUERY = bind_query("q", JOIN, {s.name: s for s in STREAMS})
KEYS, BATCHES = 400, 20
BATCH_US = 300_000


def rows_of(batch: int, seed: int) -> pa.Table:
    rng = np.random.default_rng([batch, seed])
    return pa.table(
        {
            "id": KEYS * batch + np.arange(KEYS),
            "k": rng.integers(0, KEYS, KEYS),
            "ts": pa.array(BATCH_US * batch + np.sort(rng.integers(0, BATCH_US, KEYS))).cast(
                pa.timestamp("us")
            ),
        }
    )


@pytest.mark.parametrize("budget", [3_000, 20_000])
def test_mergers_in_pieces_change_no_result(tmp_path: Path, budget: int) -> None:
    settings = Settings(sites=2, slots=1, rebalance="off", max_blocks=4, memory_budget_mb=budget)
    merged = []
    with budgets_in_bytes():
        run = LocalRun(tmp_path, STREAMS, [QUERY], sinks={"q": MemorySink()}, settings=settings)
        for b in range(BATCHES):
            blocks = run.batch({"a": rows_of(b, 0), "b": rows_of(b, 1)}).manifest.blocks
            merged += [block for block in blocks if block.batch < block.last_batch]
        run.drain()
        run.end_of_input()
        run.close()
    tables = {n: pa.concat_tables(rows_of(b, i) for b in range(BATCHES)) for i, n in enumerate("ab")}
    check_rows(run.results("q"), expected_rows(QUERY, STREAMS, tables), what="q")
    pieces = {(b.state, b.batch, b.last_batch) for b in merged}
    assert len({b.name for b in merged}) > len(pieces), "mergers are cut"
    # A block has some bytes that are no rows, and its rows may have become fewer since they were counted.
    assert all(len(block.partitions) == 1 or block.bytes <= 1.5 * budget for block in merged)


@pytest.mark.parametrize("changed", [{"memory_budget_mb": 3_000}, {"sites": 1}])
def test_the_budget_holds_from_the_first_batch_after_a_restart_on(
    tmp_path: Path, changed: dict[str, int]
) -> None:
    before = Settings(sites=8, slots=1, rebalance="off", memory_budget_mb=20_000)
    after = replace(before, **changed)
    with budgets_in_bytes():
        for settings, batches in ((before, range(8)), (after, range(8, 10))):
            run = LocalRun(tmp_path, STREAMS, [QUERY], sinks={"q": MemorySink()}, settings=settings)
            for b in batches:
                reports = run.batch({"a": rows_of(b, 0), "b": rows_of(b, 1)}).reports
                worked_on = max(s.state_bytes for r in reports for s in r.sites)
                assert worked_on <= 1.25 * settings.memory_budget_mb, (b, worked_on)
            run.close()


def test_the_budget_holds_when_the_sites_become_fewer(tmp_path: Path) -> None:
    settings = Settings(sites=8, slots=1, rebalance="off", memory_budget_mb=20_000)
    with budgets_in_bytes():
        run = LocalRun(tmp_path, STREAMS, [QUERY], sinks={"q": MemorySink()}, settings=settings)
        for b in range(10):
            if b == 8:
                run.loop.change(sites=1)
            reports = run.batch({"a": rows_of(b, 0), "b": rows_of(b, 1)}).reports
            assert max(s.state_bytes for r in reports for s in r.sites) <= 1.1 * 20_000
        run.close()
