"""Predicates and SELECT lists that span streams."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from anabranch.operators.rows.expressions import _connection, filter_rows, join_rows, project, to_json
from anabranch.plan.logical import Output

ROWS = pa.table({"a.0": pa.array([1, 2, None], pa.int32()), "b.0": pa.array([3, 1, 5], pa.int32())})


def operand(row: str, times: list[int], **columns: pa.Array) -> pa.Table:
    numbers = pa.array(range(len(times)), pa.int32())
    return pa.table({row: numbers, "t": times, "d": [t + 2 for t in times], **columns})


def test_a_predicate_keeps_rows_for_which_it_is_true_not_unknown() -> None:
    assert filter_rows(ROWS, ['"a.0" < "b.0"']).column("b.0").to_pylist() == [3]
    assert filter_rows(ROWS, ['"a.0" < "b.0"', '"b.0" > 100']).num_rows == 0


def test_no_predicate_keeps_everything() -> None:
    assert filter_rows(ROWS, []) is ROWS


def test_a_result_has_the_types_the_binder_promised() -> None:
    outputs = (
        Output("sum", "bigint", '"a.0" + "b.0"', None),
        Output("b", "int", '"b.0"', ("b", 0)),
        Output("one", "smallint", "1", None),
        Output("text", "string", "'x'", None),
    )
    table = project(ROWS, outputs)
    assert table.schema.types == [pa.int64(), pa.int32(), pa.int16(), pa.large_string()]
    assert table.column("sum").to_pylist() == [4, 3, None]
    assert table.column("one").to_pylist() == [1, 1, 1]
    assert project(ROWS.slice(0, 0), outputs).schema == table.schema


def test_text_keeps_its_64_bit_offsets() -> None:
    rows = pa.table({"a.0": pa.array(["x"], pa.large_string()), "b.0": pa.array([b"y"], pa.large_binary())})
    assert filter_rows(rows, ["\"a.0\" = 'x'"]).schema.types == [pa.large_string(), pa.large_binary()]
    assert to_json(rows.to_batches()[0]).type == pa.large_string()


def test_a_theta_join_is_bounded_by_both_windows() -> None:
    left, right = operand("l", [0, 5]), operand("r", [2, 3, 8])
    pairs = [tuple(p.values()) for b in join_rows(left, right, []) for p in b.to_pylist()]
    assert sorted(pairs) == [(0, 0), (1, 1)]


def test_predicates_may_run_while_the_pairs_of_a_theta_join_are_being_read() -> None:
    """The first million pairs go through SELECT expressions before the second million is fetched."""
    side = [1] * 1100
    reader = join_rows(operand("l", side), operand("r", side), [])
    total = 0
    for batch in reader:
        total += batch.num_rows
        assert filter_rows(ROWS, ['"b.0" > 1']).num_rows == 2
    assert total == 1100 * 1100


def test_a_theta_join_that_is_given_up_leaves_the_connection_usable() -> None:
    side = [1] * 1100
    reader = join_rows(operand("l", side), operand("r", side), [])
    next(reader)
    reader.close()
    assert sum(b.num_rows for b in join_rows(operand("l", [1]), operand("r", [1]), [])) == 1


def test_expressions_cannot_read_files() -> None:
    with pytest.raises(duckdb.Error):
        _connection().sql("SELECT * FROM read_csv('/etc/passwd')").fetchall()


def test_a_row_as_json_keeps_what_is_not_text() -> None:
    batch = pa.RecordBatch.from_pydict({"x": pa.array([b"\xff", None]), "d": pa.array([float("nan"), 1.5])})
    first, second = to_json(batch).to_pylist()
    assert "xFF" in first
    assert "1.5" in second


def test_a_row_as_json_keeps_text_that_is_not_utf8() -> None:
    given = pa.array([b"ab\xff", b"\xc3\xa4", None], pa.large_binary())
    text = pa.Array.from_buffers(pa.large_string(), 3, given.buffers())
    found = to_json(pa.RecordBatch.from_pydict({"x": text, "n": pa.array([1, 2, 3])}))
    assert found.to_pylist() == [r'{"x":"ab\\xff","n":1}', '{"x":"ä","n":2}', '{"x":null,"n":3}']
