"""The benchmark of joins without an equality runs, and checks what it compares."""

from __future__ import annotations

import json
from pathlib import Path

from anabranch.bench.joins.band import run_band, run_distance
from anabranch.bench.report import band_table, plain_json


def test_the_band_join_gives_as_many_results_as_duckdb_and_is_reported(tmp_path: Path) -> None:
    band = run_band(tmp_path, rows=2000, window_batches=2, batches=2)
    assert band.results
    assert band.ratio > 0
    distance = run_distance(rows=600, dimensions=6, rounds=1)
    assert distance.pairs == 360_000
    assert band_table(band, distance).row_count == 2
    assert json.dumps(plain_json("band", band))
