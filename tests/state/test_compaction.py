from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.state.block import BlockMeta
from anabranch.state.compaction import FAN_IN, FULL_GROWTH, GROWTH, TINY_ROWS, plan_compaction
from tests.state.samples import sample_meta

_names = itertools.count()


def _block(**given: int | str) -> BlockMeta:
    return sample_meta(f"b{next(_names)}", **given)


def _merge(members: Sequence[BlockMeta]) -> BlockMeta:
    return _block(
        state=members[0].state,
        batch=min(block.batch for block in members),
        last_batch=max(block.last_batch for block in members),
        rows=sum(block.rows for block in members),
        min_ts=min(block.min_ts for block in members),
        max_ts=max(block.max_ts for block in members),
    )


blocks = st.builds(
    lambda state, batch, more, rows, ts, slot: _block(
        state=state, batch=batch, last_batch=batch + more, rows=rows, max_ts=ts, slot=slot
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([0, 1, 100, 4096, 5000, 20_000, 300_000]),
    st.integers(-500, 500),
    st.integers(0, 1),
)


@given(
    st.lists(blocks, max_size=60),
    st.none() | st.sampled_from([1, 100, 2000]),
    st.lists(st.integers(0, 10), max_size=2),
    st.integers(0, 20),
    st.booleans(),
)
def test_a_merger_never_mixes_states_buckets_slots_or_sides_of_a_barrier(
    population: list[BlockMeta], bucket_us: int | None, barriers: list[int], max_blocks: int, apart: bool
) -> None:
    plan = plan_compaction(
        population, bucket_us=bucket_us, max_blocks=max_blocks, barriers=barriers, separate_slots=apart
    )
    by_name = {block.name: block for block in population}
    assert all(uses == 1 for uses in Counter(name for group in plan for name in group).values())
    sizes = Counter((block.state, apart and block.slot) for block in population)
    for group in plan:
        members = [by_name[name] for name in group]
        merge_group = [b for b in population if (b.state, apart and b.slot) == _company(members[0], apart)]
        full = (
            bucket_us is not None
            and members[0].max_ts // bucket_us < max(b.max_ts for b in merge_group) // bucket_us
        )
        assert len(members) >= (2 if full else FAN_IN)
        assert len({block.state for block in members}) == 1
        assert sizes[members[0].state, apart and members[0].slot] > max_blocks
        if bucket_us is not None:
            assert len({block.max_ts // bucket_us for block in members}) == 1
        if apart:
            assert len({block.slot for block in members}) == 1
        for barrier in barriers:
            assert len({block.batch < barrier for block in members}) == 1
            assert len({block.last_batch < barrier for block in members}) == 1
        merged = _merge(members)
        growth = FULL_GROWTH if full else GROWTH
        assert merged.rows < TINY_ROWS or merged.rows >= growth * max(block.rows for block in members)


def _company(block: BlockMeta, apart: bool) -> tuple[str, int]:
    return block.state, apart and block.slot


@given(st.lists(blocks, max_size=60), st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_the_blocks(
    population: list[BlockMeta], shuffle: random.Random
) -> None:
    shuffled = list(population)
    shuffle.shuffle(shuffled)
    first, second = (plan_compaction(p, bucket_us=100, max_blocks=3) for p in (population, shuffled))
    assert set(first) == set(second)


def test_a_state_with_few_blocks_is_left_alone() -> None:
    population = [_block(rows=10) for _ in range(12)]
    assert plan_compaction(population, bucket_us=None) == ()
    (group,) = plan_compaction([*population, _block(rows=10)], bucket_us=None)
    assert len(group) == 13


def test_a_big_block_is_not_rewritten_for_the_sake_of_a_few_small_ones() -> None:
    big = _block(rows=1_000_000)
    small = [_block(rows=5000) for _ in range(12)]
    (group,) = plan_compaction([big, *small], bucket_us=None)
    assert set(group) == {block.name for block in small}


def test_what_is_left_of_a_full_bucket_is_merged_and_a_few_late_rows_are_not() -> None:
    now = [_block(rows=9_000, batch=n, max_ts=150) for n in range(3)]
    full = [_block(rows=70_000, batch=3, max_ts=50), _block(rows=9_000, batch=4, max_ts=60)]
    late = _block(rows=100, batch=5, max_ts=60)
    assert plan_compaction([*now, *full], bucket_us=100, max_blocks=0) == ((full[1].name, full[0].name),)
    assert plan_compaction([*now, full[0], late], bucket_us=100, max_blocks=0) == ()


def _run(batches: int, draw: random.Random, *, rows: Sequence[int]) -> tuple[int, int, int]:
    """Add a block per batch and compact after each; return rows added, rows rewritten, most blocks."""
    live: dict[str, BlockMeta] = {}
    added = rewritten = most = 0
    for batch in range(batches):
        new = _block(batch=batch, rows=draw.choice(rows), max_ts=batch)
        live[new.name] = new
        added += new.rows
        for group in plan_compaction(list(live.values()), bucket_us=None):
            merged = _merge([live.pop(name) for name in group])
            live[merged.name] = merged
            rewritten += merged.rows
        most = max(most, len(live))
    assert sum(block.rows for block in live.values()) == added
    return added, rewritten, most


@pytest.mark.parametrize("rows", [(25_000,), (5000, 25_000, 400_000), (4096, 4097, 16_383)], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_rewritten_logarithmically_often_and_blocks_stay_few(
    rows: tuple[int, ...], seed: int
) -> None:
    added, rewritten, most = _run(2000, random.Random(seed), rows=rows)
    rewrites_per_row = math.log(added / min(rows), GROWTH)
    assert rewritten <= rewrites_per_row * added
    # The three smallest, then each as big as all before it together.
    assert most <= max(13, FAN_IN + math.log2(added / min(rows)))


def test_tiny_blocks_cost_little_however_many_come() -> None:
    _, rewritten, most = _run(3000, random.Random(0), rows=(1,))
    assert most <= 13
    assert rewritten <= 3000 * TINY_ROWS / (FAN_IN - 1)


def test_with_time_buckets_the_number_of_blocks_is_bounded_per_bucket() -> None:
    live: dict[str, BlockMeta] = {}
    for batch in range(1000):  # a window of 100 batches in buckets of 25
        live = {name: block for name, block in live.items() if block.max_ts >= batch - 100}
        new = _block(batch=batch, rows=25_000, max_ts=batch)
        live[new.name] = new
        for group in plan_compaction(list(live.values()), bucket_us=25):
            merged = _merge([live.pop(name) for name in group])
            live[merged.name] = merged
        per_bucket: dict[int, int] = defaultdict(int)
        for block in live.values():
            per_bucket[block.max_ts // 25] += 1
        assert len(live) <= 13 or max(per_bucket.values()) <= FAN_IN + math.log2(25)
        assert len(live) <= 24


def test_a_running_protocol_splits_a_state_into_old_new_and_spanning_blocks() -> None:
    old = [_block(batch=batch, rows=5000) for batch in range(5)]
    new = [_block(batch=batch, rows=5000) for batch in range(7, 12)]
    spanning = [_block(batch=6, last_batch=last, rows=5000) for last in range(7, 12)]
    plan = plan_compaction([*old, *new, *spanning], bucket_us=None, barriers=[7])
    assert {frozenset(group) for group in plan} == {
        frozenset(block.name for block in side) for side in (old, new, spanning)
    }


def test_a_bucket_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        plan_compaction([], bucket_us=0)


def test_pieces_of_one_merger_count_as_one_block() -> None:
    pieces = [_block(batch=0, last_batch=9, rows=50_000) for _ in range(30)]
    small = [_block(batch=batch, rows=10) for batch in range(10, 22)]
    assert plan_compaction([*pieces, *small[1:]], bucket_us=None) == ()
    (group,) = plan_compaction([*pieces, *small], bucket_us=None)
    assert set(group) == {block.name for block in small}


def test_no_more_is_merged_at_once_than_there_is_room_for() -> None:
    blocks = [_block(rows=10) for _ in range(40)]
    room = sum(block.bytes for block in blocks[:12])
    (group,) = plan_compaction(blocks, bucket_us=None, most_bytes=room)
    assert len(group) == 12
    assert plan_compaction(blocks, bucket_us=None, most_bytes=blocks[0].bytes) == ()
