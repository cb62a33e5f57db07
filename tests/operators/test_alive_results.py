"""Aggregates over the results that are there at a time, against a loop over them."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators import alive_results
from anabranch.operators.alive_results import Instants, fold_alive, in_parts, none_before
from anabranch.operators.final_rows import Emission, FinalRows, final_rows
from anabranch.operators.group_hash import group_hashes
from anabranch.operators.partial_aggregate import (
    Count,
    ExactSum,
    FloatSum,
    Least,
    LeastWide,
    Moments,
    Summary,
)
from anabranch.operators.rows import RowSet
from anabranch.plan.layout import DEADLINE, HASH, TIME

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


def made(rng: random.Random, size: int | None = None) -> tuple[list[Row], list[RowSet]]:
    rows: list[Row] = []
    for _ in range(rng.choice((1, 5, 60)) if size is None else size):
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


def final(blocks: list[RowSet]) -> FinalRows:
    found = final_rows(blocks, Emission(0, 100), np.ones(256, dtype=bool))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(30))
def test_what_is_there_at_a_time_is_aggregated_as_in_a_loop(seed: int) -> None:
    rows, blocks = made(random.Random(seed))
    instants = Instants.of(final(blocks)).rows
    known = fold_alive(instants, WINDOW, SUMMARIES)
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
    instants = Instants.of(final(blocks)).rows
    expected = [
        not any(r[0] == group and r[1] < time <= r[2] for r in rows)
        for group, time in zip(instants.hashes, instants.times, strict=True)
    ]
    assert none_before(instants, WINDOW).tolist() == expected


def test_parts_are_small_and_tear_no_instant_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alive_results, "PAIRS", 4)
    _, blocks = made(random.Random(2), 60)
    whole, charged = final(blocks), []
    parts = list(in_parts(whole, WINDOW, SUMMARIES, charged.append))
    assert len(parts) > 3
    assert np.concatenate([p.position for p in parts]).tolist() == whole.position.tolist()
    seen = [(h, t) for p in parts for h, t in {*zip(p.hashes.tolist(), p.times.tolist(), strict=True)}]
    assert len(seen) == len(set(seen)) == len(Instants.of(whole).rows)
    assert sum(charged) >= len(seen)


def test_what_can_be_subtracted_needs_no_pairs() -> None:
    _, blocks = made(random.Random(2), 60)
    charged: list[int] = []
    assert len(list(in_parts(final(blocks), WINDOW, [Count(None)], charged.append))) == 1
    assert not charged


def test_group_hashes_keep_the_partition_and_follow_the_keys() -> None:
    texts = pa.array(["", "a", "b", "ab", "ba", None, "a"])
    numbers = pa.array([0.0, -0.0, math.nan, 1.0, 1.0, None, 0.0])
    routed = np.array([5 << 56, -1, 1, 2, 3, 4, 7 << 56], dtype=np.int64)
    one = group_hashes(routed, [texts])
    both = group_hashes(routed, [texts.slice(0, 7).cast(pa.large_string()), numbers])
    for found in (one, both):
        assert (found >> 56 == routed >> 56).all()
        assert len({*(found & ((1 << 56) - 1)).tolist()}) == 6, "only the second and the last are equal"
    assert (group_hashes(routed[2:5], [texts.slice(2, 3)]) == one[2:5]).all()
