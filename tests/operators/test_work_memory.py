"""Bytes counted while rows are made: pieces, the budget, pairs that are cut, orders that are forgotten."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.join.pair_bytes import Pairs, cut_pairs
from anabranch.operators.rows.index_memory import Indexes, IndexMemory
from anabranch.operators.rows.row_set import RowSet
from anabranch.operators.work_memory import MEBIBYTE, KeptTooMuch, WorkMemory


def table(size: int) -> pa.Table:
    return pa.table({"x": np.zeros(size // 8, dtype=np.int64)})


def test_pieces_are_full_or_the_rest() -> None:
    memory = WorkMemory("q", 160 * 64)
    found = list(memory.pieces([table(320), table(0), table(320), table(64)]))
    assert [(sum(t.nbytes for t in tables), is_full) for tables, is_full in found] == [
        (640, True),
        (64, False),
    ]


def test_rows_are_counted_before_the_next_ones_are_made() -> None:
    made = []

    def making() -> pa.Table:
        for _ in range(10):
            made.append(table(MEBIBYTE))
            yield made[-1]

    with pytest.raises(KeptTooMuch, match=r"'q' made more than 2\.0 MiB of rows to keep") as error:
        list(WorkMemory("q", 2 * MEBIBYTE).pieces(making()))
    assert len(made) == 3
    assert error.value.budget == 2 * MEBIBYTE


def test_a_piece_in_a_file_is_known_as_such() -> None:
    written = []

    def spill(state: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        written.append(state)
        return pa.record_batch(rows.columns, names=rows.schema.names)

    memory, rows = WorkMemory("q", 1_000, spill), table(80).to_batches()[0]
    assert memory.is_placed(memory.placed("s", rows))
    assert not memory.is_placed(rows)
    assert written == ["s"]


def text_rows(*lengths: int | None) -> RowSet:
    values = [None if n is None else "x" * n for n in lengths]
    return RowSet(pa.record_batch({"s": pa.array(values, pa.large_string()), "n": range(len(values))}))


def test_pairs_with_little_text_stay_together() -> None:
    rows = text_rows(5, None, 7)
    pairs = Pairs(rows, np.array([0, 1, 2], np.int32), rows, np.array([2, 2, 2], np.int32))
    ((whole, size),) = cut_pairs(pairs, ("s", "n"), ("s",), most=10_000)
    assert whole is pairs
    assert size >= 5 + 7 + 3 * 7


def test_one_long_text_that_meets_many_rows_is_taken_in_parts() -> None:
    left, right = text_rows(1_000, 3, None), text_rows(*[1] * 500)
    met = np.concatenate([np.zeros(400, np.int32), np.ones(50, np.int32), np.full(50, 2, np.int32)])
    pairs = Pairs(left, met, right, np.arange(500, dtype=np.int32))
    parts = list(cut_pairs(pairs, ("s",), ("s", "n"), most=20_000))
    assert len(parts) > 20
    assert all(size <= 21_100 for _, size in parts)
    assert np.array_equal(np.concatenate([p.left_rows for p, _ in parts]), pairs.left_rows)
    assert np.array_equal(np.concatenate([p.right_rows for p, _ in parts]), pairs.right_rows)


def test_a_pair_that_is_too_large_by_itself_is_a_part() -> None:
    rows = text_rows(5_000, 5_000)
    pairs = Pairs(rows, np.array([0, 1], np.int32), rows, np.array([0, 1], np.int32))
    assert [len(p.left_rows) for p, _ in cut_pairs(pairs, ("s",), ("s",), most=100)] == [1, 1]


def index() -> Indexes:
    found = Indexes()
    found["k",] = np.zeros(10, np.int64), np.zeros(10, np.int32)
    return found


def test_the_index_used_longest_ago_is_forgotten() -> None:
    memory = IndexMemory()
    memory.budget = 250
    first, second, third = index(), index(), index()
    for found in (first, second):
        memory.built(found)
    memory.used(first)
    memory.built(third)
    assert (len(first), len(second), len(third)) == (1, 0, 1)
    assert memory.total == 240


def test_the_last_index_stays_however_large_it_is() -> None:
    memory = IndexMemory()
    memory.budget = 1
    only = index()
    memory.built(only)
    assert len(only) == 1


def test_an_index_whose_rows_are_gone_does_not_count() -> None:
    memory = IndexMemory()
    memory.built(index())
    gc.collect()
    assert memory.total == 0
