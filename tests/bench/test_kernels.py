"""A hot key does not slow kernels down: they are timed beside their usual case, in CPU time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anabranch.bench.joins.hot_join import run_hot_joins
from anabranch.bench.kernels.kernel_cases import CASES, Work
from anabranch.bench.kernels.kernel_load import ORDERS, KernelLoad, TimeOrder
from anabranch.bench.kernels.kernels import MOST, KernelBench, KernelTimes, run_kernels
from anabranch.bench.report import hot_join_table, kernel_table, plain_json

ROWS = 400_000
"""A kernel whose steps grow with the square of a run would take minutes."""
SMALL = 20_000
"""Still ten times what is allowed, and more."""
GENEROUS = 6.0


def _check(found: KernelTimes) -> None:
    assert max(found.ratios) < GENEROUS, f"{found.kernel}, {found.order}: {found.ratios}"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", CASES)
def test_no_kernel_is_slower_by_far_when_many_rows_are_on_one_key(kernel: str, order: TimeOrder) -> None:
    shares = (0.0, 0.5, 0.9, 1.0)
    (found,) = run_kernels(
        rows=SMALL, rounds=5, hot_shares=shares, orders=(order,), cases={kernel: CASES[kernel]}
    )
    _check(found)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", ["order by hash and time", "probe a stream", "probe rows of a join"])
def test_half_of_400_000_rows_on_one_key_take_no_longer_by_far_than_others(
    kernel: str, order: TimeOrder
) -> None:
    (found,) = run_kernels(
        rows=ROWS, rounds=3, hot_shares=(0.0, 0.5), orders=(order,), cases={kernel: CASES[kernel]}
    )
    _check(found)


@pytest.mark.parametrize("kernel", ["probe a stream", "probe rows of a join"])
def test_every_new_row_finds_one_row_whatever_the_hot_share(kernel: str) -> None:
    for share in (0.0, 0.5, 1.0):
        assert CASES[kernel](KernelLoad(3000, share, "random"))() == 3000


@pytest.mark.parametrize("order", ORDERS)
def test_the_hot_share_of_a_load_is_the_one_asked_for(order: TimeOrder) -> None:
    load = KernelLoad(10_000, 0.5, order)
    assert np.unique(load.hashes, return_counts=True)[1].max() == pytest.approx(5000, rel=0.1)
    assert len(np.unique(load.times)) == 10_000
    assert load.batch.num_rows == load.block.num_rows == 10_000


def test_a_kernel_that_takes_steps_with_the_square_of_a_run_is_named() -> None:
    def case(load: KernelLoad) -> Work:
        counts = np.unique(load.hashes, return_counts=True)[1]
        steps = int((counts.astype(float) ** 2).sum())
        return lambda: sum(range(steps))

    found = tuple(
        run_kernels(rows=1000, rounds=2, hot_shares=(0.0, 1.0), orders=("sorted",), cases={"square": case})
    )
    bench = KernelBench(1000, (0.0, 1.0), found)
    assert bench.ratio > MOST
    (said,) = bench.too_slow()
    assert said.startswith("square, times sorted, 100% of rows on one key")
    assert kernel_table(bench).row_count == 1
    assert json.loads(json.dumps(plain_json("kernels", bench)))["times"][0]["kernel"] == "square"


def test_a_join_gives_as_many_results_with_a_hot_key_and_is_not_slower_by_far(tmp_path: Path) -> None:
    joins = tuple(run_hot_joins(tmp_path, rows=30_000, batches=1))
    assert {join.results for join in joins} == {30_000}
    bench = KernelBench(30_000, (0.0,), (), joins)
    assert hot_join_table(bench).row_count == len(joins) == 6
    assert all(ratio < GENEROUS for _, ratio in bench.join_ratios()), bench.join_ratios()
