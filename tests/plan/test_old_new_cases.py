"""Figure 6 of CAPE: which track makes which of the 16 old/new combinations of A, B, C, D."""

from __future__ import annotations

from itertools import product

from anabranch.plan.cost.migration_cost import match_states
from anabranch.plan.tree import Leaf, Plan, parse_plan

OLD_PLAN, NEW_PLAN = parse_plan("(((a b) c) d)"), parse_plan("(((b c) d) a)")

Case = frozenset[str]
"""The references whose rows are old: they had arrived when the migration started."""

FIGURE_6 = {
    1: "abcd", 2: "abc", 3: "abd", 4: "acd", 5: "bcd", 6: "ab", 7: "ac", 8: "cd",
    9: "bc", 10: "ad", 11: "bd", 12: "a", 13: "b", 14: "c", 15: "d", 16: "",
}  # fmt: skip
CASES = {number: frozenset(old) for number, old in FIGURE_6.items()}


def made_after_the_start(
    plan: Plan, states: frozenset[frozenset[str]], *, no_new_with_new_at: str = ""
) -> set[Case]:
    """Cases that a plan makes from new rows when only these of its states hold the old ones.

    A symmetric join meets a row that comes out of one side with everything that the other side keeps.
    """

    def comes_out(node: Plan) -> set[Case]:
        if isinstance(node, Leaf):
            return {frozenset()}
        left, right = (comes_out(side) for side in (node.left, node.right))
        pairs = [*product(left, right | kept(node.right)), *product(left | kept(node.left), right)]
        skipped = {frozenset()} if set(node.aliases) == set(no_new_with_new_at) else set()
        return {one | other for one, other in pairs} - skipped

    def kept(node: Plan) -> set[Case]:
        """All-old rows; rows with new members have come out."""
        references = frozenset(node.aliases)
        return {references} if references in states else set()

    return comes_out(plan)


def numbers(cases: set[Case]) -> set[int]:
    return {number for number, case in CASES.items() if case in cases}


def states_of(plan: Plan) -> frozenset[frozenset[str]]:
    return frozenset(match_states(plan, plan).matched)


def test_all_sixteen_cases_are_listed() -> None:
    assert len(set(CASES.values())) == 16


def test_a_plan_with_its_states_makes_everything_but_what_was_made_before() -> None:
    assert numbers(made_after_the_start(OLD_PLAN, states_of(OLD_PLAN))) == set(range(2, 17))


def test_unmatched_states_left_empty_lose_cases() -> None:
    """Section 4.1.2: all that have B and C old; case 1 was made before."""
    moved = frozenset(match_states(OLD_PLAN, NEW_PLAN).matched)
    assert numbers(made_after_the_start(NEW_PLAN, moved)) == set(range(2, 17)) - {2, 5, 9}


def test_recomputing_the_unmatched_states_brings_them_back() -> None:
    found = match_states(OLD_PLAN, NEW_PLAN)
    there = frozenset(found.matched + found.recomputed)
    assert numbers(made_after_the_start(NEW_PLAN, there)) == set(range(2, 17))


def test_every_recomputed_state_is_needed() -> None:
    found = match_states(OLD_PLAN, NEW_PLAN)
    every = frozenset(found.matched + found.recomputed)
    for state in found.recomputed:
        assert numbers(made_after_the_start(NEW_PLAN, every - {state})) != set(range(2, 17))


def test_on_parallel_tracks_the_new_one_makes_case_16_only() -> None:
    """Section 4.2.1: the old track has the others; its root leaves out case 16."""
    assert numbers(made_after_the_start(NEW_PLAN, frozenset())) == {16}


def test_new_rows_are_left_out_at_the_old_root_only() -> None:
    """Section 4.2.2: left out further down, cases 8, 14 and 15 would be lost, which the old track owes."""
    states = states_of(OLD_PLAN)
    at_root = made_after_the_start(OLD_PLAN, states, no_new_with_new_at="abcd")
    below = made_after_the_start(OLD_PLAN, states, no_new_with_new_at="ab")
    assert numbers(at_root) == set(range(2, 16))
    assert numbers(below) == set(range(2, 16)) - {8, 14, 15}
