from __future__ import annotations

import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.testing.oracle_compare import assert_same_rows, compare_rows


def test_order_of_rows_and_columns_does_not_matter() -> None:
    actual = pa.table({"k": [1, 2, 3], "s": ["x", None, "z"]})
    expected = pa.table({"s": ["z", "x", None], "k": [3, 1, 2]})
    assert_same_rows(actual, expected)


def test_rows_count_as_often_as_they_occur() -> None:
    with pytest.raises(AssertionError, match=r"missing: 1 row\n    k=1$"):
        assert_same_rows(pa.table({"k": [1, 2]}), pa.table({"k": [1, 1, 2]}))
    with pytest.raises(AssertionError, match=r"unexpected: 2 rows\n    k=1  \(2×\)"):
        assert_same_rows(pa.table({"k": [1, 1, 1, 2]}), pa.table({"k": [1, 2]}))


def test_nan_of_any_bits_null_and_negative_zero_compare_by_meaning() -> None:
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]
    actual = pa.table({"v": pa.array(np.array([odd_nan, -0.0, math.inf]), from_pandas=False)})
    assert_same_rows(actual, pa.table({"v": [0.0, math.nan, math.inf]}))
    with pytest.raises(AssertionError, match="missing: 1 row"):
        assert_same_rows(pa.table({"v": [math.nan]}), pa.table({"v": pa.array([None], pa.float64())}))


def test_width_and_unit_do_not_matter() -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    narrow = {
        "i": pa.array([1], pa.int16()),
        "f": pa.array([0.5], pa.float32()),
        "t": pa.array([when], pa.timestamp("ms", "UTC")),
        "s": pa.array(["x"], pa.large_string()),
        "d": pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
    }
    wide = {
        "i": pa.array([1], pa.int64()),
        "f": pa.array([0.5], pa.float64()),
        "t": pa.array([when], pa.timestamp("us", "UTC")),
        "s": pa.array(["x"]).dictionary_encode(),
        "d": pa.array([Decimal("1.500")], pa.decimal128(18, 3)),
    }
    narrow_table, wide_table = pa.table(narrow), pa.table(wide)
    wide_table = wide_table.set_column(3, "s", wide_table["s"].combine_chunks().cast(pa.string()))
    assert_same_rows(narrow_table, wide_table)


def test_other_columns_or_types_are_named() -> None:
    with pytest.raises(AssertionError, match=r"columns \['a'\] are not the expected \['b'\]"):
        assert_same_rows(pa.table({"a": [1]}), pa.table({"b": [1]}))
    with pytest.raises(AssertionError, match="column 'a' is VARCHAR, expected BIGINT"):
        assert_same_rows(pa.table({"a": ["1"]}), pa.table({"a": [1]}))


def test_directories_of_parquet_files_are_read_without_hidden_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "one.parquet")
    (tmp_path / "_temporary").mkdir()
    pq.write_table(pa.table({"k": [9]}), tmp_path / "_temporary" / "half.parquet")
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"k": [2]}), tmp_path / "day=1" / "two.parquet")
    assert_same_rows(tmp_path, pa.table({"k": [2, 1]}))
    with pytest.raises(AssertionError, match="no parquet files"):
        assert_same_rows(tmp_path / "nothing", pa.table({"k": [1]}))


def test_only_the_first_rows_of_a_large_difference_are_shown() -> None:
    difference = compare_rows(pa.table({"k": [0]}), pa.table({"k": list(range(1000))}), shown=2)
    assert difference.missing == 999
    assert difference.describe("pairs").splitlines() == [
        "pairs: 1 row, expected 1,000",
        "  missing: 999 rows",
        "    k=1",
        "    k=2",
        "    …",
    ]
