"""Bugs planted into the engine, each of which the oracle must catch: the test of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.engine.event_time import NEVER_LATE
from anabranch.engine.step import batch_loop
from anabranch.engine.step.manifests import retention
from anabranch.engine.task import slot_run
from anabranch.engine.task.arrival import arrivals
from anabranch.operators.join import theta_join
from anabranch.operators.join.match import Side, match
from anabranch.operators.join.sources import tree_rows
from anabranch.operators.join.sources.row_source import Meeting, OperandRows
from anabranch.operators.rows import row_set as rows
from anabranch.plan import local_plan
from tests.support import oracle_check
from tests.support.generated import cases
from tests.support.planted import assert_caught, each_change

ENOUGH = 600
"""Sessions within which every planted bug must show; most show within 15, early expiry takes longest."""


@contextmanager
def window_bound_exclusive() -> Iterator[None]:
    real = rows.RowSet.side

    def side(self: rows.RowSet, node: Any, index: tuple[str, ...]) -> Side:
        found = real(self, node, index)
        narrow = max(0, found.window_us - 1)
        return Side(found.hashes, found.rows, found.times, found.deadlines, narrow, found.longest_us)

    with mock.patch.object(rows.RowSet, "side", side):
        yield


@contextmanager
def expiry_one_unit_early() -> Iterator[None]:
    real = retention.may_drop

    def may_drop(meta: Any, horizon: int) -> bool:
        return bool(real(meta, horizon + 1))

    with mock.patch.object(retention, "may_drop", may_drop):
        yield


@contextmanager
def expiry_by_own_watermark_only() -> Iterator[None]:
    """Forgets that every *other* stream must have moved on."""
    real = retention.horizons_of

    def horizons_of(plans: Any, watermarks: Any, emitted: Any) -> dict[str, int]:
        newest = max((w for w in watermarks.values() if w is not None), default=None)
        return real(plans, dict.fromkeys(watermarks, newest), emitted)

    with mock.patch.object(retention, "horizons_of", horizons_of):
        yield


@contextmanager
def full_keys_not_compared() -> Iterator[None]:
    with mock.patch.object(local_plan, "to_verify", return_value=()):
        yield


@contextmanager
def a_row_at_the_watermark_is_late() -> Iterator[None]:
    real = arrivals.Arrivals._refused

    def refused(self: Any, batch: pa.RecordBatch) -> Any:
        marks = np.where(self._refused_before == NEVER_LATE, NEVER_LATE, self._refused_before + 1)
        return real(mock.Mock(task=self.task, _refused_before=marks), batch)

    with mock.patch.object(arrivals.Arrivals, "_refused", refused):
        yield


@contextmanager
def late_rows_are_let_in() -> Iterator[None]:
    real = batch_loop.plan_task

    def plan(batch: int, *, watermarks: dict[str, int | None], **what: Any) -> Any:
        earlier = {name: None if w is None else w - 3 for name, w in watermarks.items()}
        return real(batch, watermarks=earlier, **what)

    with mock.patch.object(batch_loop, "plan_task", plan):
        yield


@contextmanager
def queries_without_state_refuse_late_rows() -> Iterator[None]:
    def refused_before(self: Any) -> Any:
        return np.array(self.task.earliest, dtype=np.int64)

    with mock.patch.object(arrivals.Arrivals, "_refused_before", property(refused_before)):
        yield


@contextmanager
def resuming_a_chunk_loses_a_pair() -> Iterator[None]:
    def losing(new: Side, old: Side, *, chunk: int) -> Iterator[Any]:
        for number, (left, right) in enumerate(match(new, old, chunk=chunk)):
            yield (left[1:], right[1:]) if number else (left, right)

    with mock.patch.object(oracle_check, "match", losing):
        yield


@contextmanager
def null_keys_match() -> Iterator[None]:
    real = rows.RowSet._build_index

    def build_index(self: rows.RowSet, index: tuple[str, ...], times: Any) -> Any:
        filled = self.batch
        for name in index:
            at = filled.schema.get_field_index(name)
            filled = filled.set_column(at, name, filled.column(name).fill_null(0))
        return real(rows.RowSet(filled), index, times)

    with mock.patch.object(rows.RowSet, "_build_index", build_index):
        yield


@contextmanager
def compaction_drops_a_block() -> Iterator[None]:
    real = rows.RowSet.merged
    merging = slot_run._SlotRun._compact

    def compact(self: Any) -> None:
        fewer = lambda pieces, time: real(pieces[1:] or pieces, time)  # noqa: E731
        with mock.patch.object(slot_run.RowSet, "merged", fewer):
            merging(self)

    with mock.patch.object(slot_run._SlotRun, "_compact", compact):
        yield


@contextmanager
def new_rows_do_not_meet_new_rows_of_the_other_side() -> Iterator[None]:
    def with_kept_rows_only(node: Any, rows: OperandRows) -> Iterator[Meeting]:
        for side, other in (node.sides, node.sides[::-1]):
            for new in rows.new(side):
                yield Meeting(new, rows.kept(other), new_is_left=side is node.left)

    with mock.patch.object(tree_rows, "symmetric", with_kept_rows_only):
        yield


@contextmanager
def theta_join_forgets_the_older_sides_window() -> Iterator[None]:
    real = theta_join._operand

    def operand(node: Any, side: Any, batch: Any, *, row: str) -> pa.Table:
        table = real(node, side, batch, row=row)
        if row != "r":
            return table
        forever = pa.array(np.full(table.num_rows, 2**62))
        return table.set_column(table.schema.get_field_index("d"), "d", forever)

    with mock.patch.object(theta_join, "_operand", operand):
        yield


BUGS = [
    window_bound_exclusive,
    expiry_one_unit_early,
    expiry_by_own_watermark_only,
    full_keys_not_compared,
    a_row_at_the_watermark_is_late,
    late_rows_are_let_in,
    queries_without_state_refuse_late_rows,
    resuming_a_chunk_loses_a_pair,
    null_keys_match,
    compaction_drops_a_block,
    new_rows_do_not_meet_new_rows_of_the_other_side,
    theta_join_forgets_the_older_sides_window,
]


@pytest.mark.parametrize("bug", each_change(BUGS, rare=[full_keys_not_compared, compaction_drops_a_block]))
def test_the_oracle_catches_a_planted_bug(bug: Any) -> None:
    assert_caught(bug, cases(), oracle_check.check_case, enough=ENOUGH)
