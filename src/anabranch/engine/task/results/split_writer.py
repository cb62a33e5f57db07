"""Results of a representative, split among the members of its group by the group filter.

Work grows with results and with members that have some, not with members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.engine.task.results.live_split import Channel, LiveSplit
from anabranch.engine.task.results.staging import ResultWriter
from anabranch.language.shared_columns import QUERY
from anabranch.operators.rows.arrays import Int64s, Rows32
from anabranch.operators.rows.expressions import BAD_VALUE, project
from anabranch.plan.logical import Query, column_name

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask

FileOf = Callable[[Query], ResultWriter]
"""The file that a query writes to."""


class SplitWriter:
    """Takes the results of a representative and writes those of each member.

    Attributes
    ----------
    failures
        Why members were ended, by name. Their rows are left out by whoever publishes the files.
    """

    def __init__(self, task: SlotTask, query: Query, file_of: FileOf) -> None:
        self.query = query
        self.rows = 0
        self.seconds = 0.0
        """CPU time of splitting and writing."""
        self.failures: dict[str, str] = {}
        self._split = task.split_of(query)
        self._file_of = file_of
        self._quota = task.quota_pairs
        self._given = np.zeros(len(self._split.members), dtype=np.int64)
        self._ended = np.zeros(len(self._split.members), dtype=np.bool_)
        self._ended[self._split.numbers(task.failed)] = True
        self._any_ended = bool(self._ended.any())

    def write(self, results: pa.Table) -> None:
        """Give every member its rows, as it selects them."""
        started = time.thread_time()
        results = _with_ages(results, self._split)
        for matches in self._split.filter.matches(results, bad=self._end):
            self._give(results, matches.rows, matches.members)
        self.rows += results.num_rows
        self.seconds += time.thread_time() - started

    def given(self) -> list[tuple[str, int]]:
        """Members that have rows, and how many."""
        which = np.flatnonzero(self._given)
        names = self._split.names.take(pa.array(which)).to_pylist()
        return list(zip(names, self._given[which].tolist(), strict=True))

    def _give(self, results: pa.Table, rows: Rows32, members: Rows32, *, again: bool = False) -> None:
        if self._any_ended:
            there = ~self._ended[members]
            rows, members = rows[there], members[there]
        if not len(rows):
            return
        if not again:
            self._given += np.bincount(members, minlength=len(self._given))
        for number in np.flatnonzero((self._given > self._quota) & ~self._ended).tolist():
            self._end_over_quota(number)
        ranks = self._split.ranks_of(members)
        order = np.argsort(ranks, kind="stable")
        self._give_sorted(results, rows[order], members[order], ranks[order])

    def _give_sorted(self, results: pa.Table, rows: Rows32, members: Rows32, ranks: np.ndarray) -> None:
        """Make the rows of each projection at once, and hand them out by file."""
        starts = np.append(0, np.flatnonzero(np.diff(ranks)) + 1)
        channels = [self._split.channel_at(ranks[start]) for start in starts]
        ends = [*starts[1:].tolist(), len(ranks)]
        at = 0
        while at < len(channels):
            upto = at
            while upto < len(channels) and channels[upto].projection == channels[at].projection:
                upto += 1
            first, end = int(starts[at]), ends[upto - 1]
            made = self._made(channels[at], results, rows[first:end], members[first:end])
            if made is not None:
                for i in range(at, upto):
                    start, stop = starts[i], ends[i]
                    self._hand_over(channels[i], made.slice(start - first, stop - start), members[start:stop])
            at = upto

    def _made(self, channel: Channel, results: pa.Table, rows: Rows32, members: Rows32) -> pa.Table | None:
        """Rows as members select them; None where one has no value, and then all are given by member."""
        projection = self._split.projections[channel.projection]
        some = results.select(projection.columns or results.column_names[:1]).take(pa.array(rows))
        try:
            return project(some, projection.outputs)
        except BAD_VALUE as error:
            numbers = np.unique(members).tolist()
            if len(numbers) == 1:
                self._end(numbers[0], error)
                return None
            for number in numbers:
                its = members == number
                self._give(results, rows[its], members[its], again=True)
            return None

    def _hand_over(self, channel: Channel, made: pa.Table, members: Rows32) -> None:
        if channel.query.place is not None:
            made = made.add_column(0, QUERY, self._split.names.take(pa.array(members)))
        self._file_of(channel.query).write(made)

    def _end(self, number: int, error: Exception) -> None:
        name = self._split.members[number].query.name
        self._ended[number] = self._any_ended = True
        self.failures.setdefault(name, bad_value(name, error))

    def _end_over_quota(self, number: int) -> None:
        name = self._split.members[number].query.name
        self._ended[number] = self._any_ended = True
        self.failures[name] = (
            f"query {name!r} had more than {self._quota:,} results in one batch at one slot and was ended: "
            "start it under a new name, with narrower windows or predicates or a larger quota_pairs"
        )


def bad_value(name: str, error: Exception) -> str:
    """Why a query was ended that has no value for some row."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"query {name!r} was ended, because an expression has no value for some row: {lines[0]}"


def ended(task: SlotTask, query: Query, reason: str) -> dict[str, str]:
    """Failures of a query that is ended, and of those that it represents."""
    members: Iterable[str] = () if query.split is None else task.split_of(query).present()
    return {query.name: reason} | dict.fromkeys(members, reason)


def _with_ages(results: pa.Table, split: LiveSplit) -> pa.Table:
    """Results with what members' predicates may be about beside their columns.

    The ages of rows: how much older each is than the newest of them. And the batch in which the first came.
    """
    if split.times:
        times = [results.column(name).cast(pa.int64()).to_numpy() for name in split.times]
        newest = np.maximum.reduce(times)
        for number, its in enumerate(times):
            results = results.append_column(column_name("age", number), pa.array(newest - its))
    if split.arrived:
        batches: list[Int64s] = [results.column(name).to_numpy() for name in split.arrived]
        results = results.append_column(column_name("arrived", 0), pa.array(np.minimum.reduce(batches)))
    return results
