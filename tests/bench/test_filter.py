"""The benchmark of the group filter runs, and finds what DuckDB finds."""

from __future__ import annotations

import json

from anabranch.bench.kernels.filter import run_filter
from anabranch.bench.report import filter_table, plain_json


def test_the_group_filter_finds_as_many_pairs_as_duckdb_and_is_reported() -> None:
    results = tuple(run_filter(rows=5000, rounds=1, counts=(200,)))
    assert all(r.pairs and r.duckdb_seconds is not None for r in results)
    assert filter_table(results).row_count == 3
    assert json.dumps([plain_json("filter", r) for r in results])
