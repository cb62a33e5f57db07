"""The bench of a hot key: the same results whole, spread and by DuckDB."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from anabranch.bench.joins.hotkey import run_hotkey
from anabranch.bench.report import hotkey_table
from anabranch.cli.app import app


def test_a_hot_key_has_the_same_results_whole_spread_and_in_duckdb(tmp_path: Path) -> None:
    found = run_hotkey(tmp_path, rows=300, batches=1)
    assert found.results > 1_000
    assert found.duckdb_s is not None
    assert len(hotkey_table(found).rows) == 4


def test_the_bench_can_be_called() -> None:
    result = CliRunner().invoke(app, ["bench", "hotkey", "--help"])
    assert result.exit_code == 0, result.output
