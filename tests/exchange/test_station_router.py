"""Rows choose their stations by lot and by rank, the same ones on Spark and without it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.exchange.router import WireNames
from anabranch.exchange.station_router import PARTS, Redirect, StationRouter, Ways

ROWS = np.random.default_rng(1).integers(-(2**62), 2**62, 20_000)
OTHERS = np.random.default_rng(2).integers(-(2**62), 2**62, 20_000)
TIMES = np.arange(len(ROWS))


@given(st.lists(st.integers(0, PARTS), min_size=0, max_size=3))
def test_every_alternative_gets_what_it_draws(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), PARTS]
    drawn = tuple(b - a for a, b in pairwise(ends))
    count = len(drawn)
    redirect = Redirect(tuple(range(count)), ("c",) * count, Ways(((0,),) * count, drawn), seed=3)
    chosen = redirect.choose([ROWS] * count, TIMES)
    found = np.bincount(chosen, minlength=count) / len(ROWS)
    assert found == pytest.approx(np.array(drawn) / PARTS, abs=0.05)
    assert all(found[i] == 0 for i, part in enumerate(drawn) if not part)


def test_what_is_not_drawn_goes_where_the_rank_of_its_partition_is_highest() -> None:
    ranks = np.random.default_rng(3).integers(0, 9, (2, PARTITIONS))
    ways = Ways(tuple(tuple(r.tolist()) for r in ranks), (0, 100))
    chosen = Redirect((1, 2), ("a", "b"), ways, seed=5).choose([ROWS, OTHERS], TIMES)
    by_lot = ((ROWS ^ TIMES ^ 5) & (PARTS - 1)) < 100
    better = ranks[1][partition_of(OTHERS)] > ranks[0][partition_of(ROWS)]
    assert (chosen == np.where(by_lot, 1, better)).all()
    assert 0.05 < by_lot.mean() < 0.15


def test_another_batch_chooses_other_rows_and_a_replay_the_same() -> None:
    router = StationRouter({("x", "y"): Ways.even(2)})
    first, again, other = (
        router.redirect(("x", "y"), (1, 2), ("a", "b"), seed=seed).choose([ROWS, OTHERS], ROWS)
        for seed in (1, 1, 900)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_vectors_of_joined_rows_follow_lots_and_ranks() -> None:
    router = StationRouter({("x", "y"): Ways.fixed(2, 0)})
    assert router.choose(("x", "y"), 9, seed="b 1") == [0] * 9
    even = StationRouter().choose(("x", "y"), 1_000, seed="b 1")
    assert 400 < sum(even) < 600
    assert even == StationRouter().choose(("x", "y"), 1_000, seed="b 1")


def test_only_alternatives_that_get_rows_cost_a_case() -> None:
    redirect = Redirect((4, 6, 9), ("a", "b", "c"), Ways(((5,), (0,), (1,)), (0, 0, 24)), seed=7)
    names = WireNames("tag", "h", "ts")
    (case,) = redirect.cases(names)
    assert (case.tag, case.address, case.partitions) == ("18 + (tag & 1)", "`c`", None)
    assert names.is_input(4) in case.when
    assert "< 24" in case.when
    assert not Redirect((4, 6), ("a", "b"), Ways.fixed(2, 0)).cases(names)
