"""Plans change and partitions move in the middle of a join, by hand: every case against the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.errors import ConfigError
from anabranch.exchange.address import PARTITIONS
from anabranch.exchange.partition_set import EVERY
from anabranch.plan.cost.migration_cost import Strategy
from anabranch.plan.logical import Query
from tests.engine.directed_runs import (
    AB_C,
    AB_CD,
    ABC_D,
    AC_B,
    AC_BD,
    BC_A,
    BCD_A,
    LATENESS,
    MS,
    PT,
    STRATEGIES,
    STREAMS,
    TWO_SITES,
    TWO_SLOTS,
    WINDOW,
    Boundary,
    all_to,
    check_directed,
    everywhere,
    joined,
    migration,
    steady_batches,
    swapped,
)
from tests.engine.nasty_runs import bind, rows
from tests.support.generated import Batch

THREE, FOUR = joined("a", "b", "c"), joined("a", "b", "c", "d")
STEADY = steady_batches(9)
EVERY_PARTITION = frozenset(range(PARTITIONS))
SLOTS = [pytest.param(TWO_SITES, id="one slot"), pytest.param(TWO_SLOTS, id="two slots")]


def test_the_steady_batches_make_every_case_mean_something() -> None:
    told = check_directed([THREE], STEADY, {})
    assert all(told.added[1:]), "a batch without results would prove nothing"
    assert sum(told.added) > 300


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("query", "there", "back"),
    [
        pytest.param(THREE, BC_A, AB_C, id="3-way"),
        pytest.param(THREE, AC_B, BC_A, id="3-way, on to a third plan"),
        pytest.param(THREE, "(c (b a))", AB_C, id="3-way, the same states with other sides"),
        pytest.param(FOUR, BCD_A, ABC_D, id="4-way, left-deep"),
        pytest.param(FOUR, AB_CD, ABC_D, id="4-way, one state matches"),
        pytest.param(FOUR, AC_BD, BCD_A, id="4-way, bushy and back"),
    ],
)
def test_a_migration_and_the_way_back_change_no_result(
    query: Query, there: str, back: str, strategy: Strategy
) -> None:
    told = check_directed([query], STEADY, {2: everywhere(there, strategy), 4: everywhere(back, strategy)})
    assert set(told.tracks[-1].plans["q"]) == {back}


def test_moving_state_rebuilds_what_does_not_match_and_nothing_else() -> None:
    same = check_directed([FOUR], STEADY, {3: everywhere("(d ((b a) c))", MS)})
    one = check_directed([FOUR], STEADY, {3: everywhere(AB_CD, MS)})
    both = check_directed([FOUR], STEADY, {3: everywhere(BCD_A, MS)})
    assert same.rebuilt[4] == 0
    assert 0 < one.rebuilt[4] < both.rebuilt[4]
    assert sum(both.rebuilt) == both.rebuilt[4], "only in the batch after the boundary"
    assert not any(both.strays), "what is computed once is no load, by which partitions would move on"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("settings", SLOTS)
@pytest.mark.parametrize("query", [pytest.param(THREE, id="3-way"), pytest.param(FOUR, id="4-way")])
def test_partitions_move_between_sites_with_different_plans(
    query: Query, settings: Settings, strategy: Strategy
) -> None:
    other = BC_A if query is THREE else BCD_A
    boundaries = {0: Boundary((migration(other, MS, site=1),)), 2: swapped(strategy), 4: all_to(0, strategy)}
    told = check_directed([query], STEADY, boundaries, settings=settings)
    if strategy is MS:
        assert told.rebuilt[3]
        assert told.rebuilt[5]
    else:
        first = told.tracks[2].plans["q"][0]
        assert {(t.site, t.plan) for t in told.ending(2)} == {(0, first), (1, other)}


@pytest.mark.parametrize("settings", SLOTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_move_between_sites_with_equal_plans(settings: Settings, strategy: Strategy) -> None:
    told = check_directed([THREE], STEADY, {2: swapped(strategy), 3: swapped(strategy)}, settings=settings)
    assert not any(told.rebuilt)


@pytest.mark.parametrize("first", STRATEGIES)
@pytest.mark.parametrize("second", STRATEGIES)
def test_two_migrations_of_a_site_at_one_boundary(first: Strategy, second: Strategy) -> None:
    for between, last in ((BC_A, AB_C), (BC_A, AC_B), (AB_C, BC_A)):
        twice = Boundary((migration(between, first, site=0), migration(last, second, site=0)))
        check_directed([THREE], STEADY, {2: twice, 5: twice})


def test_a_plan_comes_and_goes_at_every_boundary() -> None:
    plans = [BC_A, AC_B, AB_C]
    for strategies in ([MS], [PT], [MS, PT], [PT, MS, MS]):
        boundaries = {
            n: everywhere(plans[n % 3], strategies[n % len(strategies)]) for n in range(len(STEADY) - 1)
        }
        check_directed([THREE], STEADY, boundaries, settings=TWO_SLOTS)


# --- when a parallel track ends -------------------------------------------------------------------


def one_row_each(count: int, step: int, *, at: dict[int, int] | None = None) -> list[Batch]:
    """One row of every stream a batch, at `step` times its number; `at` puts a batch elsewhere."""
    at = at or {}
    return [{s.name: rows((1, at.get(n, step * n)), first=n) for s in STREAMS} for n in range(count)]


@pytest.mark.parametrize("until", [2, 3, 5])
def test_a_parallel_track_ends_with_the_first_batch_that_puts_its_rows_out_of_reach(until: int) -> None:
    step = 10
    oldest = step * (until - 1)  # max_old_ts_i of every stream
    ends = next(n for n in range(until, 99) if oldest + WINDOW < step * n - LATENESS)
    batches = one_row_each(ends + 3, step)
    told = check_directed([THREE], batches, {until - 1: everywhere(BC_A, PT)})
    running = [bool(tracks.ending) for tracks in told.tracks]
    assert running == [until - 1 <= n < ends for n in range(len(batches))]
    assert step * (ends - until + 1) <= WINDOW + LATENESS + 2 * step, "about W + L after the start"


def test_a_parallel_track_goes_on_while_a_watermark_is_exactly_at_the_bound() -> None:
    # Old rows at 10; a watermark of 10 + W is where a row that is not late still meets them.
    bound = 10 + WINDOW
    batches = one_row_each(7, 10, at={2: 11, 3: bound + LATENESS, 4: bound, 5: bound + LATENESS + 1, 6: 90})
    told = check_directed([THREE], batches, {1: everywhere(BC_A, PT)})
    assert [bool(t.ending) for t in told.tracks] == [False, True, True, True, True, False, False]
    assert told.added[4] > 0


def test_a_parallel_track_waits_for_the_slowest_stream() -> None:
    batches = one_row_each(12, 10)
    for n in range(4, 8):
        batches[n]["c"] = rows()  # c stands still, and its watermark with it
    told = check_directed([THREE], batches, {2: everywhere(BC_A, PT)})
    assert [n for n, t in enumerate(told.tracks) if t.ending] == list(range(2, 8))


@pytest.mark.parametrize("restart", [None, 7, 8, 9], ids=lambda at: f"restart before {at}")
@pytest.mark.parametrize(
    "boundary", [everywhere(BC_A, PT), swapped(PT)], ids=["another plan", "another site"]
)
def test_a_track_that_has_outlived_the_one_before_it_is_like_those_that_were_always_there(
    boundary: Boundary, restart: int | None
) -> None:
    restarts = {} if restart is None else {restart: ([THREE], TWO_SLOTS)}
    told = check_directed([THREE], steady_batches(12), {2: boundary}, settings=TWO_SLOTS, restarts=restarts)
    ended = next(b for b in range(2, 12) if not told.ending(b) and told.ending(b - 1))
    assert told.tracks[ended - 1].began["q"] == {3: EVERY}
    assert not told.tracks[ended + 1].began, "what the older one left has been discarded by then"


def test_a_track_whose_partitions_are_empty_ends_at_once() -> None:
    told = check_directed([THREE], one_row_each(6, 10), {2: everywhere(BC_A, PT)})
    assert len(told.ending(2)) == 1, "all rows have one key: the other site has nothing to wait for"


def test_every_batch_gives_results_while_parallel_tracks_run() -> None:
    undisturbed = check_directed([THREE], STEADY, {})
    for boundaries in (
        {2: everywhere(BC_A, PT)},
        {1: Boundary((migration(BC_A, MS, site=1),)), 2: swapped(PT), 4: swapped(PT)},
    ):
        told = check_directed([THREE], STEADY, boundaries, settings=TWO_SLOTS)
        assert any(t.ending for t in told.tracks)
        assert told.added == undisturbed.added, "no result comes a batch later"


def test_partitions_of_a_join_whose_rows_never_leave_move_with_their_state() -> None:
    for_ever = joined("a", "b", "c", name="for_ever", window=None)
    differ = Boundary(tuple(replace(migration(BC_A, MS, site=1), query=q) for q in ("q", "for_ever")))
    told = check_directed([THREE, for_ever], STEADY, {0: differ, 2: swapped(PT)})
    assert {t.query for n in range(len(STEADY)) for t in told.ending(n)} == {"q"}
    assert not told.tracks[-1].ending


def test_a_parallel_track_of_a_join_whose_rows_never_leave_is_refused(tmp_path: Path) -> None:
    run = LocalRun(tmp_path, STREAMS, [joined("a", "b", "c", window=None)], settings=TWO_SITES)
    with pytest.raises(ConfigError, match=r"would not end.*moving_state"):
        run.loop.migrate("q", BC_A, strategy="parallel_track")
    run.loop.migrate("q", BC_A, strategy="moving_state")
    run.close()


def test_a_plan_for_a_site_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    run = LocalRun(tmp_path, STREAMS, [THREE], settings=TWO_SITES)
    for site in (-1, 2, 99):
        with pytest.raises(ConfigError, match=rf"no site {site}: choose from 0 to 1"):
            run.loop.migrate("q", BC_A, site)
    run.close()


@pytest.mark.parametrize("sites", [1, 4])
def test_a_plan_for_all_sites_is_one_for_those_of_the_next_batch(tmp_path: Path, sites: int) -> None:
    run = LocalRun(tmp_path, STREAMS, [THREE], settings=TWO_SITES)
    run.batch(STEADY[0])
    run.loop.change(sites=sites)
    run.loop.migrate("q", BC_A)
    for batch in STEADY[1:3]:  # plans wait while partitions move
        run.batch(batch)
    assert run.loop.tracks.plans["q"] == (BC_A,) * sites
    run.close()


# --- restarts, queries that come and go, steps without rows ---------------------------------------

PROTOCOLS = [
    pytest.param({2: everywhere(BC_A, MS)}, id="moving state"),
    pytest.param({2: everywhere(BC_A, PT)}, id="parallel track"),
    pytest.param({0: Boundary((migration(BC_A, MS, site=1),)), 2: swapped(MS)}, id="MSLB"),
    pytest.param({0: Boundary((migration(BC_A, MS, site=1),)), 2: swapped(PT)}, id="PTLB"),
    pytest.param({2: everywhere(BC_A, PT), 3: everywhere(AC_B, MS), 4: swapped(PT)}, id="one by one"),
]


@pytest.mark.parametrize("boundaries", PROTOCOLS)
def test_a_restart_between_any_two_batches_of_a_protocol(boundaries: dict[int, Boundary]) -> None:
    for number in range(3, 6):
        check_directed(
            [THREE], STEADY, boundaries, settings=TWO_SLOTS, restarts={number: ([THREE], TWO_SLOTS)}
        )


@pytest.mark.parametrize("boundaries", PROTOCOLS)
@pytest.mark.parametrize("sites", [1, 5])
def test_a_restart_with_another_number_of_sites(boundaries: dict[int, Boundary], sites: int) -> None:
    # Before batch 3 what moving state has to rebuild is still to be done, and not by the same plans.
    for number in (3, 4):
        again = ([THREE], replace(TWO_SLOTS, sites=sites))
        check_directed([THREE], STEADY, boundaries, settings=TWO_SLOTS, restarts={number: again})


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (5, 1), (1, 3)])
def test_sites_come_and_go_while_tracks_end(before: int, after: int, strategy: Strategy) -> None:
    settings = replace(TWO_SLOTS, sites=before)
    boundaries = {
        0: Boundary((migration(BC_A, MS, site=before - 1),)),
        2: all_to(before - 1, PT),
        3: Boundary(sites=after, rebalance=strategy),
        5: Boundary(sites=before, rebalance=strategy),
    }
    check_directed([THREE], STEADY, boundaries, settings=settings)


@pytest.mark.parametrize("boundaries", PROTOCOLS)
def test_a_query_is_removed_and_another_added_while_a_protocol_runs(boundaries: dict[int, Boundary]) -> None:
    other = joined("a", "c", "b", name="other", window=12)
    for number in (3,):
        check_directed(
            [THREE, other],
            STEADY,
            boundaries,
            settings=TWO_SLOTS,
            restarts={number: ([other], TWO_SLOTS)},
            lives={"q": (0, number)},
        )
        check_directed(
            [THREE],
            STEADY,
            boundaries,
            settings=TWO_SLOTS,
            restarts={number: ([THREE, other], TWO_SLOTS)},
            lives={"other": (number, len(STEADY))},
        )


@pytest.mark.parametrize("boundaries", PROTOCOLS)
def test_a_query_that_exceeds_its_quota_ends_alone_while_its_protocol_runs(
    boundaries: dict[int, Boundary],
) -> None:
    few, many = bind(
        STREAMS,
        few=f"SELECT a.id AS a, b.id AS b FROM a [RANGE {WINDOW} MICROSECONDS], b [NOW] WHERE a.k = b.k",
        q="SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 25 MICROSECONDS], "
        "b [RANGE 25 MICROSECONDS], c [RANGE 25 MICROSECONDS] WHERE a.k = b.k AND b.k = c.k",
    )
    batches = list(STEADY)
    batches[4] = {s.name: rows(*((1, 40 + i % 9) for i in range(30)), first=100) for s in STREAMS}
    settings = replace(TWO_SLOTS, quota_pairs=6_000)
    told = check_directed([few, many], batches, boundaries, settings=settings, lives={"q": (0, 4)})
    assert told.added[-1] > 0


@pytest.mark.parametrize("boundaries", PROTOCOLS)
def test_spilled_partitions_take_part_in_a_protocol(boundaries: dict[int, Boundary]) -> None:
    even = frozenset(range(0, PARTITIONS, 2))
    for held in (
        {3: EVERY_PARTITION},
        {3: even, 4: EVERY_PARTITION - even},
        dict.fromkeys(range(1, 7), even),
    ):
        check_directed([THREE], STEADY, boundaries, settings=TWO_SLOTS, spilled=held)


@pytest.mark.parametrize("boundaries", PROTOCOLS)
def test_waiting_rows_are_drained_and_the_input_ends_while_a_protocol_runs(
    boundaries: dict[int, Boundary],
) -> None:
    counts = bind(STREAMS, n="SELECT k, count(*) AS n FROM a [RANGE 9 MICROSECONDS] GROUP BY k")
    for last in (3, 4):
        check_directed(
            [THREE, *counts],
            STEADY[: last + 1],
            boundaries,
            settings=TWO_SLOTS,
            spilled=dict.fromkeys(range(2, last + 1), EVERY_PARTITION),
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plans_change_between_the_steps_that_drain_a_batch(strategy: Strategy) -> None:
    # All rows of the first batches wait; they enter in further steps of batch 2, which change plans too, and
    # a newer track whose elder had no rows at all takes them: what it made in a step is there to be moved.
    for held in (range(3), range(1, 3)):
        told = check_directed(
            [THREE],
            STEADY[:7],
            {2: everywhere(BC_A, PT), 3: everywhere(AC_B, MS)},
            spilled=dict.fromkeys(held, EVERY_PARTITION),
            drained=lambda batch: batch == 2,
            after_steps={2: everywhere(AB_C, strategy)},
        )
        assert told.results["q"].num_rows


def test_a_plan_is_kept_ready_as_long_as_there_is_a_track_for_it(tmp_path: Path) -> None:
    run = LocalRun(tmp_path, STREAMS, [THREE], settings=TWO_SITES)
    for number, batch in enumerate(steady_batches(24)):
        run.loop.migrate("q", (AB_C, BC_A, AC_B)[number % 3], strategy="parallel_track")
        run.batch(batch)
        tracks = run.loop.tracks
        began = tracks.began.get("q", {0: EVERY})
        kept_ready = run.loop._prepared.compiled.compiler._compiled
        assert len(kept_ready) <= 2 * (len(began) + len(tracks.ending)) + 2
    run.close()
