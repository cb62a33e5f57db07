"""Rows of a partition are cut by unit, and only units that are joined here are met."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from anabranch.exchange.address import at_partition
from anabranch.operators.join.sources.unit_rows import Probing, UnitRows, by_unit, pieces_of
from anabranch.operators.rows.row_set import RowSet
from anabranch.plan.inputs import HASH, TIME


def rows_of(units: list[int], partition: int = 200) -> RowSet:
    hashes = at_partition(np.full(len(units), partition), np.array(units))
    return RowSet.sorted(pa.record_batch({HASH: hashes, TIME: np.arange(len(units))}), TIME)


def test_rows_are_cut_by_unit_once() -> None:
    rows = rows_of([7, 3, 7, 9])
    assert [(unit, len(piece)) for unit, piece in by_unit(rows)] == [(3, 1), (7, 2), (9, 1)]
    assert by_unit(rows) is by_unit(rows)


def test_units_that_are_not_joined_here_are_not_met() -> None:
    rows = rows_of([7, 3, 7, 9])
    assert [len(piece) for piece in pieces_of(rows, {7, 8})] == [2]
    assert pieces_of(rows, {3, 7, 9}) == [rows], "a block that is met as a whole stays whole"
    assert pieces_of(rows, set()) == []


def test_pairs_that_could_meet_are_counted() -> None:
    source = UnitRows([Probing(rows_of([50, 51]), frozenset({7}))], [rows_of([7, 3, 7]), rows_of([7])])
    assert source.examined() == 2 * 3
