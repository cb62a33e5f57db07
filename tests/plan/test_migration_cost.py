"""What a change of plans costs: which states, how long, how much, which strategy."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.plan.cost.estimates import Estimates, JoinStatistics
from anabranch.plan.cost.migration_cost import (
    MigrationCost,
    Preference,
    PurgeRule,
    Strategy,
    changed_joins,
    choose,
    match_states,
    moving_state_cost,
    parallel_track_cost,
    parallel_track_duration,
)
from anabranch.plan.cost.plan_cost import UnitCosts, plan_cost
from anabranch.plan.cost.relocation_cost import Relocation, moving_state_relocation, parallel_track_relocation
from anabranch.plan.graph import JoinGraph
from anabranch.plan.tree import joins, parse_plan
from tests.plan.every_plan import every_plan
from tests.plan.statistics import graph, random_statistics, statistics

ONE_KEY = graph("abcd", ["abcd"])
OLD, NEW = parse_plan("(((a b) c) d)"), parse_plan("(((b c) d) a)")
"""Figure 4 of CAPE."""
COSTS = UnitCosts()


def names(states: tuple[frozenset[str], ...]) -> list[str]:
    return ["".join(sorted(s)) for s in states]


STATES = {
    "figure 5": ("(((a b) c) d)", "(((b c) d) a)", ["bc", "bcd"], ["ab", "abc"]),
    "only the upper half changes": ("(((a b) c) d)", "(((a b) d) c)", ["abd"], ["abc"]),
    "only the lower half changes": ("(((a b) c) d)", "(((b c) a) d)", ["bc"], ["ab"]),
    "a matched state above an unmatched one": ("(((a b) c) d)", "((a (b c)) d)", ["bc"], ["ab"]),
    "left-deep to bushy": ("(((a b) c) d)", "((a b) (c d))", ["cd"], ["abc"]),
    "mirror image": ("(((a b) c) d)", "(d (c (b a)))", [], []),
}


@pytest.mark.parametrize(("old", "new", "recomputed", "discarded"), STATES.values(), ids=STATES.keys())
def test_states_are_matched_by_the_references_they_cover(
    old: str, new: str, recomputed: list[str], discarded: list[str]
) -> None:
    found = match_states(parse_plan(old), parse_plan(new))
    assert (names(found.recomputed), names(found.discarded)) == (recomputed, discarded)
    assert {"a", "b", "c", "d"} <= set(names(found.matched))


@given(st.sampled_from(list(every_plan(ONE_KEY))), st.sampled_from(list(every_plan(ONE_KEY))))
def test_every_state_can_be_recomputed_from_those_before_it(old, new) -> None:
    found = match_states(old, new)
    there = set(found.matched)
    sides = {frozenset(j.aliases): (j.left.aliases, j.right.aliases) for j in joins(new)}
    for state in found.recomputed:
        assert {frozenset(side) for side in sides[state]} <= there
        there.add(state)
    assert there == {frozenset(j.aliases) for j in joins(new) if j is not new} | set(map(frozenset, "abcd"))


def test_plans_of_different_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="different references"):
        match_states(parse_plan("(a b)"), parse_plan("(a c)"))


def test_joins_change_with_either_of_their_sides() -> None:
    old, new = parse_plan("(((a b) c) d)"), parse_plan("((a (b c)) d)")
    assert [str(j) for j in changed_joins(old, new)] == ["(b c)", "(a (b c))"]
    assert [str(j) for j in changed_joins(new, old)] == ["(a b)", "((a b) c)"]


def moving(known: JoinStatistics, asked=ONE_KEY, old=OLD, new=NEW, costs=COSTS) -> MigrationCost:
    return moving_state_cost(old, new, graph=asked, statistics=known, costs=costs)


def parallel(known: JoinStatistics, asked=ONE_KEY, old=OLD, new=NEW, costs=COSTS, **how) -> MigrationCost:
    return parallel_track_cost(old, new, graph=asked, statistics=known, costs=costs, **how)


def test_recomputing_a_state_costs_what_equation_1_says() -> None:
    """Without keys, as in the paper: nested loops. Gathering and probing are ours and set to nothing."""
    asked = graph("abcd", [], ["ab", "bc", "cd"])
    units = UnitCosts(probe_s=0.0, pair_s=3e-6, insert_s=5e-6, gather_s=0.0)
    rate, window, sigma = 20.0, 4.0, 0.05
    known = statistics(asked, rate=rate, window_s=window, selectivity=sigma)
    rows = rate * window
    t_bc = rows**2 * (3e-6 + 5e-6 * sigma)
    # Equation 8 has a factor 2 here: its S_BC keeps rows for W after the newer member, ours until the
    # older one expires, so it is half as large.
    t_bcd = rows**3 * (3e-6 * sigma + 5e-6 * sigma**2)
    assert moving(known, asked, costs=units).duration_s == pytest.approx(t_bc + t_bcd)


DURATIONS = {
    "one join, by lemma 2.2": ("(a b)", PurgeRule.LEMMA_2_2, 10.0),
    "joins above joins, by lemma 2.2": ("((a b) c)", PurgeRule.LEMMA_2_2, 20.0),
    "one join, exactly": ("(a b)", PurgeRule.EXACT, 13.0),
    "joins above joins, exactly": ("((a b) c)", PurgeRule.EXACT, 13.0),
}


@pytest.mark.parametrize(("plan", "rule", "seconds"), DURATIONS.values(), ids=DURATIONS.keys())
def test_a_parallel_track_lasts_as_equation_4_says_or_a_window_and_the_lateness(
    plan: str, rule: PurgeRule, seconds: float
) -> None:
    known = statistics(ONE_KEY, window_s=10.0)
    assert parallel_track_duration(parse_plan(plan), known, lateness_s=3.0, rule=rule) == seconds


TABLE_2_SET_3 = {"rate": 1000 / 12, "rates": {"a": 10.0}, "selectivity": 0.1}
"""Inter-arrival times of 12 ms, 100 ms for A; reduction factors 0.1."""
PENTIUM = UnitCosts(probe_s=0.0, pair_s=2e-6, insert_s=4e-6, gather_s=0.0)


def lengths(window_s: float) -> tuple[float, float]:
    """T_MS and T_PT, on joins without keys as the paper's cost model has them."""
    asked = graph("abcd", [], ["ab", "bc", "cd"])
    known = statistics(asked, window_s=window_s, **TABLE_2_SET_3)
    return (
        moving(known, asked, costs=PENTIUM).duration_s,
        parallel(known, asked, costs=PENTIUM, rule=PurgeRule.LEMMA_2_2).duration_s,
    )


def test_moving_state_grows_polynomially_with_the_window_and_parallel_track_linearly() -> None:
    for window in (1.0, 2.0, 4.0, 8.0):
        (ms, pt), (ms_twice, pt_twice) = lengths(window), lengths(2 * window)
        assert pt_twice == pytest.approx(2 * pt)
        assert 4 <= ms_twice / ms <= 8  # between W² and W³: equation 8


def test_moving_state_is_shorter_for_small_windows_and_parallel_track_for_large_ones() -> None:
    """Figure 12: one crossing."""
    shorter = [ms < pt for ms, pt in (lengths(w / 2) for w in range(1, 100))]
    assert shorter[0]
    assert not shorter[-1]
    assert sum(one != other for one, other in pairwise(shorter)) == 1


def test_the_rate_of_one_stream_changes_moving_state_only() -> None:
    """Figure 11."""
    slow, fast = (statistics(ONE_KEY, rates={"b": rate}) for rate in (20.0, 200.0))
    assert moving(fast).duration_s > 2 * moving(slow).duration_s
    assert parallel(fast).duration_s == parallel(slow).duration_s


def test_moving_state_is_silent_and_parallel_track_is_not() -> None:
    known = statistics(ONE_KEY)
    assert moving(known).silence_s == moving(known).duration_s > 0
    assert parallel(known).silence_s == 0


def test_a_mirror_image_costs_nothing() -> None:
    known, mirror = statistics(ONE_KEY), parse_plan("(d (c (b a)))")
    assert moving(known, new=mirror).cost_s == parallel(known, new=mirror).cost_s == 0


def test_both_tracks_together_process_no_more_than_both_plans_would() -> None:
    """Equations 5 and 6: the new box starts empty, so it has less to do."""
    known = statistics(ONE_KEY, window_s=10.0)
    found = parallel(known)
    old, new = (plan_cost(p, Estimates(ONE_KEY, known), COSTS).seconds for p in (OLD, NEW))
    assert max(old, new) * found.duration_s < found.processing_s < (old + new) * found.duration_s
    assert 0 < found.cost_s < found.processing_s


def test_the_second_window_of_the_papers_rule_costs_the_old_track_no_rows() -> None:
    exact, paper = (parallel(statistics(ONE_KEY), rule=rule) for rule in PurgeRule)
    assert paper.duration_s == 2 * exact.duration_s
    assert paper.cost_s == pytest.approx(exact.cost_s)


@pytest.mark.parametrize(
    ("asked", "plan", "shares"),
    [
        # A half with an old row, and a quarter on the way from new rows of a and b to old ones of c.
        pytest.param(graph("abc", ["abc"]), "((a b) c)", (1 / 2 + 1 / 4, 2 / 3), id="probing"),
        pytest.param(ONE_KEY, "(((a b) c) d)", (1, 1, 3 / 4), id="new rows are kept"),
    ],
)
def test_an_old_track_makes_results_with_an_old_row_and_what_it_needs_to_find_them(
    asked: JoinGraph, plan: str, shares: tuple[float, ...]
) -> None:
    known, only_pairs, tree = statistics(asked), UnitCosts(0.0, 1.0, 0.0, 0.0, 0.0), parse_plan(plan)
    nodes = plan_cost(tree, Estimates(asked, known), only_pairs).nodes
    pairs = [node.work.pairs for node in nodes if node.work.pairs]
    everything = Relocation(tree, tree, share=1.0)
    leaving = parallel_track_relocation(everything, graph=asked, statistics=known, costs=only_pairs)
    assert leaving.sender_s == pytest.approx(10.0 * sum(p * s for p, s in zip(pairs, shares, strict=True)))


def test_large_states_left_by_rates_that_fell_favour_the_parallel_track() -> None:
    before = statistics(ONE_KEY, rate=100.0, window_s=60.0)
    after = statistics(ONE_KEY, rate=1.0, window_s=60.0, rows=dict.fromkeys("abcd", 6000.0), selectivity=0.01)
    assert parallel(after).cost_s / moving(after).cost_s < parallel(before).cost_s / moving(before).cost_s
    assert choose(moving(after), parallel(after), Preference.AUTO) == parallel(after)


def test_an_unbounded_window_cannot_wait_for_old_rows_to_go() -> None:
    rows = dict.fromkeys("abcd", 100.0)
    known = JoinStatistics(
        dict.fromkeys("abcd", 1.0),
        dict.fromkeys("abcd", math.inf),
        statistics(ONE_KEY).selectivities,
        rows,
    )
    assert not parallel(known).feasible
    assert choose(moving(known), parallel(known), Preference.AUTO) == moving(known)
    assert choose(moving(known), parallel(known), Preference.PARALLEL_TRACK) is None


def cost(strategy: Strategy, seconds: float) -> MigrationCost:
    return MigrationCost(strategy, 1.0, 0.0, seconds, seconds)


CHOICES = {
    "the cheaper: moving": (Preference.AUTO, 1.0, 2.0, Strategy.MOVING_STATE),
    "the cheaper: parallel": (Preference.AUTO, 2.0, 1.0, Strategy.PARALLEL_TRACK),
    "moving, whatever it costs": (Preference.MOVING_STATE, 2.0, 1.0, Strategy.MOVING_STATE),
    "parallel, whatever it costs": (Preference.PARALLEL_TRACK, 1.0, 2.0, Strategy.PARALLEL_TRACK),
}


@pytest.mark.parametrize(("preference", "ms", "pt", "strategy"), CHOICES.values(), ids=CHOICES.keys())
def test_the_strategy_is_the_cheaper_or_the_one_asked_for(preference, ms, pt, strategy) -> None:
    chosen = choose(cost(Strategy.MOVING_STATE, ms), cost(Strategy.PARALLEL_TRACK, pt), preference)
    assert chosen is not None
    assert chosen.strategy is strategy


def test_no_strategy_when_it_is_off() -> None:
    assert choose(cost(Strategy.MOVING_STATE, 1), cost(Strategy.PARALLEL_TRACK, 1), Preference.OFF) is None


@given(st.data())
def test_costs_are_finite_and_no_more_than_what_is_processed(data: st.DataObject) -> None:
    known = data.draw(random_statistics(ONE_KEY))
    plans = st.sampled_from(list(every_plan(ONE_KEY)))
    old, new = data.draw(plans), data.draw(plans)
    for found in (moving(known, old=old, new=new), parallel(known, old=old, new=new)):
        assert found.feasible
        assert found.processing_s >= max(0.0, found.cost_s)


# --- partitions between sites: D-CAPE ---

THREE = graph("abc", ["abc"])


def relocation(**changes) -> Relocation:
    return Relocation(parse_plan("((a b) c)"), parse_plan("(a (b c))"), **{"share": 0.2} | changes)


def both(known: JoinStatistics, move: Relocation):
    return (
        moving_state_relocation(move, graph=THREE, statistics=known, costs=COSTS),
        parallel_track_relocation(move, graph=THREE, statistics=known, costs=COSTS, rule=PurgeRule.LEMMA_2_2),
    )


def test_parallel_track_burdens_the_sender_and_moving_state_relieves_it() -> None:
    mslb, ptlb = both(statistics(THREE), relocation())
    assert mslb.sender_s == 0 < ptlb.sender_s
    assert mslb.receiver_s > 0 >= ptlb.receiver_s


def test_equal_plans_at_both_sites_recompute_nothing() -> None:
    same = Relocation(parse_plan("((a b) c)"), parse_plan("(c (b a))"), 0.2)
    mslb, _ = both(statistics(THREE), same)
    assert (mslb.sender_s, mslb.receiver_s) == (0, 0)


def test_copying_state_costs_both_sites() -> None:
    shared, _ = both(statistics(THREE), relocation())
    copied, _ = both(statistics(THREE), relocation(copy_row_s=1e-6))
    assert copied.sender_s > shared.sender_s == 0
    assert copied.receiver_s > shared.receiver_s


def test_twice_the_share_costs_twice() -> None:
    for small, large in zip(
        both(statistics(THREE), relocation(share=0.1)),
        both(statistics(THREE), relocation(share=0.2)),
        strict=True,
    ):
        assert large.sender_s == pytest.approx(2 * small.sender_s)
        assert large.receiver_s == pytest.approx(2 * small.receiver_s)


@pytest.mark.parametrize("rows", [1000.0, 4000.0], ids=["steady", "rates have fallen"])
def test_one_join_on_two_tracks_by_equations_5_to_7(rows: float) -> None:
    """100 rows/s, W = 10 s: the sender's pairs fade as the receiver's states fill from empty."""
    asked = graph("ab", ["ab"])
    known = statistics(asked, rate=100.0, window_s=10.0, selectivity=0.1, rows={"a": rows, "b": rows})
    join = parse_plan("(a b)")
    found = parallel_track_relocation(Relocation(join, join, 1.0), graph=asked, statistics=known, costs=COSTS)
    probing = 2 * 100.0 * COSTS.probe_s
    now, later = (2 * 100.0 * n * 0.1 * COSTS.pair_s for n in (rows, 1000.0))
    alone = 10.0 * (probing + (now + later) / 2)
    assert found.sender_s == pytest.approx(10.0 * (probing + (now + later) / 2 / 2))
    assert found.receiver_s == pytest.approx(10.0 * (probing + later / 2) - alone)
