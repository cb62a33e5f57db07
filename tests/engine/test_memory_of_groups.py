"""Under a memory budget the partitions of aggregates and DISTINCT take turns; their input does not wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.boundary.observation import state_bytes
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.engine.sinks.memory_sink import MemorySink
from anabranch.language.flow import bind_query
from anabranch.plan.logical import Column, Stream
from tests.support.small_budgets import budgets_in_bytes

STREAM = Stream("s", (Column("k", "bigint"), Column("x", "bigint"), Column("ts", "timestamp")), "ts", 0)
COUNTS = "SELECT k, COUNT(*) AS n, MAX(x) AS hi FROM s [RANGE 1 HOUR] GROUP BY k"
KEYS = 400
BUDGET = 20_000


@pytest.fixture(autouse=True)
def _bytes() -> Iterator[None]:
    with budgets_in_bytes():
        yield


def rows_of(batch: int) -> pa.Table:
    """A row of every key."""
    return pa.table(
        {
            "k": np.arange(KEYS),
            "x": np.arange(KEYS) * batch,
            "ts": pa.array(np.full(KEYS, 1_000_000 * (batch + 1))).cast(pa.timestamp("us")),
        }
    )


def session(root: Path, text: str = COUNTS, *, budget: int = BUDGET, sites: int = 1) -> LocalRun:
    query = bind_query("q", text, {"s": STREAM})
    settings = Settings(sites=sites, slots=1, rebalance="off", memory_budget_mb=budget)
    return LocalRun(root, [STREAM], [query], sinks={"q": MemorySink()}, settings=settings)


def results(run: LocalRun) -> list[tuple[int, ...]]:
    return sorted(tuple(r.values()) for r in run.results("q").to_pylist())


def test_what_a_site_works_on_stays_within_the_budget_while_the_state_grows(tmp_path: Path) -> None:
    run = session(tmp_path)
    done = [run.batch({"s": rows_of(b)}) for b in range(12)]
    needed = state_bytes(done[-1].manifest.blocks, run.loop._task(12, 0.0).memory.held).sum()
    worked_on = [site.state_bytes for d in done for r in d.reports for site in r.sites]
    assert needed > 4 * BUDGET
    assert max(worked_on[3:]) <= BUDGET
    run.close()


def test_rows_of_spilled_partitions_do_not_wait_to_enter(tmp_path: Path) -> None:
    run = session(tmp_path)
    for b in range(8):
        manifest = run.batch({"s": rows_of(b)}).manifest
        assert not any(block.state.is_waiting for block in manifest.blocks)
        assert sum(block.rows for block in manifest.blocks) == KEYS * (b + 1)
    run.close()


@pytest.mark.parametrize(
    "text",
    [COUNTS, "SELECT DISTINCT k FROM s [RANGE 1 MILLISECOND]", COUNTS.replace("[RANGE 1 HOUR]", "[ROWS 3]")],
    ids=["aggregate", "distinct", "by count"],
)
def test_all_that_is_final_comes_out_once_partitions_have_taken_turns(tmp_path: Path, text: str) -> None:
    free, bounded = session(tmp_path / "free", text, budget=0), session(tmp_path / "bounded", text)
    for b in range(10):
        free.batch({"s": rows_of(b)})
        bounded.batch({"s": rows_of(b)})
    assert len(results(bounded)) < len(results(free)), "nothing was owed"
    assert bounded.loop.rows_wait
    bounded.drain()
    assert not bounded.loop.rows_wait
    assert len(results(bounded)) == 9 * KEYS  # all before the watermark
    bounded.end_of_input()
    free.end_of_input()
    assert results(bounded) == results(free)
    free.close()
    bounded.close()


def test_a_budget_that_is_lifted_lets_all_partitions_answer_at_once(tmp_path: Path) -> None:
    run = session(tmp_path)
    for b in range(8):
        run.batch({"s": rows_of(b)})
    run.loop.change(memory_budget_mb=0)
    run.batch({"s": rows_of(8)})  # the boundary after it lifts the budget
    manifest = run.batch({"s": rows_of(9)}).manifest
    assert manifest.queries[0].ahead == ()
    assert len(results(run)) == 8 * KEYS  # all before the watermark
    run.close()


def test_what_is_owed_is_remembered_across_a_restart(tmp_path: Path) -> None:
    run = session(tmp_path)
    for b in range(8):
        owed = run.batch({"s": rows_of(b)}).manifest.queries[0].ahead
    assert owed
    before = results(run)
    run.close()
    again = session(tmp_path, sites=3)
    again.end_of_input()
    found = sorted(before + results(again))
    assert found == sorted((k, b + 1, k * b) for b in range(8) for k in range(KEYS))
    again.close()


def test_mergers_are_written_in_pieces_that_fit(tmp_path: Path) -> None:
    run = session(tmp_path)
    for b in range(16):
        manifest = run.batch({"s": rows_of(b)}).manifest
    merged = [block for block in manifest.blocks if block.batch < block.last_batch]
    assert len(merged) > 1
    assert all(len(block.partitions) == 1 or block.bytes <= BUDGET for block in merged)
    run.close()


def test_summaries_count_as_state_of_their_partition(tmp_path: Path) -> None:
    run = session(tmp_path, budget=0)
    manifest = run.batch({"s": rows_of(0)}).manifest
    (held,) = run.loop._task(1, 0.0).memory.held.values()
    with_summaries = state_bytes(manifest.blocks, {manifest.blocks[0].state: held})
    rows = np.zeros(256, dtype=np.int64)
    for partition, count in manifest.blocks[0].partitions:
        rows[partition] = count
    assert np.abs(with_summaries - state_bytes(manifest.blocks, {}) - held * rows).max() <= 1
    run.close()
