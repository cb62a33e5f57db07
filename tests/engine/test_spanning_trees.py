"""Joins with cycles: any spanning tree gives the same results, at any boundary; a cheap one is taken."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from anabranch.adapt.boundary.boundary_state import BoundaryState
from anabranch.adapt.boundary.decider import AdaptiveDecider
from anabranch.adapt.boundary.decisions import Decisions
from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.events import EventKind
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import bind_query
from anabranch.plan.stations.spanning_trees import ends_of, spanning_trees
from anabranch.testing.stream_model import accepted_rows, expected_rows, scratch
from tests.engine.stations import KEYS, STREAMS, any_way, names_of, random_batches
from tests.support.generated import Batch
from tests.support.oracle_check import check_rows

SECOND_US = 1_000_000
TRIANGLE = (
    "SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], "
    "c [RANGE 2 SECONDS] WHERE a.u = b.u AND b.v = c.v AND c.w = a.w"
)


class AnyTree(AdaptiveDecider):
    """Wants another spanning tree after every step, for no reason at all, or none."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def decide(self, state: BoundaryState, observed: Observed) -> tuple[BoundaryState, Decisions]:
        state, decisions = super().decide(state, observed)
        draw = random.Random(f"{self._seed} {observed.batch} {observed.step}")
        trees = {
            join.query: ends_of(draw.choice(list(spanning_trees(join.graph))))
            for join in observed.cyclic
            if draw.random() < 0.8
        }
        on_way = {join.query: True for join in observed.cyclic if draw.random() < 0.8}
        return state, replace(decisions, trees=trees, orderings=on_way)


def random_cycle(draw: random.Random, references: int) -> str:
    """A ring of references, sometimes with a chord, sometimes on one key in part, and other predicates."""
    names = "abcde"[:references]
    ring = [(left, names[(i + 1) % references]) for i, left in enumerate(names)]
    if references > 3 and draw.random() < 0.5:
        ring.append((names[0], names[2]))
    predicates = [f"{left}.{draw.choice(KEYS)} = {right}.{draw.choice(KEYS)}" for left, right in ring]
    if draw.random() < 0.4:
        predicates.append(f"{names[0]}.id < {names[-1]}.id")
    windows = ", ".join(f"{name} [RANGE {draw.choice((1, 2, 4))} SECONDS]" for name in names)
    columns = ", ".join(f"{name}.id AS {name}" for name in names)
    return f"SELECT {columns} FROM {windows} WHERE {' AND '.join(predicates)}"


def check_session(seed: int) -> tuple[int, int]:
    """Run cycles with a restart; returns results, and how often stations were laid out anew."""
    draw = random.Random(f"{seed} cycles")
    texts = {f"q{i}": random_cycle(draw, draw.choice((3, 3, 4))) for i in range(2)}
    queries = [bind_query(name, text, names_of(STREAMS)) for name, text in texts.items()]
    batches = random_batches(draw, 8, keys=4)
    settings = Settings(
        sites=draw.choice((2, 5)),
        slots=draw.choice((1, 2)),
        ordering=draw.choice(("auto", "eddy")),
        max_blocks=draw.choice((1, 8)),
        routing="hash",
    )
    decider, laid = AnyTree(seed), set[tuple[str, int]]()
    with scratch() as root, any_way(seed):
        run = LocalRun(root, STREAMS, queries, settings=settings, decider=decider)
        sinks = run.sinks
        for number, batch in enumerate(batches):
            if number == 4:
                run.close()
                run = LocalRun(root, STREAMS, queries, sinks=sinks, settings=settings, decider=decider)
            run.batch(batch)
            laid |= {(r.query.name, r.laid) for r in run.loop.layout.queries if r.tree and r.laid}
        run.end_of_input()
        results = {query.name: run.results(query.name) for query in queries}
        assert not run.loop.failures
        run.close()
    models = accepted_rows(STREAMS, batches)
    for query in queries:
        tables = {name: model.rows_for(query) for name, model in models.items()}
        expected = expected_rows(query, STREAMS, tables)
        check_rows(results[query.name], expected, what=f"seed {seed}: {query.text}")
    return sum(table.num_rows for table in results.values()), len(laid)


def test_cycles_give_what_the_oracle_gives_whatever_spanning_tree_they_have() -> None:
    results, changes = zip(*map(check_session, (0, 2, 3, 5, 6, 7)), strict=True)
    assert sum(results) > 100
    assert sum(changes) >= 10


@pytest.mark.slow
def test_hundreds_of_cycles_change_their_trees() -> None:
    for seed in range(1_000, 1_300):
        check_session(seed)


def rows_of(batch: int, rows: int, values: dict[str, int]) -> Batch:
    """Rows of one second, each key with so many values."""
    draw = np.random.default_rng(batch)
    columns = {name: draw.integers(0, most, rows) for name, most in {"id": 1000, **values}.items()}
    times = pa.array(batch * SECOND_US + draw.integers(0, SECOND_US, rows), pa.timestamp("us"))
    return {
        s.name: pa.table({k: draw.permutation(v) for k, v in columns.items()} | {"ts": times})
        for s in STREAMS
    }


@pytest.mark.parametrize("ordering", ["auto", "eddy"])
def test_a_tree_with_the_edge_of_few_pairs_is_taken_once_that_is_seen(ordering: str) -> None:
    """At first b–c, whose key has many values, is no edge: nothing is known then."""
    query = bind_query("q", TRIANGLE, names_of(STREAMS))
    batches = [rows_of(i, 300, {"u": 10, "v": 1_000, "w": 40}) for i in range(16)]
    edges, told = [], []
    with scratch() as root:
        settings = Settings(sites=4, slots=1, ordering=ordering, rebalance="off")
        run = LocalRun(root, STREAMS, [query], settings=settings)
        for batch in batches:
            tree = run.loop.layout.queries[0].tree
            edges.append(None if tree is None else [str(edge) for edge in tree.edges])
            events = run.batch(batch).events
            told += [e for e in events if e.kind is EventKind.ORDER_CHANGED and "edges" in e.data]
        found = run.results("q")
        assert run.restarts == 0
        run.close()
    assert edges[0] == ["a–b", "a–c"]
    assert edges[-1] == ["a–c", "b–c"]
    assert edges.count(None) == 1, "on its way it is a join tree for a step"
    assert [e.data["edges"] for e in told] == [["a–c", "b–c"]]
    models = accepted_rows(STREAMS, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    check_rows(found, expected_rows(query, STREAMS, tables), what=TRIANGLE)
