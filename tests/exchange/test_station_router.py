"""Rows choose their stations by rank and by lot, the same ones in a replay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.address import PARTITIONS, at_partition, partition_of
from anabranch.exchange.router import WireNames
from anabranch.exchange.station_router import PARTS, Redirect, StationRouter, Ways

ROWS = np.random.default_rng(1).integers(-(2**62), 2**62, 20_000)
TIMES = np.arange(len(ROWS))
BOTH = [ROWS, ROWS[::-1]]
"""Addresses at either of two stations."""


@given(st.lists(st.integers(0, PARTS), min_size=0, max_size=3))
def test_the_lottery_gives_every_alternative_its_share_of_rows(cuts: list[int]) -> None:
    drawn = tuple(b - a for a, b in pairwise([0, *sorted(cuts), PARTS]))
    ways = Ways(((0,),) * len(drawn), drawn)
    redirect = Redirect(tuple(range(len(drawn))), ("c",) * len(drawn), ways, seed=3)
    chosen = redirect.choose([ROWS] * len(drawn), TIMES)
    found = np.bincount(chosen, minlength=len(drawn)) / len(ROWS)
    assert found == pytest.approx(np.array(drawn) / PARTS, abs=0.05)
    assert all(found[i] == 0 for i, share in enumerate(drawn) if not share)


def test_rows_that_are_not_drawn_go_where_the_rank_of_their_partition_is_highest() -> None:
    low = tuple(int(p < PARTITIONS // 2) for p in range(PARTITIONS))
    ways = Ways((low, tuple(1 - rank for rank in low)), (0, 0))
    addresses = at_partition(np.arange(len(ROWS)) % PARTITIONS, ROWS)
    chosen = Redirect((1, 2), ("a", "b"), ways).choose([addresses, addresses], TIMES)
    assert (chosen == (partition_of(addresses) >= PARTITIONS // 2)).all()


def test_of_equal_ranks_the_first_has_the_row() -> None:
    assert (Redirect((1, 2), ("a", "b"), Ways(((0,), (0,)), (0, 0))).choose(BOTH, TIMES) == 0).all()


def test_another_batch_draws_other_rows_and_a_replay_the_same() -> None:
    router = StationRouter({("x", "y"): Ways.even(2)})
    first, again, other = (
        router.redirect(("x", "y"), (1, 2), ("a", "b"), seed=seed).choose(BOTH, TIMES) for seed in (1, 1, 900)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_vectors_of_joined_rows_follow_the_shares() -> None:
    router = StationRouter({("x", "y"): Ways.fixed(2, 0)})
    assert router.choose(("x", "y"), 9, seed="b 1") == [0] * 9
    even = StationRouter().choose(("x", "y"), 1_000, seed="b 1")
    assert 400 < sum(even) < 600
    assert even == StationRouter().choose(("x", "y"), 1_000, seed="b 1")


def test_spark_is_told_of_every_alternative_beside_the_first() -> None:
    redirect = Redirect((4, 6, 9), ("a", "b", "c"), Ways(((1,), (0,), (0,)), (0, 0, 24)), seed=7)
    second, third = redirect.cases(WireNames("tag", "h", "ts"))
    assert (second.tag, second.address, second.partitions) == ("12 + (tag & 1)", "`b`", None)
    assert (third.tag, third.address) == ("18 + (tag & 1)", "`c`")
    assert all("(tag >> 1) = 4" in case.when for case in (second, third))
    assert "< 24" in third.when
