"""Sets of rows: their orders, NULL keys, several keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anabranch.exchange.address import PARTITIONS
from anabranch.operators.join.match import match
from anabranch.operators.rows.row_set import RowSet, concat_rows, equal_or_unknown_false
from anabranch.plan.inputs import HASH, TIME
from anabranch.plan.nodes import LeafNode

LEAF = LeafNode(("a",), 0, "s", 10, {})


def rows(h: list[int], ts: list[int], **keys: list[int | None]) -> RowSet:
    columns = {HASH: pa.array(h, pa.int64()), TIME: pa.array(ts, pa.int64())}
    columns |= {name: pa.array(values, pa.int64()) for name, values in keys.items()}
    return RowSet.sorted(pa.RecordBatch.from_pydict(columns), TIME)


def test_rows_are_sorted_by_routing_hash_and_time() -> None:
    batch = rows([2, 1, 2, 1], [5, 9, 3, 4], id=[0, 1, 2, 3]).batch
    assert batch.column("id").to_pylist() == [3, 1, 2, 0]


def test_a_null_in_one_key_keeps_a_row_out_of_the_index() -> None:
    some = rows([0, 0, 0, 0], [1, 2, 3, 4], k=[7, None, 7, None], j=[1, 1, None, None])
    assert some.side(LEAF, ("k", "j")).hashes.shape == (1,)
    assert some.side(LEAF, ("k",)).hashes.shape == (2,)
    assert some.side(LEAF, ()).hashes.shape == (4,)


@pytest.mark.parametrize("partitions", [[0], [1, 2], [0, 2], [], [0, 1, 2], [9]])
def test_a_part_has_the_rows_of_its_partitions_however_they_lie(partitions: list[int]) -> None:
    some = rows([p << 56 for p in (0, 1, 2, 1, 0, 2)], [1, 2, 3, 4, 5, 6], id=[0, 1, 2, 3, 4, 5])
    mask = np.isin(np.arange(PARTITIONS), partitions)
    assert some.part(mask).batch.to_pylist() == some.within(mask).batch.to_pylist()
    assert not len(RowSet(some.batch.slice(0, 0)).part(mask))


def test_null_and_the_value_that_stands_for_it_do_not_meet() -> None:
    nulls, zeros = rows([0], [1], k=[None]), rows([0], [1], k=[0])
    assert not list(match(nulls.side(LEAF, ("k",)), zeros.side(LEAF, ("k",))))
    assert not list(match(zeros.side(LEAF, ("k",)), nulls.side(LEAF, ("k",))))


def test_several_keys_match_only_when_all_are_equal() -> None:
    left = rows([0, 0, 0], [1, 1, 1], k=[1, 1, 2], j=[1, 2, 1])
    right = rows([0, 0], [1, 1], k=[1, 2], j=[2, 2])
    (found,) = match(left.side(LEAF, ("k", "j")), right.side(LEAF, ("k", "j")))
    assert [column.tolist() for column in found] == [[1], [0]]


def test_an_index_is_built_once() -> None:
    some = rows([0, 0], [1, 2], k=[2, 1])
    assert some.side(LEAF, ("k",)).rows is some.side(LEAF, ("k",)).rows


def test_rows_with_other_columns_are_joined_on_those_they_share() -> None:
    """A restart without one of two queries that shared a state leaves such blocks."""
    first = pa.RecordBatch.from_pydict({"h": [1], "v": [2], "w": [3]})
    second = pa.RecordBatch.from_pydict({"h": [4], "w": [5]})
    assert concat_rows([first, second]).to_pylist() == [{"h": 1, "w": 3}, {"h": 4, "w": 5}]


def test_rows_with_the_same_columns_in_another_order_are_joined_by_name() -> None:
    first = pa.RecordBatch.from_pydict({"h": [1], "v": [2]})
    second = pa.RecordBatch.from_pydict({"v": [3], "h": [4]})
    assert concat_rows([first, second]).to_pylist() == [{"h": 1, "v": 2}, {"h": 4, "v": 3}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "e\u0301", "", None], pa.large_string()),
        ([b"a", b"\xff", b"", None], pa.large_binary()),
        ([1, 2, 3, None], pa.decimal128(20, 5)),
    ],
    ids=["text", "binary", "decimal"],
)
def test_full_keys_are_compared_and_null_equals_nothing(values: list[object], kind: pa.DataType) -> None:
    some = pa.array(values, kind)
    assert equal_or_unknown_false(some, some).to_pylist() == [True, True, True, False]
    assert equal_or_unknown_false(some, some.take([1, 0, 2, 2])).to_pylist() == [False, False, True, False]


def test_a_column_of_rows_in_order_is_seen_without_a_copy() -> None:
    some = rows(list(range(10)), list(range(10)))
    side = some.side(LEAF, ())
    assert side.rows is None
    assert side.hashes.ctypes.data == some.batch.column(HASH).buffers()[1].address


def test_rows_that_are_in_no_order_are_found_by_their_routing_hash() -> None:
    columns = {HASH: pa.array([2, 1, 2]), TIME: pa.array([5, 9, 3])}
    side = RowSet(pa.RecordBatch.from_pydict(columns)).side(LEAF, ())
    assert side.hashes.tolist() == [1, 2, 2]
    assert side.rows is not None
    assert side.rows.tolist() == [1, 2, 0]


def test_merged_rows_are_in_order_unless_none_of_them_was() -> None:
    first, second = rows([3, 1], [1, 2]).batch, rows([2], [3]).batch
    loose = second.replace_schema_metadata(None)
    assert RowSet.merged([first, second], TIME).side(LEAF, ()).rows is None
    assert RowSet.merged([loose, first], TIME).batch.column(HASH).to_pylist() == [1, 2, 3]
    assert RowSet.merged([loose, loose], TIME).side(LEAF, ()).rows is not None
    assert RowSet(concat_rows([first, second])).side(LEAF, ()).hashes.tolist() == [1, 2, 3]
