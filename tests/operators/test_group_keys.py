"""Groups behind equal hashes, and rows that later windows can do without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.group.final_rows import Emission, final_rows
from anabranch.operators.group.gathered_groups import shared_hashes
from anabranch.operators.group.group_keys import group_numbers, mixed_hashes
from anabranch.operators.group.newest_rows import Trim, keep_newest
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import HASH, TIME

ALL = np.ones(256, dtype=bool)


def node(*, keys: tuple[str, ...] = ("k",), proved: bool = False) -> WindowNode:
    return WindowNode(
        "state", 10, None, distinct=False, keys=keys, proved=proved, aggregates=(), having=None, names={}
    )


def rows(hashes: Sequence[int], keys: Sequence[Any], kind: pa.DataType | None = None) -> RowSet:
    times = pa.array(range(len(hashes)), pa.int64())
    return RowSet(
        pa.record_batch(
            {HASH: pa.array(hashes, pa.int64()), TIME: times, "k": pa.array(keys, kind or pa.large_string())}
        )
    )


@pytest.mark.parametrize(
    ("keys", "kind", "mixed"),
    [
        (["a", "a", "b"], pa.large_string(), [7]),
        (["a", "a", "a"], pa.large_string(), []),
        (["a", None, "a"], pa.large_string(), [7]),
        ([None, None, None], pa.large_string(), []),
        ([0.0, -0.0, 0.0], pa.float64(), []),
        ([float("nan"), float("nan"), float("nan")], pa.float64(), []),
        ([float("nan"), None, float("nan")], pa.float64(), [7]),
    ],
)
def test_a_hash_is_mixed_when_its_keys_differ(keys: list[Any], kind: pa.DataType, mixed: list[int]) -> None:
    assert mixed_hashes(rows([7, 7, 7], keys, kind), node()).tolist() == mixed


def test_a_lone_short_key_needs_no_proof_unless_it_is_null() -> None:
    known, null = rows([7, 7], [1, 2], pa.int64()), rows([7, 7], [0, None], pa.int64())
    assert mixed_hashes(known, node(proved=True)).tolist() == []
    assert mixed_hashes(null, node(proved=True)).tolist() == [7]


def test_a_hash_whose_keys_differ_between_blocks_is_shared() -> None:
    blocks = [rows([7, 8], ["a", "c"]), rows([7, 8], ["b", "c"])]
    final = final_rows(blocks, Emission(0, 9), ALL)
    assert final is not None
    assert shared_hashes(final, node()).tolist() == [7]


def test_group_numbers_agree_exactly_where_all_keys_do() -> None:
    batch = pa.record_batch(
        {"a": pa.array([1, 1, None, None, 1, 0], pa.int64()), "b": pa.array(["x", "y", "x", "x", "x", None])}
    )
    numbers = group_numbers(batch, ["a", "b"]).tolist()
    groups: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        groups.setdefault(number, []).append(row)
    assert sorted(groups.values()) == [[0, 4], [1], [2, 3], [5]]


def test_the_newest_rows_of_each_group_are_kept_and_all_that_are_not_final() -> None:
    #            time   0  1  2  3 | 4  5      final before 4
    kept = keep_newest(rows([1, 1, 1, 1, 1, 1], ["a"] * 6), Trim(node(), newest=2, before=4))
    assert kept.column(TIME).to_pylist() == [2, 3, 4, 5]


def test_nothing_of_a_group_is_kept_when_later_windows_need_none_of_it() -> None:
    kept = keep_newest(rows([1, 1, 2], ["a", "a", "b"]), Trim(node(), newest=0, before=2))
    assert kept.column(TIME).to_pylist() == [2]


def test_groups_that_share_a_hash_keep_all_their_rows() -> None:
    kept = keep_newest(rows([1, 1, 1, 2, 2], ["a", "b", "b", "c", "c"]), Trim(node(), newest=1, before=9))
    assert kept.column(TIME).to_pylist() == [0, 1, 2, 4]
