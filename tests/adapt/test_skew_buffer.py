"""Which rows wait."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.measures.statistics import sum_by_site
from anabranch.adapt.memory.skew_buffer import SkewBuffer, take_evenly

waiting = st.lists(st.integers(0, 500), min_size=6, max_size=24)


@given(waiting, st.lists(st.integers(0, 2000), min_size=3, max_size=3), st.floats(0, 1, exclude_max=True))
def test_admitted_rows_fit_each_site_to_within_rounding_and_never_exceed_what_waits(rows, room, phase):
    counts, site_of = np.array(rows), np.arange(len(rows)) % 3
    order = np.argsort(site_of, kind="stable")
    counts, site_of = counts[order], site_of[order]
    admitted = SkewBuffer(100).admit(counts, np.array(room, float), site_of, phase=phase)
    assert (admitted >= 0).all()
    assert (admitted <= counts).all()
    taken = sum_by_site(admitted, site_of, 3)
    due = np.minimum(sum_by_site(counts, site_of, 3), room)
    assert (np.abs(taken - due) <= 1).all()


@given(waiting, st.integers(0, 3000))
def test_the_buffer_is_bounded_because_the_overflow_goes_on(rows, capacity):
    counts = np.array(rows)
    buffer = SkewBuffer(capacity)
    admitted = buffer.admit(counts, np.zeros(1), np.zeros(len(counts), np.int64))
    forced = buffer.overflow(counts, admitted)
    assert int((counts - admitted - forced).sum()) <= capacity
    assert (counts - admitted - forced >= 0).all()


def test_a_stalled_partition_waits_and_leaves_its_room_to_the_others():
    admitted = SkewBuffer(100).admit(
        np.array([50, 50]), np.array([60.0]), np.zeros(2, np.int64), stalled=np.array([True, False])
    )
    assert admitted.tolist() == [0, 50]


def test_a_small_partition_does_not_wait_behind_a_big_one():
    admitted = SkewBuffer(0).admit(np.array([1000, 5, 5]), np.array([100.0]), np.zeros(3, np.int64))
    assert admitted.tolist() == [90, 5, 5]


@given(waiting, st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_even_taking_is_whole_fair_and_sums_up(rows, share, phase):
    counts = np.array(rows)
    taken = take_evenly(counts, np.full(len(counts), share), phase=phase)
    assert (np.abs(taken - counts * share) < 1 + 1e-6).all()
    assert abs(int(taken.sum()) - counts.sum() * share) <= 1 + 1e-6
