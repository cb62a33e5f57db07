"""Bugs planted into the engine, each of which the oracle must catch: the test of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators import rows, theta_join, window_join
from anabranch.operators.match import Side, match
from anabranch.plan import local_plan
from anabranch.runtime import arrivals, batch_loop, retention, slot_task, task_plan
from anabranch.testing import oracle_check
from anabranch.testing.generated import cases
from anabranch.testing.planted import sessions_until_caught

ENOUGH = 600
"""Sessions within which every planted bug must show; most show within 15, early expiry takes longest."""


@contextmanager
def window_bound_exclusive() -> Iterator[None]:
    real = rows.RowSet.side

    def side(self: rows.RowSet, node: Any, index: tuple[str, ...]) -> Side:
        found = real(self, node, index)
        narrow = max(0, found.window_us - 1)
        return Side(
            found.hashes, found.rows, found.times, found.deadlines, narrow, found.deadline_follows_time
        )

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
    with mock.patch.object(local_plan, "_to_verify", return_value=()):
        yield


@contextmanager
def a_row_at_the_watermark_is_late() -> Iterator[None]:
    real = arrivals.Arrivals._refused

    def refused(self: Any, batch: pa.RecordBatch) -> Any:
        marks = tuple(w if w == task_plan.NEVER_LATE else w + 1 for w in self.task.earliest)
        return real(mock.Mock(task=mock.Mock(earliest=marks, latest=2**63 - 1)), batch)

    with mock.patch.object(arrivals.Arrivals, "_refused", refused):
        yield


@contextmanager
def late_rows_are_let_in() -> Iterator[None]:
    real = batch_loop.BatchLoop._watermarks

    def watermarks(self: Any) -> dict[str, int | None]:
        return {name: None if w is None else w - 3 for name, w in real(self).items()}

    with mock.patch.object(batch_loop.BatchLoop, "_watermarks", watermarks):
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
    merging = slot_task._SlotRun._compact

    def compact(self: Any) -> None:
        fewer = lambda pieces, time: real(pieces[1:] or pieces, time)  # noqa: E731
        with mock.patch.object(slot_task.RowSet, "merged", fewer):
            merging(self)

    with mock.patch.object(slot_task._SlotRun, "_compact", compact):
        yield


@contextmanager
def new_rows_do_not_meet_new_rows_of_the_other_side() -> Iterator[None]:
    real = window_join.WindowJoin._matched

    def matched(self: Any, node: Any, new: Any, old: Any, *, new_is_left: bool) -> Iterator[pa.RecordBatch]:
        if old is self._new.get(getattr(node.right, "input", None)):
            return
        yield from real(self, node, new, old, new_is_left=new_is_left)

    with mock.patch.object(window_join.WindowJoin, "_matched", matched):
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
    resuming_a_chunk_loses_a_pair,
    null_keys_match,
    compaction_drops_a_block,
    new_rows_do_not_meet_new_rows_of_the_other_side,
    theta_join_forgets_the_older_sides_window,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_oracle_catches_a_planted_bug(bug: Any) -> None:
    with bug():
        caught = sessions_until_caught(cases(), oracle_check.check_case, enough=ENOUGH)
    assert caught is not None, f"{ENOUGH} sessions did not notice"
    print(f"{bug.__name__}: caught by session {caught}")
