"""Are two big results the same multiset of rows? A digest tells; only a difference is looked at closely."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from anabranch.testing.oracle_compare import compare_rows


@dataclass(frozen=True, slots=True)
class Digest:
    """Number of rows, and two sums over the 64-bit hashes of the rows; order does not matter."""

    rows: int
    total: int
    mixed: int


def digest_of(directory: Path, columns: tuple[str, ...]) -> Digest:
    """Digest of the parquet files below a directory."""
    files = [str(p) for p in directory.rglob("*.parquet") if not p.name.startswith((".", "_"))]
    if not files:
        return Digest(0, 0, 0)
    row = f"hash({', '.join(columns)})"
    found = (
        duckdb.connect()
        .execute(f"SELECT count(*), sum({row}::HUGEINT), bit_xor({row}) FROM read_parquet($1)", [files])
        .fetchone()
    )
    assert found is not None
    return Digest(int(found[0]), int(found[1] or 0), int(found[2] or 0))


def difference(actual: Path, expected: Path, columns: tuple[str, ...]) -> str | None:
    """None when both directories hold the same rows, else what differs."""
    if digest_of(actual, columns) == digest_of(expected, columns):
        return None
    return compare_rows(actual, expected).describe(str(actual))
