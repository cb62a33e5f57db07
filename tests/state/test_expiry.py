"""Expiry against brute force: a dropped row is in no future result, a kept one could be in one."""

from __future__ import annotations

import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from anabranch.state.expiry import (
    DROP_ALL,
    KEEP_ALL,
    LeafUse,
    WindowRef,
    held_back,
    intermediate_horizon,
    leaf_horizon,
    may_drop,
)
from tests.state.samples import sample_meta

STREAMS = ("a", "b", "c")
windows = st.none() | st.integers(0, 6)
refs = st.lists(st.builds(WindowRef, st.sampled_from(STREAMS), windows), min_size=1, max_size=3).map(tuple)
watermarks = st.fixed_dictionaries({stream: st.none() | st.integers(0, 8) for stream in STREAMS})
times = st.integers(0, 12)
TIMES = range(-1, 14)


def _joins(refs: tuple[WindowRef, ...], row_times: tuple[int, ...]) -> bool:
    """The definition of a window join, design section 4."""
    end = max(row_times)
    return all(
        ref.window_us is None or end - ts <= ref.window_us for ref, ts in zip(refs, row_times, strict=True)
    )


def _needed(refs: tuple[WindowRef, ...], fixed: dict[int, int], marks: dict[str, int | None]) -> bool:
    """Try all times of the other rows, at least one of which is still to come."""
    free = [i for i in range(len(refs)) if i not in fixed]
    for chosen in itertools.product(TIMES, repeat=len(free)):
        at = fixed | dict(zip(free, chosen, strict=True))
        future = any(at[i] >= (-1 if (mark := marks[refs[i].stream]) is None else mark) for i in free)
        if future and _joins(refs, tuple(at[i] for i in range(len(refs)))):
            return True
    return False


@given(st.lists(refs, min_size=1, max_size=3), watermarks, times, st.data())
def test_a_leaf_row_goes_exactly_when_no_query_that_shares_it_can_use_it(
    queries: list[tuple[WindowRef, ...]], marks: dict[str, int | None], ts: int, data: st.DataObject
) -> None:
    uses = [LeafUse(query, data.draw(st.integers(0, len(query) - 1))) for query in queries]
    dropped = may_drop(sample_meta("b", max_ts=ts), leaf_horizon(uses, marks))
    needed = any(_needed(use.refs, {use.position: ts}, marks) for use in uses)
    assert dropped == (not needed)


@given(refs.filter(lambda query: len(query) > 1), watermarks, st.data())
def test_an_intermediate_row_goes_exactly_when_no_row_outside_can_complete_it(
    query: tuple[WindowRef, ...], marks: dict[str, int | None], data: st.DataObject
) -> None:
    inside = data.draw(st.sets(st.integers(0, len(query) - 1), min_size=1, max_size=len(query) - 1))
    at = {i: data.draw(times, label=f"ts of {i}") for i in sorted(inside)}
    joined = tuple(query[i] for i in sorted(inside))
    assume(_joins(joined, tuple(at.values())))  # else there is no such intermediate row
    ends = (at[i] + w for i in inside if (w := query[i].window_us) is not None)
    last = min(ends, default=2**63 - 1)  # the deadline of the row
    dropped = may_drop(sample_meta("b", max_deadline=last), intermediate_horizon(query, inside, marks))
    assert dropped == (not _needed(query, at, marks))


def test_the_row_on_the_bound_stays_and_the_one_a_microsecond_older_goes() -> None:
    use = LeafUse((WindowRef("a", 60), WindowRef("b", 10)), position=0)
    horizon = leaf_horizon([use], {"a": 0, "b": 400})
    assert not may_drop(sample_meta("b", max_ts=340), horizon)
    assert may_drop(sample_meta("b", max_ts=339), horizon)


def test_a_self_join_waits_for_its_own_stream() -> None:
    both = (WindowRef("a", 10), WindowRef("a", 5))
    marks = {"a": 100}
    assert leaf_horizon([LeafUse(both, 0)], marks) == 90
    assert leaf_horizon([LeafUse(both, 0), LeafUse(both, 1)], marks) == 90


def test_a_stream_never_seen_pins_the_state_of_all_others() -> None:
    query = (WindowRef("a", 10), WindowRef("b", 10), WindowRef("c", 10))
    assert leaf_horizon([LeafUse(query, 0)], {"a": 50, "b": 50}) == KEEP_ALL
    assert leaf_horizon([LeafUse(query, 2)], {"a": 50, "b": 50}) == 40
    assert intermediate_horizon(query, {0, 1}, {"a": 50, "b": 50}) == KEEP_ALL


def test_the_query_that_needs_a_shared_state_longest_decides() -> None:
    short = LeafUse((WindowRef("a", 10), WindowRef("b", 10)), 0)
    long = LeafUse((WindowRef("a", 70), WindowRef("c", 10)), 0)
    assert leaf_horizon([short, long], {"a": 0, "b": 100, "c": 90}) == 20


def test_a_query_with_one_reference_keeps_no_state_and_no_query_keeps_none() -> None:
    assert leaf_horizon([LeafUse((WindowRef("a", 10),), 0)], {"a": None}) == DROP_ALL
    assert leaf_horizon([], {"a": None}) == DROP_ALL


def test_spooled_rows_hold_their_stream_back() -> None:
    assert held_back({"a": 100, "b": None, "c": 5}, {"a": 40, "b": 7, "c": 9}) == {"a": 40, "b": 7, "c": 5}
