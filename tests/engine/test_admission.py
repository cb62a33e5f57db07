"""Which rows of a site enter and which wait: in order, within bounds, and none for long."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from anabranch.adapt.memory.site_budgets import RowBudget
from anabranch.engine.task.arrival.admission import ARRIVAL, LONGEST_WAIT, Admission, admit
from anabranch.exchange.address import PARTITION_BITS, PARTITIONS
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME

HERE = np.zeros(PARTITIONS, dtype=np.int32)
BATCH = 20

Row = tuple[int, int]
"""Partition and time."""


def row_set(rows: list[Row], arrivals: list[int] | None = None) -> RowSet:
    hashes = np.array([p << (64 - PARTITION_BITS) for p, _ in rows], dtype=np.uint64).astype(np.int64)
    columns = {HASH: hashes, TIME: np.array([t for _, t in rows], dtype=np.int64)}
    if arrivals is not None:
        columns[ARRIVAL] = np.array(arrivals, dtype=np.int64)
    return RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)


def entered(rows: RowSet | None) -> list[Row]:
    if rows is None:
        return []
    partitions = rows.batch.column(HASH).to_numpy().view(np.uint64) >> np.uint64(64 - PARTITION_BITS)
    return list(zip(partitions.astype(int).tolist(), rows.batch.column(TIME).to_pylist(), strict=True))


def split(
    new: dict[int, list[Row]], waiting: dict[int, tuple[list[Row], list[int]]], budget: RowBudget
) -> tuple[dict[int, list[Row]], dict[int, list[tuple[int, Row]]]]:
    """Rows by input that enter, and those that wait with their arrival."""
    now, later = admit(
        {s: row_set(rows) for s, rows in new.items() if rows},
        {s: [row_set(*pair)] for s, pair in waiting.items() if pair[0]},
        admission=Admission({0: budget}, frozenset()),
        site_of=HERE,
        batch=BATCH,
    )
    held = {
        s: list(zip(batch.column(ARRIVAL).to_pylist(), entered(RowSet(batch)), strict=True))
        for s, batch in later.items()
    }
    return {s: entered(rows) for s, rows in now.items()}, held


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=30)
spooled = rows.flatmap(
    lambda given: st.tuples(
        st.just(given),
        st.lists(st.integers(BATCH - LONGEST_WAIT - 1, BATCH - 1), min_size=len(given), max_size=len(given)),
    )
)
budgets = st.builds(RowBudget, st.integers(0, 40), st.integers(0, 40))


@given(st.fixed_dictionaries({0: rows, 1: rows}), st.fixed_dictionaries({0: spooled, 1: spooled}), budgets)
def test_nothing_is_lost_the_buffer_is_bounded_and_every_partition_keeps_its_order(
    new: dict[int, list[Row]], waiting: dict[int, tuple[list[Row], list[int]]], budget: RowBudget
) -> None:
    now, later = split(new, waiting, budget)
    held = [pair for pairs in later.values() for pair in pairs]
    for source in new:
        came = Counter(new[source]) + Counter(waiting[source][0])
        assert Counter(now.get(source, ())) + Counter(row for _, row in later.get(source, ())) == came
    assert len(held) <= budget.waiting
    assert all(arrival > BATCH - LONGEST_WAIT for arrival, _ in held)
    everyone = [(BATCH, row) for its in new.values() for row in its]
    for its, arrivals in waiting.values():
        everyone += zip(arrivals, its, strict=True)
    for partition in range(5):
        ages = sorted((a, t) for a, (p, t) in everyone if p == partition)
        left = sorted((a, t) for a, (p, t) in held if p == partition)
        assert left == ages[len(ages) - len(left) :], "a row overtook one that came before it"


def test_a_small_partition_does_not_wait_behind_a_crowded_one() -> None:
    crowd = [(1, t) for t in range(100)]
    now, later = split({0: crowd, 1: [(2, 99), (2, 7)]}, {}, RowBudget(20, 1000))
    assert sorted(now[1]) == [(2, 7), (2, 99)]
    assert now[0] == crowd[:18]
    assert len(later[0]) == 82


def test_a_site_without_a_budget_takes_everything_that_waited() -> None:
    now, later = admit(
        {},
        {0: [row_set([(3, 1), (3, 2)], [BATCH - 1, BATCH - 1])]},
        admission=Admission({1: RowBudget(0, 10)}, frozenset()),
        site_of=HERE,
        batch=BATCH,
    )
    assert entered(now[0]) == [(3, 1), (3, 2)]
    assert later == {}
