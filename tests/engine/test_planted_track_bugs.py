"""Bugs planted where plans and sites change, each of which restless sessions must catch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from anabranch.adapt.tracks import tracks
from anabranch.engine.step import task_plan
from anabranch.engine.step.manifests import settled_tracks
from anabranch.engine.task import slot_run, slot_task, track_run
from anabranch.engine.task.arrival import arrivals
from anabranch.engine.task.sites import site_work
from anabranch.exchange.partition_set import NOTHING
from anabranch.exchange.slot_map import SlotMap
from anabranch.operators.join.sources import ending_chains, ending_rows
from anabranch.operators.join.sources.chain_rows import ChainRows
from anabranch.operators.join.sources.row_source import SiteRows
from anabranch.plan.inputs import TIME
from tests.support.planted import assert_caught_by_seeds, each_change
from tests.support.restless_session import check_restless_session

ENOUGH = 60
"""Sessions, by seed, within which every planted bug must show."""

Planted = AbstractContextManager[Any]


def new_rows_are_taken_for_old() -> Planted:
    """The track that ends makes results of new rows with new rows, as the newer one does."""
    return mock.patch.object(ending_rows, "with_an_old_row", lambda meeting: meeting)


def two_new_rows_never_meet_an_old_one_above() -> Planted:
    return mock.patch.object(ending_rows, "crossing_ways", return_value=())


def new_rows_kept_for_crossings_are_forgotten() -> Planted:
    return mock.patch.object(ending_rows.FreshRows, "kept", return_value=())


def new_rows_of_both_sides_cross() -> Planted:
    """A crossing of new rows with all rows of the other side, not only the old ones."""
    return mock.patch.object(
        ending_chains.CrossingRows, "kept", lambda crossing, node: crossing.rows.kept(node)
    )


def two_new_rows_of_a_batch_cross_from_both() -> Planted:
    """A row of this batch meets another of this batch from either of them."""

    class FromBoth(ChainRows):
        def later(self, probe: Any, first: int) -> Any:
            return probe.aliases

    chains = lambda evaluator, rows: (  # noqa: E731
        (FromBoth if isinstance(rows, ending_chains.CrossingRows) else ChainRows)(evaluator, rows)
    )
    return mock.patch.object(ending_chains, "ChainRows", chains)


def a_track_settles_although_others_that_began_with_it_end() -> Planted:
    real = settled_tracks._is_busy

    def is_busy(tracks: Any, query: str, since: int, partitions: int) -> bool:
        others = tuple(t for t in tracks.ending if t.since != since or t.partitions & partitions)
        return real(replace(tracks, ending=others), query, since, partitions)

    return mock.patch.object(settled_tracks, "_is_busy", is_busy)


def the_newer_track_sees_old_rows() -> Planted:
    real = tracks.Tracks.split
    return mock.patch.object(
        tracks.Tracks, "split", lambda self, track: [(part, False) for part, _ in real(self, track)]
    )


def unread_blocks_are_not_pruned() -> Planted:
    return mock.patch.object(task_plan, "without_unread", lambda blocks, work: tuple(blocks))


def rebuilding_is_forgotten() -> Planted:
    return mock.patch.object(tracks.Tracks, "lacking", return_value=[])


def rebuilding_is_done_twice() -> Planted:
    real = track_run.TrackRun._rebuild

    def rebuild(self: Any, states: Any) -> None:
        real(self, states)
        real(self, states)

    return mock.patch.object(track_run.TrackRun, "_rebuild", rebuild)


def rebuilding_leaves_out_what_is_spilled() -> Planted:
    real = track_run.TrackRun._states

    def states(self: Any, spilled: Any = ()) -> Any:
        return real(self, self._task.admission.spilled)

    return mock.patch.object(track_run.TrackRun, "_states", states)


def draining_rows_are_kept_twice() -> Planted:
    def keep(self: Any, state: str, kept: pa.RecordBatch) -> None:
        if kept.num_rows:
            self.report.blocks.append(self._blocks.write(state, kept, TIME))

    return mock.patch.object(slot_run._SlotRun, "_keep_owned", keep)


def draining_rows_are_counted_twice() -> Planted:
    real = arrivals.Arrivals.__init__

    def init(self: Any, task: Any, owned: Any, at_work: Any) -> None:
        real(self, task, at_work, at_work)

    return mock.patch.object(arrivals.Arrivals, "__init__", init)


def draining_rows_are_not_sent() -> Planted:
    real = slot_task.SlotTask.slot_map

    def owners_only(task: slot_task.SlotTask) -> SlotMap:
        found = real(task)
        return replace(found, slots_of=tuple(slots[:1] for slots in found.slots_of))

    return mock.patch.object(slot_task.SlotTask, "slot_map", owners_only)


def admission_differs_for_draining_rows() -> Planted:
    return mock.patch.object(slot_run._SlotRun, "_leaving", return_value=NOTHING)


def a_track_ends_at_once() -> Planted:
    return mock.patch.object(site_work, "may_drop", return_value=True)


def a_track_ends_a_little_too_early() -> Planted:
    real = site_work.may_drop
    return mock.patch.object(site_work, "may_drop", lambda block, horizon: real(block, horizon + 4))


def compaction_crosses_the_barrier() -> Planted:
    real = task_plan.plan_compaction

    def plan(blocks: Any, *, barriers: Any, **how: Any) -> Any:
        return real(blocks, barriers=(), **how)

    return mock.patch.object(task_plan, "plan_compaction", plan)


def a_track_that_ends_forgets_its_earlier_states() -> Planted:
    return mock.patch.object(SiteRows, "kept", lambda rows, node: rows.held.get(node.state, ()))


def a_track_ends_at_a_site_that_is_gone() -> Planted:
    real = tracks.Tracks._with_sites

    def with_sites(self: Any, before: Any, after: Any) -> Any:
        return replace(real(self, before, after), ending=self.ending)

    return mock.patch.object(tracks.Tracks, "_with_sites", with_sites)


def a_rescale_takes_any_plan_for_the_one_of_the_site() -> Planted:
    """The states of the site that a partition comes from are not compared with those of its new plan."""
    real = tracks.Tracks.moved

    def moved(self: Any, before: Any, after: Any, *how: Any) -> Any:
        found = real(self, before, after, *how)
        return found if before.sites == after.sites else replace(found, rebuilds=())

    return mock.patch.object(tracks.Tracks, "moved", moved)


BUGS: list[Callable[[], Planted]] = [
    new_rows_are_taken_for_old,
    two_new_rows_never_meet_an_old_one_above,
    new_rows_kept_for_crossings_are_forgotten,
    new_rows_of_both_sides_cross,
    two_new_rows_of_a_batch_cross_from_both,
    a_track_settles_although_others_that_began_with_it_end,
    the_newer_track_sees_old_rows,
    unread_blocks_are_not_pruned,
    rebuilding_is_forgotten,
    rebuilding_is_done_twice,
    rebuilding_leaves_out_what_is_spilled,
    draining_rows_are_kept_twice,
    draining_rows_are_counted_twice,
    draining_rows_are_not_sent,
    a_track_ends_at_once,
    a_track_that_ends_forgets_its_earlier_states,
    a_track_ends_at_a_site_that_is_gone,
    a_rescale_takes_any_plan_for_the_one_of_the_site,
]


RARE: list[Callable[[], Planted]] = [
    admission_differs_for_draining_rows,
    a_track_ends_a_little_too_early,
    compaction_crosses_the_barrier,
]
"""Bugs that need a rare coincidence: not within `ENOUGH` sessions."""


@pytest.mark.parametrize("bug", each_change(BUGS))
def test_restless_sessions_catch_a_planted_bug(bug: Callable[[], Planted]) -> None:
    assert_caught_by_seeds(bug, range(ENOUGH), check_restless_session)


@pytest.mark.slow
@pytest.mark.parametrize("bug", RARE, ids=lambda bug: bug.__name__)
def test_many_restless_sessions_catch_a_rare_bug(bug: Callable[[], Planted]) -> None:
    assert_caught_by_seeds(bug, range(8 * ENOUGH), check_restless_session)
