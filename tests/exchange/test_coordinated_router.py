"""Rows go to the places of their unit; where two routers share a join, every group belongs to one of them."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from anabranch.exchange.aligned_router import AlignedRouter, AlignedTable, Member, Reign
from anabranch.exchange.coordinated_router import ALWAYS, CoordinatedRouter, Gate, Routes, units_of
from anabranch.exchange.coordinated_table import Path, unit_number
from anabranch.exchange.router import WireRows
from anabranch.exchange.segments import Segments

TIMES = 60


def random_coordinated_router(draw: random.Random, members: tuple[Member, ...]) -> CoordinatedRouter:
    """Paths at random, alone or while a change is under way, in either direction."""
    paths = {
        m.alias: tuple(
            Path(tuple(draw.sample(range(100, 110), draw.randint(1, 4))), (), 0.0)
            for _ in range(draw.randint(1, 4))
        )
        for m in members
    }
    gate, aligned, at = ALWAYS, None, draw.randint(10, 50)
    master = draw.choice(members).alias
    cycle = [draw.randrange(20) for _ in range(3)]
    if draw.random() < 0.4:
        reign = Reign(master, Segments.cycling(draw.randint(1, 9), cycle), end=at)
        gate, aligned = Gate(opened=(master, at)), AlignedRouter(members, AlignedTable((reign,)))
    elif draw.random() < 0.7:
        reign = Reign(master, Segments.cycling(draw.randint(1, 9), cycle, at), at)
        gate, aligned = Gate(closed=(master, at)), AlignedRouter(members, AlignedTable((reign,)))
    return CoordinatedRouter(members, Routes(7, draw.choice((1, 5)), paths, gate), aligned)


def random_members(draw: random.Random, inputs: tuple[int, ...]) -> tuple[Member, ...]:
    return tuple(Member(f"r{i}", i, draw.choice((0, 1, 3, 8))) for i in inputs)


def places_of(router: CoordinatedRouter, member: Member) -> list[set[int]]:
    rows = WireRows(
        np.full(TIMES, 2 * member.input + 1, dtype=np.int32),
        np.zeros(TIMES, dtype=np.int64),
        np.arange(TIMES),
        lambda _, which: which,
    )
    placed = router.placed(rows)
    found: list[set[int]] = [set() for _ in range(TIMES)]
    for row, partition in zip(placed.rows.tolist(), placed.partitions.tolist(), strict=True):
        assert partition not in found[row], "one copy for each partition"
        found[row].add(partition)
    assert all(found), "every row has a place"
    segments = router.routes.segments(member.alias, np.arange(TIMES))
    assert (units_of(placed.addresses) == unit_number(7, 0) + segments[placed.rows]).all()
    for row, where in enumerate(found):
        stored = set(router.routes.paths[member.alias][segments[row]].places)
        assert where & set(range(100, 110)) in (set(), stored)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_correlated_group_is_either_aligned_or_coordinated(seed: int) -> None:
    draw = random.Random(seed)
    members = random_members(draw, (0, 1, 2)[: draw.choice((2, 3))])
    router = random_coordinated_router(draw, members)
    places = [places_of(router, m) for m in members]
    times = sorted(draw.sample(range(TIMES), 14))
    for group in product(times, repeat=len(members)):
        latest = max(group)
        if all(latest - t <= m.window_us for t, m in zip(group, members, strict=True)):
            where = [places[i][t] for i, t in enumerate(group)]
            on_paths = all(its & set(range(100, 110)) for its in where)
            met = set.intersection(*where) - set(range(100, 110))
            assert on_paths + len(met) == 1, (seed, group, where)
