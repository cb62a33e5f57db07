"""Rows of many small files in few sets: those of the blocks that are there, and few others."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.task.blocks import draining_rows
from anabranch.engine.task.blocks.draining_rows import forget_gathered, gather
from anabranch.engine.task.blocks.open_blocks import UNUSED_S, OpenBlock
from anabranch.exchange.address import PARTITIONS, partition_of
from anabranch.exchange.partition_set import PartitionSet
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME
from anabranch.state.block import BlockMeta

HERE = Path("here")
KEY = HERE, "a"
EVERYTHING = np.ones(PARTITIONS, dtype=np.bool_)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining_rows, "_gathered", {})


def block(*times: int, partition: int = 200) -> OpenBlock:
    """Rows of one partition, which came in the batches that their times tell."""
    hashes = np.full(len(times), (partition << 56) - (1 << 64) if partition > 127 else partition << 56)
    rows = pa.RecordBatch.from_pydict({HASH: pa.array(hashes), TIME: pa.array(times, pa.int64())})
    first, last = min(times), max(times)
    meta = BlockMeta("x", "s", first, last, 0, len(times), 1, "", 0, 0, 0, ((partition, len(times)),))
    rows_of = np.zeros(PARTITIONS, dtype=np.int64)
    rows_of[partition] = len(times)
    return OpenBlock(meta, RowSet(rows), PartitionSet.of([partition]), rows_of)


def times_of(sets: list[RowSet]) -> list[int]:
    return sorted(t for rows in sets for t in rows.batch.column(TIME).to_pylist())


def test_blocks_that_come_and_go_batch_after_batch() -> None:
    blocks = []
    for batch in range(40):
        blocks.append(block(batch))
        if batch % 9 == 8:  # the owner merges some
            merged = block(*times_of([b.rows for b in blocks[:5]]))
            blocks = [*blocks[5:], merged]
        sets = gather(KEY, blocks, EVERYTHING, batch)
        assert times_of(sets) == list(range(batch + 1))
        assert len(sets) <= 7
        for rows in sets:
            assert rows.batch.column(TIME).to_pylist() == sorted(rows.batch.column(TIME).to_pylist())


def test_rows_that_have_expired_leave_once_they_are_half_of_all() -> None:
    blocks = [block(batch) for batch in range(20)]
    gather(KEY, blocks, EVERYTHING, 19)
    assert times_of(gather(KEY, blocks[6:], EVERYTHING, 20)) == list(range(20))
    assert times_of(gather(KEY, blocks[11:], EVERYTHING, 21)) == list(range(11, 20))
    assert gather(KEY, [], EVERYTHING, 22) == []


@given(st.data())
def test_whatever_owners_do_with_their_files_each_row_is_there_once(data: st.DataObject) -> None:
    """Owners write, merge and let go of files; the sender may miss a batch; partitions differ."""
    draining_rows._gathered.clear()
    blocks: list[OpenBlock] = []
    ever: Counter[int] = Counter()
    for batch in range(data.draw(st.integers(1, 14))):
        blocks += [block(*[batch] * n, partition=p) for p in (3, 200) if (n := data.draw(st.integers(0, 3)))]
        ever[batch] = sum(b.meta.rows for b in blocks if b.meta.batch == batch)
        for partition in (3, 200):
            its = [b for b in blocks if b.rows_of[partition]]
            group = its[: data.draw(st.integers(0, len(its)))]
            if data.draw(st.booleans()) and len(group) > 1:
                merged = block(*times_of([b.rows for b in group]), partition=partition)
                blocks = [merged, *(b for b in blocks if not any(b is g for g in group))]
        if blocks and data.draw(st.integers(0, 4)) == 0:
            blocks.remove(min(blocks, key=lambda b: b.meta.last_batch))
        if data.draw(st.integers(0, 3)):
            found = times_of(gather(KEY, blocks, EVERYTHING, batch))
            wanted = times_of([b.rows for b in blocks])
            assert not Counter(wanted) - Counter(found)
            assert not Counter(found) - ever
            assert len(found) <= 2 * len(wanted)


def test_a_merger_of_rows_that_were_apart_is_read_anew() -> None:
    gather(KEY, [block(0, 1, 2), block(3)], EVERYTHING, 4)
    assert times_of(gather(KEY, [block(0, 1, 2, 3, 4)], EVERYTHING, 5)) == [0, 1, 2, 3, 4]


def test_nothing_is_put_together_twice() -> None:
    blocks = [block(1, 2), block(3)]
    (first,) = gather(KEY, blocks, EVERYTHING, 4)
    (again,) = gather(KEY, blocks, EVERYTHING, 4)
    assert again is first
    (merged,) = gather(KEY, [block(1, 2, 3)], EVERYTHING, 5)
    assert merged is first, "the rows are the same, although in another file"


def test_rows_that_arrived_in_the_batch_before_are_used_with_their_orders() -> None:
    old, arrived = block(*[1] * 9), block(7, 7, 7)
    gather(KEY, [old], EVERYTHING, 7, arrived.rows)
    earlier, latest = gather(KEY, [old, block(7, 7, 7)], EVERYTHING, 8)
    assert latest is arrived.rows
    assert len(earlier) == 9


@pytest.mark.parametrize(
    "written", [block(7), block(7, 7, 7, partition=3), block(6, 7)], ids=["fewer", "others", "older"]
)
def test_rows_that_arrived_are_not_taken_for_others(written: OpenBlock) -> None:
    old, arrived = block(1), block(7, 7)
    gather(KEY, [old], EVERYTHING, 7, arrived.rows)
    assert times_of(gather(KEY, [old, written], EVERYTHING, 8)) == times_of([old.rows, written.rows])


def test_rows_of_other_partitions_are_left_out() -> None:
    mine = EVERYTHING.copy()
    mine[partition_of(block(2, partition=3).rows.batch.column(HASH).to_numpy())] = False
    assert times_of(gather(KEY, [block(1), block(2, partition=3)], mine, 0)) == [1]


def test_what_nobody_asks_for_any_more_is_let_go() -> None:
    gather(KEY, [block(1)], EVERYTHING, 5)
    forget_gathered(HERE, 6)
    assert draining_rows._gathered
    forget_gathered(HERE, 7)
    assert not draining_rows._gathered


def test_sessions_that_share_a_worker_let_go_of_their_own() -> None:
    (mine,) = gather(KEY, [block(1)], EVERYTHING, 5)
    forget_gathered(Path("another"), 700)
    assert gather(KEY, [block(1)], EVERYTHING, 6) == [mine]


def test_what_a_session_that_has_ended_had_put_together_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    gather(KEY, [block(1)], EVERYTHING, 5)
    later = time.monotonic() + UNUSED_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    forget_gathered(Path("another"), 5)
    assert not draining_rows._gathered
