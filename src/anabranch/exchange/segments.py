"""Segments: the time of a master stream cut into slices, each with a partition (Gu, Yu, Wang, section 3).

A *run* of segments has one length and a cycle of partitions that take turns. The last run goes on for ever,
so that every segment has its partition before any of its rows comes, however far ahead that is:

    run 0: T = 4, partitions 1 2 3        run 1: T = 2, partitions 1 1 3
    ├───1───┼───2───┼───3───┼───1───┼─1─┼─1─┼─3─┼─1─┼─1─┼─3─ …

Segments are numbered over all runs. Decisions change the future only: `continued` begins another run behind
everything that is in use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.exchange.partition_set import PartitionSet

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Segments of one length, the first of which begins at `start`."""

    start: int
    length: int
    cycle: tuple[int, ...]

    def follows(self, other: Run) -> bool:
        """Whether it only goes on with what another run does."""
        passed = self.start - other.start
        if self.length != other.length or len(self.cycle) != len(other.cycle) or passed % self.length:
            return False
        turn = passed // self.length % len(self.cycle)
        return other.cycle[turn:] + other.cycle[:turn] == self.cycle


@dataclass(frozen=True, slots=True)
class Segments:
    """All segments of a master stream; the first run reaches back to the beginning of time.

    >>> table = Segments((Run(0, 4, (1, 2, 3)),)).continued(10, length=2, cycle=(1, 1, 3))
    >>> table.partitions(table.numbers(np.array([0, 5, 11, 12, 14, 16]))).tolist()
    [1, 2, 3, 1, 1, 3]
    """

    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        # Earlier runs were the last once: a decision should not take longer the more of them there are.
        if any((b.start - a.start) % a.length or b.start <= a.start for a, b in pairwise(self.runs[-2:])):
            raise ValueError("a run begins where a segment of the run before it ends")

    @classmethod
    def cycling(cls, length: int, cycle: Sequence[int], start: int = 0) -> Segments:
        return cls((Run(start, length, tuple(cycle)),))

    @property
    def last(self) -> Run:
        return self.runs[-1]

    def _bases(self) -> list[int]:
        """Number of the first segment of each run."""
        counts = ((b.start - a.start) // a.length for a, b in pairwise(self.runs))
        return list(accumulate(counts, initial=0))

    def numbers(self, times: Int64s) -> Int64s:
        """The segment of each time."""
        starts = np.array([run.start for run in self.runs], dtype=np.int64)
        lengths = np.array([run.length for run in self.runs], dtype=np.int64)
        times = np.maximum(times, starts[0])
        which = np.searchsorted(starts, times, side="right") - 1
        found: Int64s = np.array(self._bases())[which] + (times - starts[which]) // lengths[which]
        return found

    def partitions(self, numbers: Int64s) -> Int64s:
        """The partition of each segment."""
        bases = np.array(self._bases())
        lengths = np.array([len(run.cycle) for run in self.runs])
        cycles = np.array([p for run in self.runs for p in run.cycle], dtype=np.int64)
        which = np.searchsorted(bases, numbers, side="right") - 1
        begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        found: Int64s = cycles[begins[which] + (numbers - bases[which]) % lengths[which]]
        return found

    def number_sql(self, time: str) -> str:
        """Spark SQL for the segment of a time."""
        cases = []
        for run, base in reversed(list(zip(self.runs, self._bases(), strict=True))):
            since = f"greatest({time} - {run.start}L, 0L)"
            cases.append((f"{time} >= {run.start}L", f"({base}L + {since} div {run.length}L)"))
        return _case(cases)

    def partition_sql(self, number: str) -> str:
        """Spark SQL for the partition of a segment."""
        cases = []
        for run, base in reversed(list(zip(self.runs, self._bases(), strict=True))):
            cycle = f"CAST(split('{','.join(map(str, run.cycle))}', ',') AS ARRAY<INT>)"
            turn = f"CAST(({number} - {base}L) % {len(run.cycle)}L AS INT)"
            cases.append((f"{number} >= {base}L", f"get({cycle}, {turn})"))
        return _case(cases)

    def continued(self, free_from: int, *, length: int, cycle: Sequence[int]) -> Segments:
        """These segments until the one ends that has the last time in use, then others.

        Parameters
        ----------
        free_from
            No row has been routed by a segment with this time or a later one.
        """
        last = self.last
        whole = -(-(free_from - last.start) // last.length)
        run = Run(last.start + max(0, whole) * last.length, length, tuple(cycle))
        if run.follows(last):
            return self
        kept = self.runs if whole > 0 else self.runs[:-1]
        return Segments((*kept, run))

    def without_before(self, time: int) -> Segments:
        """These segments without the runs that ended before or at a time."""
        first = max(0, bisect_right(self.runs, time, key=lambda run: run.start) - 1)
        return replace(self, runs=self.runs[first:]) if first else self

    def used(self) -> PartitionSet:
        """Partitions that some segment has."""
        return PartitionSet.of(p for run in self.runs for p in run.cycle)

    def to_json(self) -> list[Any]:
        return [[run.start, run.length, list(run.cycle)] for run in self.runs]

    @classmethod
    def from_json(cls, data: Iterable[Any]) -> Segments:
        return cls(tuple(Run(start, length, tuple(cycle)) for start, length, cycle in data))


def _case(cases: Sequence[tuple[str, str]]) -> str:
    """The first value whose condition holds; the last where none does."""
    *others, (_, last) = cases
    if not others:
        return last
    return f"(CASE {' '.join(f'WHEN {when} THEN {value}' for when, value in others)} ELSE {last} END)"
