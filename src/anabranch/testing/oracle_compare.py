"""Multiset equality of two results, with a difference that can be read.

Values are compared by meaning, not by bits: NULL equals NULL, NaN equals NaN whatever its payload,
-0.0 equals 0.0, and the width of a number or the unit of a timestamp does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa

Rows: TypeAlias = pa.Table | Path
"""A table, or a directory of parquet files (hidden ones and those that start with `_` do not count)."""


class DifferentRows(AssertionError):
    """Two results are not the same multiset."""


def assert_same_rows(actual: Rows, expected: Rows, *, what: str = "result", shown: int = 5) -> None:
    """Raise `DifferentRows` unless both hold the same rows equally often, in any order.

    Columns are matched by name. The message gives the counts and the first `shown` rows of each side.

    Examples
    --------
    >>> import math
    >>> one = pa.table({"k": [1, 2, 2], "v": [0.0, None, math.nan]})
    >>> two = pa.table({"v": [math.nan, -0.0, None], "k": [2, 1, 2]})
    >>> assert_same_rows(one, two)
    >>> assert_same_rows(one, two.slice(1))
    Traceback (most recent call last):
    anabranch.testing.oracle_compare.DifferentRows: result: 3 rows, expected 2
      unexpected: 1 row
        v=nan, k=2
    """
    difference = compare_rows(actual, expected, shown=shown)
    if not difference.empty:
        raise DifferentRows(difference.describe(what))


@dataclass(frozen=True, slots=True)
class Difference:
    """What one multiset of rows has and the other has not."""

    columns: tuple[str, ...]
    actual_rows: int
    expected_rows: int
    missing: int
    unexpected: int
    missing_rows: tuple[tuple[object, ...], ...]
    """The first missing rows: their values, and at the end how many times each is missing."""
    unexpected_rows: tuple[tuple[object, ...], ...]

    @property
    def empty(self) -> bool:
        """True when the two are equal."""
        return self.missing == 0 and self.unexpected == 0

    def describe(self, what: str) -> str:
        """The difference as indented text."""
        lines = [f"{what}: {_rows(self.actual_rows)}, expected {self.expected_rows:,}"]
        sides = (
            ("missing", self.missing, self.missing_rows),
            ("unexpected", self.unexpected, self.unexpected_rows),
        )
        for side, count, rows in sides:
            if count:
                lines.append(f"  {side}: {_rows(count)}")
                lines.extend(f"    {self._show(row)}" for row in rows)
                if sum(int(str(row[-1])) for row in rows) < count:
                    lines.append("    …")
        return "\n".join(lines)

    def _show(self, row: tuple[object, ...]) -> str:
        *values, times = row
        text = ", ".join(f"{c}={v!r}" for c, v in zip(self.columns, values, strict=True))
        return text if times == 1 else f"{text}  ({times}×)"


def compare_rows(actual: Rows, expected: Rows, *, shown: int = 5) -> Difference:
    """Compare two multisets of rows; raise AssertionError if their columns cannot be compared."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        types_a = _load(connection, "actual_raw", actual)
        types_e = _load(connection, "expected_raw", expected)
        _check_columns(types_a, types_e)
        for side in ("actual", "expected"):
            types = types_a if side == "actual" else types_e
            # The order of columns is that of the expected rows, because EXCEPT goes by position.
            values = ", ".join(f"{_by_meaning(c, types[c])} AS {_quoted(c)}" for c in types_e)
            connection.execute(f"CREATE TEMP VIEW {side} AS SELECT {values} FROM {side}_raw")
        missing, missing_rows = _excess(connection, "expected", "actual", shown)
        unexpected, unexpected_rows = _excess(connection, "actual", "expected", shown)
        return Difference(
            columns=tuple(types_e),
            actual_rows=_count(connection, "actual_raw"),
            expected_rows=_count(connection, "expected_raw"),
            missing=missing,
            unexpected=unexpected,
            missing_rows=missing_rows,
            unexpected_rows=unexpected_rows,
        )


def _load(connection: duckdb.DuckDBPyConnection, name: str, rows: Rows) -> dict[str, str]:
    """Make the rows a view called `name`; return its columns and DuckDB types."""
    if isinstance(rows, Path):
        files = [str(p) for p in sorted(rows.rglob("*.parquet")) if not _hidden(p.relative_to(rows))]
        if not files:
            raise AssertionError(f"no parquet files in {rows}")
        connection.from_parquet(files, union_by_name=True, hive_partitioning=False).create_view(name)
    else:
        if len(set(rows.column_names)) < rows.num_columns:
            raise AssertionError(f"columns must have different names, not {rows.column_names}")
        connection.register(name, rows)
    described = connection.execute(f"DESCRIBE {name}").fetchall()
    return {str(row[0]): str(row[1]) for row in described}


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _check_columns(actual: dict[str, str], expected: dict[str, str]) -> None:
    if set(actual) != set(expected):
        raise AssertionError(f"columns {list(actual)} are not the expected {list(expected)}")
    for column, type_ in expected.items():
        if _family(actual[column]) != _family(type_):
            raise AssertionError(f"column {column!r} is {actual[column]}, expected {type_}")


def _family(type_: str) -> str:
    """Types that may be compared with each other have the same family."""
    if "(" in type_ and not type_.startswith("DECIMAL"):
        return type_  # STRUCT, MAP: as they are
    if type_.endswith("INT") or type_ in ("INTEGER", "UINTEGER"):
        return "integer"
    if type_ in ("FLOAT", "DOUBLE"):
        return "float"
    if type_.startswith("TIMESTAMP"):
        return "timestamp"
    return "decimal" if type_.startswith("DECIMAL") else type_


def _by_meaning(column: str, type_: str) -> str:
    """SQL that gives equal values for equal meanings."""
    name = _quoted(column)
    match _family(type_):
        case "float":
            # -0.0 + 0.0 is 0.0
            wide = f"{name}::DOUBLE"
            return f"CASE WHEN isnan({wide}) THEN 'nan'::DOUBLE ELSE {wide} + 0.0 END"
        case "timestamp":
            return f"make_timestamp(epoch_us({name}))"
        case _:
            return name


def _excess(
    connection: duckdb.DuckDBPyConnection, left: str, right: str, shown: int
) -> tuple[int, tuple[tuple[object, ...], ...]]:
    """How many rows `left` has beyond those of `right`, and the first of them with their multiplicity."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE excess AS FROM {left} EXCEPT ALL FROM {right}")
    count = _count(connection, "excess")
    query = f"SELECT *, count(*) FROM excess GROUP BY ALL ORDER BY ALL LIMIT {shown}"
    return count, tuple(connection.execute(query).fetchall()) if count else ()


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
    assert row is not None
    return int(row[0])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"
