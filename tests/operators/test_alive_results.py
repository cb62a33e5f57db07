"""Aggregates over the results that are there at a time, against a loop over them."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.operators.group import alive_results
from anabranch.operators.group.alive_results import Instants, fold_alive, none_before
from anabranch.operators.group.final_rows import Emission, FinalRows, final_rows
from anabranch.operators.group.folds.partial_aggregate import (
    Count,
    ExactSum,
    FloatSum,
    Least,
    LeastWide,
    Moments,
    Summary,
)
from anabranch.operators.group.group_hash import group_hashes, seed_of
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import DEADLINE, HASH, TIME

WINDOW = 12
SUMMARIES: tuple[Summary, ...] = (
    Count(None),
    Count("x"),
    ExactSum("x", 2),
    FloatSum("f"),
    Moments("f"),
    Least("x", largest=False),
    Least("x", largest=True),
    LeastWide("t", largest=True),
)
Row = tuple[int, int, int, int | None, float, str]


def made(rng: random.Random) -> tuple[list[Row], list[RowSet]]:
    rows: list[Row] = []
    for _ in range(rng.choice((1, 5, 60))):
        time = rng.randrange(40)
        x = rng.choice((None, 1, -5, 2**62))
        rows.append(
            (rng.randrange(3), time, time + rng.randint(0, WINDOW), x, rng.random(), rng.choice("ab"))
        )
    blocks = []
    for part in range(3):
        if mine := rows[part::3]:
            columns = [pa.array(c) for c in zip(*mine, strict=True)]
            columns[3] = columns[3].cast(pa.int64())
            batch = pa.record_batch(columns, names=[HASH, TIME, DEADLINE, "x", "f", "t"])
            blocks.append(RowSet.sorted(batch, TIME))
    return rows, blocks


def final_of(*blocks: RowSet, until: int = 100) -> FinalRows:
    found = final_rows(blocks, Emission(0, until), np.ones(256, dtype=bool))
    assert found is not None
    return found


@pytest.mark.parametrize("piece", [1 << 18, 4])
@pytest.mark.parametrize("seed", range(30))
def test_what_is_there_at_a_time_is_aggregated_as_in_a_loop(
    seed: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alive_results, "PIECE_ROWS", piece)
    rows, blocks = made(random.Random(seed))
    instants = Instants.of(final_of(*blocks)).rows
    known = fold_alive(instants, WINDOW, SUMMARIES, lambda rows: None)
    for i, (group, time) in enumerate(zip(instants.hashes, instants.times, strict=True)):
        there = [r for r in rows if r[0] == group and r[1] <= time <= r[2]]
        numbers = [r[3] for r in there if r[3] is not None]
        assert known[Count(None)][i] == len(there)
        assert known[Count("x")][i] == len(numbers)
        low, high = known[ExactSum("x", 2)][:, i].tolist()
        assert low + (high << 32) == sum(numbers)
        assert math.isclose(known[FloatSum("f")][i], sum(r[4] for r in there))
        mean = sum(r[4] for r in there) / len(there)
        assert known[Moments("f")][i].tolist()[:2] == pytest.approx([len(there), mean])
        if numbers:
            assert known[Least("x", largest=False)][i] == min(numbers)
            assert ~known[Least("x", largest=True)][i] == max(numbers)
        assert known[LeastWide("t", largest=True)][0][i].as_py() == max(r[5] for r in there)


@pytest.mark.parametrize("seed", range(30))
def test_a_result_is_new_unless_an_earlier_one_is_still_there(seed: int) -> None:
    rows, blocks = made(random.Random(seed))
    instants = Instants.of(final_of(*blocks)).rows
    expected = [
        not any(r[0] == group and r[1] < time <= r[2] for r in rows)
        for group, time in zip(instants.hashes, instants.times, strict=True)
    ]
    assert none_before(instants, WINDOW).tolist() == expected


def test_extremes_cost_the_logarithm_of_the_instants_and_counts_nothing() -> None:
    times = np.arange(4_000)
    alive = pa.array(np.full(4_000, 10**6))
    numbers = pa.array(np.zeros(4_000, dtype=np.int64))
    batch = pa.record_batch([numbers, pa.array(times), alive, numbers], names=[HASH, TIME, DEADLINE, "x"])
    rows, charged = final_of(RowSet.sorted(batch, TIME), until=4_000), []
    fold_alive(rows, 10**6, [Count(None), ExactSum("x", 2)], charged.append)
    assert not charged
    fold_alive(rows, 10**6, [Least("x", largest=False)], charged.append)
    assert sum(charged) < 4_000 * 13


def test_group_hashes_keep_the_partition_and_follow_the_keys() -> None:
    texts = pa.array(["", "a", "b", "ab", "ba", None, "a"])
    numbers = pa.array([0.0, -0.0, math.nan, 1.0, 1.0, None, 0.0])
    routed = np.array([5 << 56, -1, 1, 2, 3, 4, 7 << 56], dtype=np.int64)
    place = partition_of(routed)
    one = group_hashes([texts], 7, partitions=place)
    both = group_hashes([texts.slice(0, 7).cast(pa.large_string()), numbers], 7, partitions=place)
    for found in (one, both):
        assert (found >> 56 == routed >> 56).all()
        assert len({*(found & ((1 << 56) - 1)).tolist()}) == 6, "only the second and the last are equal"
    assert (group_hashes([texts.slice(2, 3)], 3, partitions=place[2:5]) == one[2:5]).all()


def test_groups_that_leave_the_partition_of_the_join_are_spread_over_all_partitions() -> None:
    numbers = pa.array(np.arange(10_000))
    assert len(set(partition_of(group_hashes([numbers], 10_000)).tolist())) == PARTITIONS
    assert len(set(group_hashes([], 5, seed=seed_of("q-results-0")).tolist())) == 1, "without keys: one group"
    assert seed_of("q-results-0") != seed_of("r-results-0"), "which lies elsewhere for every query"
