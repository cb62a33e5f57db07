"""Nasty input 25: the same values in other Arrow layouts, as a slot may receive or a kernel may read them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.rows.expressions import filter_rows
from anabranch.operators.rows.row_set import RowSet, concat_rows, equal_or_unknown_false, int64s
from anabranch.plan.inputs import HASH, TIME

TEXTS = ["a", "", None, "e\u0301", "x" * 100]
LAYOUTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "string": lambda a: a,
    "large_string": lambda a: a.cast(pa.large_string()),
    "string_view": lambda a: a.cast(pa.string_view()),
    "dictionary": lambda a: a.dictionary_encode(),
    "sliced": lambda a: pa.concat_arrays([pa.array(["no", None]), a, pa.array(["no"])]).slice(2, len(a)),
}


def batch(layout: str) -> pa.RecordBatch:
    text = LAYOUTS[layout](pa.array(TEXTS, pa.string()))
    size = len(TEXTS)
    columns = {HASH: pa.array(range(size, 0, -1), pa.int64()), TIME: pa.array([1] * size), "a.0": text}
    return pa.RecordBatch.from_pydict(columns)


# Arrow cannot yet take rows out of a view; none reaches a kernel, because `decode` turns it into text.
WITHOUT_VIEWS = [name for name in LAYOUTS if name != "string_view"]


@pytest.mark.parametrize("layout", WITHOUT_VIEWS)
def test_rows_are_sorted_the_same_in_every_layout(layout: str) -> None:
    assert RowSet.sorted(batch(layout), TIME).batch.column("a.0").to_pylist() == TEXTS[::-1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_predicates_see_the_same_values_in_every_layout(layout: str) -> None:
    found = filter_rows(pa.Table.from_batches([batch(layout)]), ["\"a.0\" >= 'a'"])
    assert found.column("a.0").to_pylist() == ["a", "e\u0301", "x" * 100]


@pytest.mark.parametrize("layout", WITHOUT_VIEWS)
def test_full_keys_are_compared_the_same_in_every_layout(layout: str) -> None:
    text = batch(layout).column("a.0")
    assert equal_or_unknown_false(text, text).to_pylist() == [True, True, False, True, True]


def test_chunks_without_rows_change_nothing() -> None:
    some = batch("large_string")
    none = some.slice(0, 0)
    assert concat_rows([none, some, none]).to_pylist() == some.to_pylist()
    assert concat_rows([none, none]).num_rows == 0


def test_a_slice_with_an_offset_shows_its_own_rows() -> None:
    part = batch("string").slice(2, 2)
    assert int64s(part, HASH).tolist() == [3, 2]
    assert RowSet.sorted(part, TIME).batch.column("a.0").to_pylist() == ["e\u0301", None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_means_the_same_in_every_unit(unit: str) -> None:
    times = pa.array(np.array([0, 86_400], "datetime64[s]")).cast(pa.timestamp(unit))
    found = filter_rows(pa.table({"t": times}), ['epoch_us("t") = 86400000000'])
    assert found.num_rows == 1
