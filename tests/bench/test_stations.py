"""The benchmark of stations on few rows: what it measures is right; the figures are for full runs."""

from __future__ import annotations

from pathlib import Path

from anabranch.bench.adapting.station_scale import run_station_scale
from anabranch.bench.adapting.stations import run_orders
from anabranch.bench.report import stations_tables
from anabranch.workloads.chain import Chain


def test_orders_give_the_same_results_and_the_eddy_finds_the_better_one(tmp_path: Path) -> None:
    chain = Chain(3_000, 300)
    found = run_orders(tmp_path / "orders", chain, lambda: chain.batches(7, lambda _: (0.1, 5.0)), sites=2)
    assert found.results
    assert found.first[0] < 0.6, "nothing is known of either at first"
    assert found.first[-1] > 0.9
    assert found.migration > 0
    scale = run_station_scale(tmp_path / "scale", rows=2_000, sites=4, batches=1)
    assert scale.spread > 0
    assert [table.row_count for table in stations_tables({"steady": found}, scale)] == [1, 3]


def test_rows_of_two_populations_take_opposite_orders(tmp_path: Path) -> None:
    chain = Chain(6_000, 600)
    found = run_orders(tmp_path, chain, lambda: chain.correlated(6, low=0.05, high=20.0), sites=2)
    assert 0.3 < found.first[-1] < 0.7
