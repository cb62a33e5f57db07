"""Does any kernel take longer because many rows are on one key?

Every kernel works on as many rows and makes as many, whatever the hot share. Its usual case is the one
without a hot key and with times in the same order. A kernel whose steps grow with the square of a run takes
hundreds of times as long as that; one that takes a logarithm more, a few times.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.bench.joins.hot_join import HotJoin
from anabranch.bench.kernels.kernel_cases import CASES, Case
from anabranch.bench.kernels.kernel_load import ORDERS, KernelLoad, TimeOrder
from anabranch.engine.task.worker.worker_process import keep_memory

HOT_SHARES = (0.0, 0.05, 0.5, 0.9, 1.0)
ROWS = 400_000
ROUNDS = 7
MOST = 4.0
"""Times its usual case that a kernel may take."""
LONGEST_S = 5.0
"""Of one case with one load: after that, what was measured has to do."""


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """A kernel with times in one order: the shortest of several turns, for each hot share."""

    kernel: str
    order: TimeOrder
    milliseconds: tuple[float, ...]
    """As many as there are hot shares, the first without a hot key."""

    @property
    def ratios(self) -> tuple[float, ...]:
        """Each as a multiple of the usual case."""
        return tuple(found / self.milliseconds[0] for found in self.milliseconds)


@dataclass(frozen=True, slots=True)
class KernelBench:
    rows: int
    hot_shares: tuple[float, ...]
    times: tuple[KernelTimes, ...]
    joins: tuple[HotJoin, ...] = ()
    """Whole joins, each number of streams without a hot key first."""

    @property
    def ratio(self) -> float:
        """The worst of all cells."""
        return max(ratio for found in self.times for ratio in found.ratios)

    def too_slow(self) -> list[str]:
        """What must not be: each cell that takes too many times its usual case."""
        kernels = [
            f"{found.kernel}, times {found.order}, {share:.0%} of rows on one key: "
            f"{ratio:.1f} times its usual {found.milliseconds[0]:.2f} ms"
            for found in self.times
            for share, ratio in zip(self.hot_shares, found.ratios, strict=True)
            if ratio > MOST
        ]
        joins = [
            f"join of {join.streams} streams, {join.hot:.0%} of rows on one key: {ratio:.1f} times as long"
            for join, ratio in self.join_ratios()
            if ratio > MOST
        ]
        return kernels + joins

    def join_ratios(self) -> list[tuple[HotJoin, float]]:
        """Each join, and how many times as long as without a hot key it took."""
        usual = {join.streams: join.seconds for join in reversed(self.joins)}
        return [(join, join.seconds / usual[join.streams]) for join in self.joins]


def run_kernels(
    *,
    rows: int = ROWS,
    rounds: int = ROUNDS,
    hot_shares: Sequence[float] = HOT_SHARES,
    orders: Sequence[TimeOrder] = ORDERS,
    cases: Mapping[str, Case] = CASES,
) -> Iterator[KernelTimes]:
    """Time every kernel with every load, one order of times after the other."""
    keep_memory()  # as workers do: else page faults are measured
    for order in orders:
        loads = [KernelLoad(rows, hot, order) for hot in hot_shares]
        for name, case in cases.items():
            yield KernelTimes(name, order, _shortest([case(load) for load in loads], rounds))


def _shortest(works: Sequence[Callable[[], object]], rounds: int) -> tuple[float, ...]:
    """Milliseconds of each; they take turns, so that a busy moment of the machine does not hit one alone."""
    works[0]()  # compiled
    found = [float("inf")] * len(works)
    spent = [0.0] * len(works)
    gc.disable()
    try:
        for _ in range(rounds):
            for i, work in enumerate(works):
                if spent[i] > LONGEST_S:
                    continue
                started = time.process_time()
                work()
                took = time.process_time() - started
                found[i], spent[i] = min(found[i], took * 1000), spent[i] + took
    finally:
        gc.enable()
    return tuple(found)
