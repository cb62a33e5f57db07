"""Tracks as pure values: what every change leaves behind, and that nothing is owned twice or by nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.tracks.tracks import Migration, Rebuild, Track, Tracks, track_events
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import EVERY, PartitionSet, union
from anabranch.plan.cost.migration_cost import Strategy

MS, PT = Strategy.MOVING_STATE, Strategy.PARALLEL_TRACK
AB_C, BC_A, AC_B = "((a b) c)", "((b c) a)", "((a c) b)"
TWO = PartitionMap.even(2)
LOW, HIGH = TWO.partitions_of(0), TWO.partitions_of(1)
FIRST = PartitionSet.of([0])
START = Tracks({"q": (AB_C, AB_C)})
MIXED = Tracks({"q": (AB_C, BC_A)})
"""Two sites with different plans."""


def migrate(plan: str, strategy: Strategy, batch: int, *, site: int = 0) -> Callable[[Tracks], Tracks]:
    def change(tracks: Tracks) -> Tracks:
        return tracks.migrated(Migration("q", site, plan, strategy), TWO.partitions_of(site), batch)

    return change


def move(strategy: Strategy, batch: int, *, source: int = 0, target: int = 1) -> Callable[[Tracks], Tracks]:
    """All partitions that the even map gives one site move to the other."""
    here = PartitionMap(tuple(source if s == 0 else target for s in TWO.site_of_partition), 2)
    there = PartitionMap((target,) * PARTITIONS, 2)
    return lambda tracks: tracks.moved(here, there, strategy, batch)


def run(tracks: Tracks) -> Tracks:
    """A batch runs."""
    return tracks.rebuilt()


def lacking(states: str, *, since: int = 0, partitions: PartitionSet = LOW) -> Rebuild:
    return Rebuild("q", since, partitions, frozenset(states.split()))


CASES: dict[str, tuple[Tracks, list[Callable[[Tracks], Tracks]], dict[str, object]]] = {
    "moving state keeps states that match": (
        START, [migrate("(c (b a))", MS, 3)], {"rebuilds": (), "ending": (), "began": {}},
    ),
    "moving state rebuilds states that do not match": (
        START, [migrate(BC_A, MS, 3)], {"rebuilds": (lacking("b.c"),), "ending": ()},
    ),
    "moving state rebuilds only what does not match of a bigger plan": (
        Tracks({"q": ("(((a b) c) d)",) * 2}), [migrate("((a b) (c d))", MS, 3)],
        {"rebuilds": (lacking("c.d"),)},
    ),
    "a batch runs and nothing is lacking": (START, [migrate(BC_A, MS, 3), run], {"rebuilds": ()}),
    "what is lacking is carried over to a second plan that needs it": (
        Tracks({"q": ("(((a b) c) d)",) * 2}),
        [migrate("(((b c) d) a)", MS, 3), migrate("((b c) (a d))", MS, 3)],
        {"rebuilds": (lacking("b.c a.d"),)},
    ),
    "a second plan drops what only the first lacked": (
        START, [migrate(BC_A, MS, 3), migrate(AC_B, MS, 3)], {"rebuilds": (lacking("a.c"),)},
    ),
    "there and back at one boundary rebuilds what was discarded in between": (
        START, [migrate(BC_A, MS, 3), migrate(AB_C, MS, 3)], {"rebuilds": (lacking("a.b"),)},
    ),
    "parallel track lets the old track end and rebuilds nothing": (
        START, [migrate(BC_A, PT, 3)],
        {
            "ending": (Track("q", AB_C, 0, LOW, 0, 3),),
            "began": {"q": {0: HIGH, 3: LOW}},
            "rebuilds": (),
            "plans": {"q": (BC_A, AB_C)},
        },
    ),
    "parallel tracks form a chain": (
        START, [migrate(BC_A, PT, 3), run, migrate(AC_B, PT, 5)],
        {
            "ending": (Track("q", AB_C, 0, LOW, 0, 3), Track("q", BC_A, 0, LOW, 3, 5)),
            "began": {"q": {0: HIGH, 5: LOW}},
        },
    ),
    "a second parallel track at one boundary replaces the first, which never ran": (
        START, [migrate(BC_A, PT, 3), migrate(AC_B, PT, 3)],
        {
            "ending": (Track("q", AB_C, 0, LOW, 0, 3),),
            "began": {"q": {0: HIGH, 3: LOW}},
            "plans": {"q": (AC_B, AB_C)},
        },
    ),
    "moving state after parallel track concerns the newest track only": (
        START, [migrate(BC_A, PT, 3), run, migrate(AC_B, MS, 5)],
        {
            "ending": (Track("q", AB_C, 0, LOW, 0, 3),),
            "rebuilds": (lacking("a.c", since=3),),
            "began": {"q": {0: HIGH, 3: LOW}},
        },
    ),
    "parallel track after moving state leaves the rebuilding to the track that ends": (
        START, [migrate(BC_A, MS, 3), migrate(AC_B, PT, 3)],
        {"ending": (Track("q", BC_A, 0, LOW, 0, 3),), "rebuilds": (lacking("b.c"),)},
    ),
    "a move by moving state between equal plans costs nothing": (
        START, [move(MS, 3)], {"rebuilds": (), "ending": (), "began": {}},
    ),
    "a move by moving state takes the plan of the target": (
        MIXED, [move(MS, 3)], {"rebuilds": (lacking("b.c"),), "ending": ()},
    ),
    "a move by parallel track ends at the site it leaves": (
        MIXED, [move(PT, 3)],
        {"ending": (Track("q", AB_C, 0, LOW, 0, 3),), "began": {"q": {0: HIGH, 3: LOW}}, "rebuilds": ()},
    ),
    "a move by parallel track between equal plans is a parallel track too": (
        START, [move(PT, 3)], {"ending": (Track("q", AB_C, 0, LOW, 0, 3),)},
    ),
    "there and back by parallel track": (
        MIXED, [move(PT, 3), run, move(PT, 4, source=1, target=0)],
        {
            "ending": (
                Track("q", AB_C, 0, LOW, 0, 3),
                Track("q", BC_A, 1, LOW, 3, 4),
                Track("q", BC_A, 1, HIGH, 0, 4),
            ),
            "began": {"q": {4: EVERY}},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_leaves_exactly(name: str) -> None:
    tracks, changes, expected = CASES[name]
    if name.startswith("there and back by"):  # all of site 1's partitions, those that came included
        here, there = PartitionMap((1,) * PARTITIONS, 2), PartitionMap((0,) * PARTITIONS, 2)
        changes = [*changes[:2], lambda t: t.moved(here, there, PT, 4)]
    for change in changes:
        tracks = change(tracks)
    for attribute, value in expected.items():
        found = getattr(tracks, attribute)
        if attribute == "ending":
            assert set(found) == set(value)  # type: ignore[call-overload]
            assert len(found) == len(value)  # type: ignore[arg-type]
        else:
            assert found == value
    assert Tracks.from_json(json.loads(json.dumps(tracks.to_json()))) == tracks


def test_only_the_partitions_that_move_are_rebuilt() -> None:
    few = TWO.moved({0: 1, 5: 1})
    assert MIXED.moved(TWO, few, MS, 3).rebuilds == (lacking("b.c", partitions=PartitionSet.of([0, 5])),)


def test_a_pending_rebuild_is_split_when_part_of_its_partitions_moves_on() -> None:
    pending = migrate(BC_A, MS, 3)(Tracks({"q": (AB_C, AC_B)}))
    moved = pending.moved(TWO, TWO.moved({0: 1}), MS, 3)
    assert set(moved.rebuilds) == {
        lacking("b.c", partitions=LOW - FIRST),
        lacking("a.c", partitions=FIRST),
    }


def test_a_new_site_takes_the_plan_of_the_first_partition_it_gets() -> None:
    four = TWO.rescaled(4)
    grown = MIXED.moved(TWO, four, MS, 3)
    first = {site: four.site_of_partition.index(site) for site in range(4)}
    assert grown.plans["q"] == tuple(MIXED.plans["q"][TWO.site_of_partition[p]] for _, p in first.items())
    # Whoever comes from a site with that plan needs nothing; the others rebuild.
    for rebuild in grown.rebuilds:
        (states,) = rebuild.states
        for p in range(PARTITIONS):
            if p in rebuild.partitions:
                assert (
                    states
                    in {"((a b) c)": "a.b", "((b c) a)": "b.c"}[grown.plans["q"][four.site_of_partition[p]]]
                )


@pytest.mark.parametrize("strategy", [MS, PT])
def test_fewer_sites_take_the_ending_tracks_of_those_that_go(strategy: Strategy) -> None:
    four = TWO.rescaled(4)
    tracks = Tracks({"q": (AB_C, BC_A, AC_B, AB_C)})
    tracks = tracks.moved(four, four.moved(dict.fromkeys(range(PARTITIONS), 3)), PT, 3)
    assert {t.site for t in tracks.ending} == {0, 1, 2}
    all_at_3 = PartitionMap((3,) * PARTITIONS, 4)
    shrunk = tracks.moved(all_at_3, all_at_3.rescaled(2), strategy, 4)
    assert {t.site for t in shrunk.ending} <= {0, 1}
    assert len(shrunk.plans["q"]) == 2
    covered = union(t.partitions for t in shrunk.ending if t.until == 3)
    gone = four.partitions_of(3)
    assert covered == EVERY - gone, "nothing of what was ending is lost"


def test_an_ended_track_is_told_apart_from_those_that_go_on() -> None:
    tracks = migrate(AC_B, PT, 5)(run(migrate(BC_A, PT, 3)(START)))
    left, ended = tracks.without_ended(lambda t: t.until == 3)
    assert [t.until for t in ended] == [3]
    assert [t.until for t in left.ending] == [5]
    assert left.began == tracks.began


def test_a_track_sees_only_its_own_rows_where_an_older_one_still_works() -> None:
    tracks = START.moved(TWO, TWO.moved({0: 1}), PT, 3)
    tracks = replace(tracks, began={"q": {3: EVERY}})
    (part, shared), (rest, alone) = tracks.split(Track("q", AB_C, 1, EVERY, 3))
    assert (part.partitions, shared) == (FIRST, True)
    assert (rest.partitions, alone) == (EVERY - FIRST, False)


def test_a_removed_query_leaves_nothing_behind_and_a_new_one_starts_with_its_plan() -> None:
    two = Tracks({"q": (AB_C, AB_C), "r": (AB_C, AB_C)})
    two = migrate(BC_A, PT, 3)(two).migrated(Migration("r", 0, BC_A, PT), LOW, 3)
    two = two.migrated(Migration("r", 1, BC_A, MS), HIGH, 3)
    left = two.for_queries({"q": AB_C, "new": AC_B}, 2)
    assert set(left.plans) == {"q", "new"}
    assert left.plans["q"] == (BC_A, AB_C), "what a query has become stays"
    assert left.plans["new"] == (AC_B, AC_B)
    assert {t.query for t in left.ending} == {"q"}
    assert not left.rebuilds
    assert "r" not in left.began
    assert left.newest("new", 0, LOW) == [Track("new", AC_B, 0, LOW, 0)]


def test_events_tell_what_begins_what_has_ended_and_what_is_rebuilt() -> None:
    after = migrate(BC_A, PT, 3)(START).migrated(Migration("q", 1, AC_B, MS), HIGH, 3)
    told = [e.message for e in track_events(2, START, after, [Track("q", AB_C, 0, LOW, 0, 1)])]
    assert any("works until its rows have left the windows" in m and AB_C in m for m in told)
    assert any("2 batches after the new track began" in m for m in told)
    assert any("a.c" in m and "128 partitions" in m for m in told)


# --- any sequence of changes ----------------------------------------------------------------------

PLANS = [AB_C, BC_A, AC_B, "(c (a b))"]
QUERIES = ["q", "r"]

CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("migrate"),
            st.sampled_from(QUERIES),
            st.integers(0, 6),
            st.sampled_from(PLANS),
            st.sampled_from([MS, PT]),
        ),
        st.tuples(
            st.just("move"),
            st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, 6), max_size=6),
            st.sampled_from([MS, PT]),
        ),
        st.tuples(st.just("rescale"), st.integers(1, 6), st.sampled_from([MS, PT])),
        st.tuples(st.just("batch")),
        st.tuples(st.just("end"), st.integers(0, 12)),
        st.tuples(st.just("remove"), st.sampled_from(QUERIES)),
        st.tuples(st.just("restart")),
    ),
    max_size=14,
)


def check(tracks: Tracks, at: PartitionMap, forgotten: int) -> None:
    """Per query and partition the intervals of its tracks follow one another, and the last has no end."""
    for query, plans in tracks.plans.items():
        assert len(plans) == at.sites
        intervals: list[list[tuple[int, int | None]]] = [[] for _ in range(PARTITIONS)]
        newest = [t for site in range(at.sites) for t in tracks.newest(query, site, at.partitions_of(site))]
        running = [*newest, *(t for t in tracks.ending if t.query == query)]
        for track in running:
            assert 0 <= track.site < at.sites, "a track at a site that is not there would never run"
            for p in range(PARTITIONS):
                if p in track.partitions:
                    intervals[p].append((track.since, track.until))
        for p, found in enumerate(intervals):
            found.sort(key=lambda interval: interval[0])
            assert [until for _, until in found].count(None) == 1, f"partition {p}: one newest track"
            for (_, until), (since, _) in pairwise(found):
                assert until == since, f"partition {p}: {found} leaves a gap or overlaps"
            assert found[0][0] <= forgotten, f"partition {p}: results since {forgotten} belong to nobody"
            assert found[-1][1] is None
        for track in running:
            for rebuild in tracks.lacking(track):
                assert rebuild.states
                assert not rebuild.partitions - track.partitions
        mine = [r for r in tracks.rebuilds if r.query == query]
        for i, one in enumerate(mine):
            assert one.partitions & union(t.partitions for t in running if t.since == one.since)
            for other in mine[i + 1 :]:
                assert one.since != other.since or not one.partitions & other.partitions, "rebuilt twice"


@given(CHANGES)
def test_tracks_of_a_partition_never_overlap_and_never_leave_a_gap(changes: list[tuple[object, ...]]) -> None:
    at, batch, forgotten = TWO, 1, 0
    tracks = Tracks(dict.fromkeys(QUERIES, (AB_C,) * 2))
    for kind, *what in changes:
        if kind == "migrate":
            query, site, plan, strategy = what
            site = int(site) % at.sites  # type: ignore[call-overload]
            if query in tracks.plans:
                change = Migration(query, site, plan, strategy)  # type: ignore[arg-type]
                tracks = tracks.migrated(change, at.partitions_of(site), batch)
        elif kind == "move":
            moves = {p: s % at.sites for p, s in what[0].items()}  # type: ignore[attr-defined]
            after = at.moved(moves)
            tracks, at = tracks.moved(at, after, what[1], batch), after  # type: ignore[arg-type]
        elif kind == "rescale":
            after = at.rescaled(what[0])  # type: ignore[arg-type]
            tracks, at = tracks.moved(at, after, what[1], batch), after  # type: ignore[arg-type]
        elif kind == "batch":
            tracks, batch = tracks.rebuilt(), batch + 1
        elif kind == "end":
            # All tracks that end by some batch are over: their rows are the oldest.
            forgotten = max(forgotten, min(what[0], batch))  # type: ignore[call-overload]
            tracks, _ = tracks.without_ended(lambda t: t.until is not None and t.until <= forgotten)  # noqa: B023
        elif kind == "remove":
            tracks = tracks.for_queries({q: AB_C for q in tracks.plans if q != what[0]}, at.sites)
        else:
            tracks = Tracks.from_json(json.loads(json.dumps(tracks.to_json())))
        check(tracks, at, forgotten)
