"""Shares of hot groups: the lanes together answer every final row once, and the owner all others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.group.answered_share import AnsweredShare
from anabranch.operators.group.final_rows import Emission, FinalRows, final_rows
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME

EVERY = np.ones(PARTITIONS, dtype=bool)


def block(draw: np.random.Generator, rows: int) -> RowSet:
    batch = pa.record_batch({HASH: draw.integers(-2, 3, rows) << 57, TIME: draw.integers(0, 40, rows)})
    return RowSet.sorted(batch, TIME)


def found(rows: FinalRows | None) -> list[tuple[int, int]]:
    return [] if rows is None else list(zip(rows.block.tolist(), rows.position.tolist(), strict=True))


def test_lanes_and_owner_answer_each_final_row_once_and_equal_times_together() -> None:
    for seed in range(60):
        draw = np.random.default_rng(seed)
        blocks = [block(draw, int(draw.integers(0, 50))) for _ in range(int(draw.integers(0, 4)))]
        blocks = [b for b in blocks if len(b)]
        hot = tuple(sorted({int(h) << 57 for h in draw.integers(-2, 5, 2)}))
        lanes = int(draw.integers(1, 6))
        emission = Emission(10, 30, ahead={2: 20}, owing=frozenset({4}))
        shares = [AnsweredShare(hot, lane, lanes) for lane in range(lanes)]
        answers = [final_rows(blocks, emission, EVERY, share=share) for share in shares]
        answers.append(final_rows(blocks, emission, EVERY, share=AnsweredShare(hot)))
        together = [row for answer in answers for row in found(answer)]
        assert sorted(together) == sorted(found(final_rows(blocks, emission, EVERY))), f"seed {seed}"
        by_lane = [set(zip(a.hashes, a.times, strict=True)) for a in answers if a is not None]
        assert sum(map(len, by_lane)) == len(set().union(*by_lane)), f"seed {seed}: a time in two lanes"


def test_a_group_is_cut_into_equal_parts() -> None:
    batch = pa.record_batch({HASH: np.zeros(800, dtype=np.int64), TIME: np.arange(800)})
    shares = [AnsweredShare((0,), lane, 8) for lane in range(8)]
    answers = [final_rows([RowSet(batch)], Emission(0, 800), EVERY, share=share) for share in shares]
    assert [len(found(answer)) for answer in answers] == [100] * 8
