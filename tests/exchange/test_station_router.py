"""Rows choose their stations by shares, the same ones on Spark and without it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.exchange.router import WireNames
from anabranch.exchange.station_router import PARTS, Redirect, StationRouter

ROWS = np.random.default_rng(1).integers(-(2**62), 2**62, 20_000)


@given(st.lists(st.integers(0, PARTS), min_size=0, max_size=3))
def test_every_alternative_gets_its_share_of_rows(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), PARTS]
    shares = tuple(b - a for a, b in pairwise(ends))
    redirect = Redirect(tuple(range(len(shares))), ("c",) * len(shares), shares, seed=3)
    chosen = redirect.choose(ROWS, np.arange(len(ROWS)))
    found = np.bincount(chosen, minlength=len(shares)) / len(ROWS)
    assert found == pytest.approx(np.array(shares) / PARTS, abs=0.05)
    assert all(found[i] == 0 for i, share in enumerate(shares) if not share)


def test_another_batch_chooses_other_rows_and_a_replay_the_same() -> None:
    router = StationRouter({("x", "y"): (512, 512)})
    first, again, other = (
        router.redirect(("x", "y"), (1, 2), ("a", "b"), seed=seed).choose(ROWS, ROWS) for seed in (1, 1, 900)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_vectors_of_joined_rows_follow_the_shares() -> None:
    router = StationRouter({("x", "y"): (PARTS, 0)})
    assert router.choose(("x", "y"), 9, seed="b 1") == [0] * 9
    even = StationRouter().choose(("x", "y"), 1_000, seed="b 1")
    assert 400 < sum(even) < 600
    assert even == StationRouter().choose(("x", "y"), 1_000, seed="b 1")


def test_only_alternatives_with_a_share_cost_a_case() -> None:
    redirect = Redirect((4, 6, 9), ("a", "b", "c"), (1000, 0, 24), seed=7)
    (case,) = redirect.cases(WireNames("tag", "h", "ts"))
    assert (case.tag, case.address, case.partitions) == ("18 + (tag & 1)", "`c`", None)
    assert case.when.startswith(WireNames("tag", "h", "ts").is_input(4))
    assert ">= 1000" in case.when
