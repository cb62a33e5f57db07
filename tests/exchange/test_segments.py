"""Segments follow each other without a gap, and decisions about later ones leave the earlier ones alone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anabranch.exchange.segments import Run, Segments


def random_segments(draw: random.Random) -> tuple[Segments, list[tuple[int, int]]]:
    """Segments after several decisions, and (time from which each was free to decide, length)."""
    table = Segments.cycling(draw.randint(1, 9), draw.choices(range(5), k=3), start=draw.randint(0, 20))
    decided = []
    for _ in range(draw.randrange(5)):
        free_from = draw.randint(0, 120)
        free_from = max(free_from, table.last.start)
        length = draw.randint(1, 9)
        table = table.continued(free_from, length=length, cycle=draw.choices(range(5), k=draw.randint(1, 4)))
        decided.append((free_from, length))
    return table, decided


@pytest.mark.parametrize("seed", range(50))
def test_every_time_has_one_segment_and_numbers_ascend_by_one(seed: int) -> None:
    table, _ = random_segments(random.Random(seed))
    numbers = table.numbers(np.arange(200))
    assert set(np.diff(numbers).tolist()) <= {0, 1}
    for run in table.runs:
        assert numbers[run.start] == numbers[run.start - 1] + 1 if run.start > table.runs[0].start else True


@pytest.mark.parametrize("seed", range(50))
def test_a_decision_changes_no_partition_before_the_time_it_is_free_from(seed: int) -> None:
    draw = random.Random(seed)
    table, _ = random_segments(draw)
    free_from = table.last.start + draw.randint(0, 30)
    after = table.continued(free_from, length=draw.randint(1, 7), cycle=draw.choices(range(9), k=3))
    times = np.arange(table.runs[0].start, free_from)
    before = table.partitions(table.numbers(times))
    assert (after.partitions(after.numbers(times)) == before).all()
    assert (after.numbers(times) == table.numbers(times)).all()


@pytest.mark.parametrize("seed", range(50))
def test_expiry_forgets_only_what_ended_before(seed: int) -> None:
    draw = random.Random(seed)
    table, _ = random_segments(draw)
    time = draw.randint(0, 150)
    times = np.arange(max(time, table.runs[0].start), 300)
    left = table.without_before(time)
    expected = table.partitions(table.numbers(times))
    assert (left.partitions(left.numbers(times)) == expected).all()


def test_the_same_decision_again_adds_no_run() -> None:
    table = Segments.cycling(4, (1, 2, 3))
    assert table.continued(24, length=4, cycle=(1, 2, 3)) == table
    # In another phase of the cycle it is another decision.
    assert table.continued(28, length=4, cycle=(1, 2, 3)).runs == (
        Run(0, 4, (1, 2, 3)),
        Run(28, 4, (1, 2, 3)),
    )


def test_a_table_survives_its_way_through_a_manifest() -> None:
    table, _ = random_segments(random.Random(3))
    assert Segments.from_json(table.to_json()) == table


def test_a_run_begins_where_a_segment_ends() -> None:
    with pytest.raises(ValueError, match="begins where a segment"):
        Segments((Run(0, 4, (1,)), Run(6, 2, (1,))))
