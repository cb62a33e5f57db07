"""Results of a representative, split among the members of its group by the group filter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.engine.task.staging import ResultWriter
from anabranch.operators.filter.group_filter import GroupFilter
from anabranch.operators.rows.arrow_types import arrow_type
from anabranch.operators.rows.expressions import project
from anabranch.plan.logical import Query, Split, column_name
from anabranch.state.manifest import ResultFile

if TYPE_CHECKING:
    from anabranch.engine.task.slot_task import SlotTask


class SplitWriter:
    """Takes the results of a representative and writes those of each member."""

    def __init__(self, task: SlotTask, query: Query, slot: int, unique: str) -> None:
        assert query.split is not None
        self.query = query
        self._split = query.split
        self._filter = _filter_of(query.name, query.split)
        self._where = task, slot, unique
        self._writers: dict[int, ResultWriter] = {}
        self.rows = 0
        self._splitting_s = 0.0

    @property
    def seconds(self) -> float:
        """CPU time of splitting and writing."""
        return self._splitting_s + sum(writer.seconds for writer in self._writers.values())

    def write(self, results: pa.Table) -> None:
        """Give every member its rows, as it selects them."""
        started, written_s = time.thread_time(), self.seconds
        results = _with_ages(results, self._split)
        for matches in self._filter.matches(results):
            for member, rows in matches.by_member():
                self._give(member, results.take(pa.array(rows)))
        self.rows += results.num_rows
        self._splitting_s += time.thread_time() - started - (self.seconds - written_s)

    def close(self) -> Iterator[ResultFile]:
        """Make the files durable and describe them."""
        for writer in self._writers.values():
            yield from writer.close()

    def _give(self, number: int, rows: pa.Table) -> None:
        member = self._split.members[number]
        writer = self._writers.get(number)
        if writer is None:
            task, slot, unique = self._where
            writer = self._writers[number] = ResultWriter(task, member.query, slot, unique)
        writer.write(project(rows, member.outputs))


def writer_of(task: SlotTask, query: Query, slot: int, unique: str) -> ResultWriter | SplitWriter:
    """What takes the results of a query, or of a representative."""
    if query.split is not None:
        return SplitWriter(task, query, slot, unique)
    return ResultWriter(task, query, slot, unique)


def ended(query: Query, reason: str) -> dict[str, str]:
    """Failures of a query that is ended, and of those that it represents."""
    return {query.name: reason} | {member.name: reason for member in query.answered}


_FILTERS: dict[str, tuple[Split, GroupFilter]] = {}
"""By representative, what this worker has indexed: groups change much less often than batches come."""


def _filter_of(name: str, split: Split) -> GroupFilter:
    split_before, found = _FILTERS.get(name, (None, None))
    if found is None or (split_before is not split and split_before != split):
        found = GroupFilter({name: arrow_type(kind) for name, kind in split.attributes})
        found.add_all((number, member.predicate) for number, member in enumerate(split.members))
        _FILTERS[name] = split, found
    return found


def _with_ages(results: pa.Table, split: Split) -> pa.Table:
    """Results with the ages of their rows: how much older each is than the newest of them."""
    if not split.times:
        return results
    times = [results.column(name).cast(pa.int64()).to_numpy() for name in split.times]
    newest = np.maximum.reduce(times)
    for number, its in enumerate(times):
        results = results.append_column(column_name("age", number), pa.array(newest - its))
    return results
