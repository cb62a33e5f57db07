"""Tables of nodes: every node has its line, and a further one needs no more than that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from anabranch.exchange.address import PARTITIONS
from anabranch.operators import kept_states, plan_operator
from anabranch.operators.join.sources.ending_rows import with_an_old_row
from anabranch.operators.join.sources.row_source import Meeting, SiteRows, Way
from anabranch.operators.plan_operator import Role, StepInput, operator_of
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import WorkMemory
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.nodes import JoinNode, LeafNode, Operand, ProbeNode
from tests.operators.test_window_join import leaf_rows
from tests.plan.queries import plan_of, query

THREE = query("a.k = b.k AND b.k = c.k")
PLANS = ["((a b) c)", "(a (b c))", "[a b c, b c a, c b a]"]
Times = dict[str, list[int]]


def given(
    plan: LocalPlan, new: Times, kept: Times, results: list[pa.Table], old: Times | None = None
) -> StepInput:
    """What a site has: times of new rows, kept rows, and kept rows that a track that ends calls old."""
    leaves = {n.aliases[0]: n for n in plan.nodes() if isinstance(n, LeafNode)}
    held: dict[str, list[RowSet]] = {leaves[a].state: [leaf_rows(leaves[a], t)] for a, t in kept.items()}
    for alias, times in (old or {}).items():
        held.setdefault(leaves[alias].state, []).append(leaf_rows(leaves[alias], times).as_old())
    return StepInput(
        SiteRows({leaves[a].input: leaf_rows(leaves[a], t) for a, t in new.items()}, held),
        emit=results.append,
        quota=1_000,
        memory=WorkMemory("q"),
        owned=np.ones(PARTITIONS, dtype=bool),
        choose=lambda options, vectors: [0] * vectors,
    )


def found(plan: LocalPlan, role: Role = Role.RUNS, **rows: Any) -> int:
    """How many results there are."""
    results: list[pa.Table] = []
    operator_of(plan, replace(given(plan, results=results, **rows), role=role)).run()
    return sum(table.num_rows for table in results)


def test_every_node_has_its_line() -> None:
    assert plan_operator.OPERATORS.keys() == set(get_args(get_type_hints(LocalPlan)["root"]))
    assert kept_states.KEEPS.keys() == {*get_args(Operand), WindowNode}
    assert {root for root, _ in plan_operator.SOURCES} == {JoinNode, ProbeNode}


@pytest.mark.parametrize("text", PLANS)
def test_rows_that_were_there_meet_only_with_new_ones(text: str) -> None:
    """All rows have one key, and times inside every window: results are combinations with a new row."""
    kept = {"a": [0, 0], "b": [0, 0, 0], "c": [0]}
    plan = plan_of(THREE, text)
    if not isinstance(plan.root, ProbeNode):  # a tree would read its intermediate state, too
        kept = {"a" if "(b c)" in text else "c": [0, 0]}
    assert not found(plan, new={}, kept=kept)
    new = {"a": [0], "b": [0, 0], "c": [0, 0, 0]}
    before = [len(kept.get(alias, ())) for alias in "abc"]
    after = [old + len(new[alias]) for old, alias in zip(before, "abc", strict=True)]
    assert found(plan, new=new, kept=kept) == np.prod(after) - np.prod(before)


def test_split_keys_start_from_origins_only() -> None:
    plan = plan_of(THREE, PLANS[2])
    results: list[pa.Table] = []
    input_of = {n.aliases[0]: n.input for n in plan.nodes() if isinstance(n, LeafNode)}
    site = given(plan, {"a": [0, 0], "b": [0] * 3, "c": [0] * 5}, {"a": [0], "b": [0], "c": [0]}, results)
    origins = {input_of["b"]: site.rows.arrived[input_of["b"]]}
    operator_of(plan, replace(site, role=Role.SPLITS, origins=origins)).run()
    assert sum(t.num_rows for t in results) == 3 * 1 * (5 + 1)  # of `a`, which ranks before, what is kept


def test_a_probing_plan_that_ends_finds_results_with_an_old_row() -> None:
    plan = plan_of(THREE, PLANS[2])
    rows = {"new": {"a": [0], "b": [0], "c": [0]}, "kept": {"a": [0], "b": [0], "c": [0]}, "old": {"a": [0]}}
    assert found(plan, Role.ENDS, **rows) == 1 * 2 * 2 - 1  # old `a`, and the others not both kept


def test_in_a_track_that_ends_new_rows_meet_old_ones() -> None:
    leaf = next(n for n in plan_of(THREE).nodes() if isinstance(n, LeafNode))
    new, old = leaf_rows(leaf, [0]), leaf_rows(leaf, [0]).as_old()
    for one, met in ((new, [old]), (old, [new, old])):
        assert list(with_an_old_row(Meeting(one, [new, old], new_is_left=True)).others) == met


@dataclass(frozen=True, slots=True)
class LookupNode:
    """A join whose left side looks the right one up: rows of the right that come later do not find it."""

    join: JoinNode

    def nodes(self) -> Iterator[Operand]:
        yield from self.join.sides


@dataclass(frozen=True, slots=True)
class LookupRows:
    rows: SiteRows

    def ways(self, node: LookupNode) -> Iterator[Way]:
        left, right = node.join.sides
        others = *self.rows.kept(right), *self.rows.new(right)
        yield Way(node.join, (Meeting(new, others, new_is_left=True) for new in self.rows.new(left)))


def test_a_further_node_is_a_line_in_two_tables() -> None:
    plan = plan_of(query("a.k = b.k", number=2))
    assert isinstance(plan.root, JoinNode)
    lookup = replace(plan, root=LookupNode(plan.root))  # type: ignore[arg-type]
    with (
        mock.patch.dict(plan_operator.OPERATORS, {LookupNode: plan_operator.OPERATORS[JoinNode]}),
        mock.patch.dict(
            plan_operator.SOURCES,
            {(LookupNode, Role.RUNS): lambda evaluator, plan, given: LookupRows(given.rows)},
        ),
    ):
        assert found(lookup, new={"b": [0]}, kept={"a": [0]}) == 0
        assert found(lookup, new={"a": [0], "b": [0]}, kept={"a": [0], "b": [0, 0]}) == 3
    assert [kept.state for kept in kept_states.kept_states(lookup)] == [
        side.state for side in plan.root.sides
    ]
