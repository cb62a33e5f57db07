"""Rows of a hot key have one origin each, and every group of them meets once."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from anabranch.exchange.address import partition_of
from anabranch.exchange.router import HOME_SHIFT, WireRows
from anabranch.exchange.split_router import HotKey, SplitInput, SplitRouter

LANES = (3, 90, 200)
KEY = HotKey(77, ("s", "t", "u"), "s", LANES)
INPUTS = {name: SplitInput(number, name, ("n",)) for number, name in enumerate("stu")}


def wire(rows: int, seed: int = 1) -> WireRows:
    draw = np.random.default_rng(seed)
    tags = (draw.integers(0, 3, rows) * 2 + 1).astype(np.int32)
    addresses = np.where(draw.random(rows) < 0.5, KEY.address, draw.integers(-(2**62), 2**62, rows))
    values = draw.integers(0, 2**40, rows)
    return WireRows(tags, addresses, draw.integers(0, 50, rows), lambda name, which: values[which])


def test_a_row_goes_to_its_origin_first_and_to_all_lanes_unless_its_input_is_the_largest() -> None:
    rows = wire(300)
    for name, source in INPUTS.items():
        placed = SplitRouter(source, (KEY,)).placed(rows)
        hot = rows.addresses[placed.rows] == KEY.address
        copies = Counter(placed.rows[hot].tolist())
        assert set(copies.values()) == {1 if name == "s" else len(LANES)}
        assert set(Counter(placed.rows[~hot].tolist()).values()) == {1}
        assert (placed.partitions[~hot] == partition_of(rows.addresses[placed.rows[~hot]])).all()
        homes = (placed.tags[hot] >> HOME_SHIFT) - 1
        assert set(homes.tolist()) == {KEY.home}
        for row in copies:
            assert len(set(placed.partitions[placed.rows == row].tolist())) == copies[row]


def test_origins_are_spread_evenly() -> None:
    rows = wire(3_000)
    placed = SplitRouter(INPUTS["s"], (KEY,)).placed(rows)
    hot = rows.addresses[placed.rows] == KEY.address
    counts = np.array(list(Counter(placed.partitions[hot].tolist()).values()))
    assert len(counts) == len(LANES)
    assert counts.max() < 1.3 * counts.mean()


@pytest.mark.parametrize("largest", ["s", "t", None])
def test_every_group_of_new_rows_is_found_once(largest: str | None) -> None:
    """The origin rule: a result starts from its row of the lowest rank, at whose origin all others are."""
    key = HotKey(77, ("s", "t", "u"), largest, LANES)
    rows = wire(24, seed=3)
    ranked = sorted("stu", key=lambda name: name != largest)
    where: dict[str, dict[int, list[int]]] = {}
    for name in ranked:
        placed = SplitRouter(INPUTS[name], (key,)).placed(rows)
        hot = rows.addresses[placed.rows] == KEY.address
        where[name] = {}
        for row, lane in zip(placed.rows[hot].tolist(), placed.partitions[hot].tolist(), strict=True):
            where[name].setdefault(row, []).append(lane)
    for group in product(*(where[name].values() for name in ranked)):
        origin = group[0][0]
        assert [lane for lane in LANES if lane == origin and all(lane in lanes for lanes in group)] == [
            origin
        ]


def test_a_hot_key_survives_its_way_through_a_manifest() -> None:
    assert HotKey.from_json(KEY.to_json()) == KEY
