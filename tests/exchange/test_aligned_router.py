"""Aligned routing brings the rows of every correlated group together in one partition, and in no other."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from anabranch.exchange.aligned_router import AlignedRouter, AlignedTable, Member
from anabranch.exchange.router import WireRows
from anabranch.exchange.segments import Segments

TIMES = 60


def random_router(draw: random.Random, references: int) -> AlignedRouter:
    """A table after some decisions and, perhaps, changes of the master."""
    members = tuple(
        Member(alias, i, draw.choice((0, 1, 3, 8))) for i, alias in enumerate("abcd"[:references])
    )
    table = AlignedTable.single(draw.choice(members).alias, draw.randint(1, 9), draw.choices(range(4), k=3))
    free = 10
    for reign in range(1, draw.choice((1, 2, 3, 4))):
        table = table.continued(
            draw.randint(free, 40), length=draw.randint(1, 9), cycle=_cycle(draw, reign - 1)
        )
        master = draw.choice(members)
        at = max(table.current.segments.last.start, draw.randint(12, 45)) + master.window_us + 1
        if master.alias != table.current.master and at > table.current.begin:
            table = table.switched(master, at, length=draw.randint(1, 9), cycle=_cycle(draw, reign))
    return AlignedRouter(members, table)


def _cycle(draw: random.Random, reign: int) -> list[int]:
    return [10 * reign + draw.randrange(4) for _ in range(draw.randint(1, 5))]


@pytest.mark.parametrize("seed", range(60))
def test_every_correlated_group_meets_in_exactly_one_partition(seed: int) -> None:
    draw = random.Random(seed)
    router = random_router(draw, draw.choice((2, 3, 3)))
    places = {m.alias: places_of(router, m) for m in router.members}
    times = sorted(draw.sample(range(TIMES), 14))
    for group in product(times, repeat=len(router.members)):
        latest = max(group)
        if all(latest - t <= m.window_us for t, m in zip(group, router.members, strict=True)):
            where = [places[m.alias][t] for t, m in zip(group, router.members, strict=True)]
            assert len(set.intersection(*where)) == 1, (seed, group, where)


def places_of(router: AlignedRouter, member: Member) -> dict[int, set[int]]:
    times = np.arange(TIMES)
    which, partitions = router.copies(member, times)
    found: dict[int, set[int]] = {t: set() for t in range(TIMES)}
    for row, partition in zip(which.tolist(), partitions.tolist(), strict=True):
        assert partition not in found[row], "one copy for each partition"
        found[row].add(partition)
    assert all(found.values()), "every row has a place"
    return found


def test_a_master_row_is_never_copied_and_slaves_only_around_bounds() -> None:
    members = (Member("a", 0, 2), Member("b", 1, 1))
    router = AlignedRouter(members, AlignedTable.single("a", 10, (0, 1, 2)))
    assert {len(p) for p in places_of(router, members[0]).values()} == {1}
    copied = {t for t, p in places_of(router, members[1]).items() if len(p) > 1}
    # Rows of b within W_b before a bound, or less than W_a behind it.
    assert copied == {t for t in range(TIMES) if t % 10 in (9, 0, 1) and t > 1}


def test_rows_copied_are_as_many_as_the_paper_says() -> None:
    """Equation 2: (W_i + W_M) · r_i for every segment, where segments are longer than windows reach."""
    members = (Member("a", 0, 700), Member("b", 1, 300), Member("c", 2, 900))
    router = AlignedRouter(members, AlignedTable.single("a", 4_000, tuple(range(6))))
    draw = np.random.default_rng(3)
    for member, rate in ((members[1], 2.0), (members[2], 0.5)):
        times = np.sort(draw.integers(0, 400_000, int(400_000 * rate)))
        which, _ = router.copies(member, times)
        extra = len(which) - len(times)
        predicted = (member.window_us + members[0].window_us) / 4_000 * rate * 400_000
        assert extra == pytest.approx(predicted, rel=0.05)


def test_the_marks_of_the_paper_lose_rows_where_segments_are_shorter_than_windows() -> None:
    """Section 3: marked rows go to the last segment of the old master and the first of the new one only."""
    window, length, switch = 5, 1, 20
    old_last, new_first = (switch - 1) // length, switch // length
    # A row of the old master at 17 and one of the new master at 21 are within 5 of each other.
    old_row, new_row = 17, 21
    assert new_row - old_row <= window
    marked = {("old", old_last), ("new", new_first)}
    assert ("old", old_row // length) not in marked  # where the old row is
    members = (Member("m", 0, window), Member("n", 1, window))
    table = AlignedTable.single("m", length, (0, 1, 2)).switched(
        members[1], switch, length=length, cycle=(7, 8)
    )
    router = AlignedRouter(members, table)
    assert len(places_of(router, members[0])[old_row] & places_of(router, members[1])[new_row]) == 1


def test_reigns_share_no_partition() -> None:
    member = Member("b", 1, 3)
    table = AlignedTable.single("a", 5, (0, 1))
    with pytest.raises(ValueError, match="partitions of their own"):
        table.switched(member, 30, length=5, cycle=(1, 2))


def test_a_table_survives_its_way_through_a_manifest() -> None:
    table = random_router(random.Random(5), 3).table
    assert AlignedTable.from_json(table.to_json()) == table


def test_placing_rows_of_all_inputs_is_placing_those_of_each() -> None:
    router = random_router(random.Random(8), 3)
    draw = np.random.default_rng(1)
    tags = (draw.integers(0, 4, 300) * 2 + 1).astype(np.int32)  # the last input is another query's
    times = draw.integers(0, TIMES, 300)
    placed = router.placed(WireRows(tags, times * 7, times, lambda name, rows: rows))
    assert set(placed.rows.tolist()) == set(np.flatnonzero(tags < 6).tolist())
    for row, partition in zip(placed.rows.tolist(), placed.partitions.tolist(), strict=True):
        member = router.members[tags[row] >> 1]
        assert partition in places_of(router, member)[int(times[row])]


def test_a_single_segment_table_is_what_one_site_did() -> None:
    members = (Member("a", 0, 2), Member("b", 1, 1))
    router = AlignedRouter(members, AlignedTable.single("a", 10, (42,)))
    assert router.table.current.segments == Segments.cycling(10, (42,))
    assert {p for m in members for s in places_of(router, m).values() for p in s} == {42}
