from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_the_demo_runs_both_queries_checks_them_and_adapts_to_a_shift(
    anabranch: Command, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("anabranch.cli.demo.demo.start_spark", lambda *_, **__: spark)
    result = anabranch("demo", "--dir", tmp_path / "demo", "--bids", 200, "--batches", 5)
    assert result.exit_code == 0, result.output + result.stderr
    assert result.output.count("exactly those of DuckDB") == 2
    assert "times the rows per second" in result.output
    assert "the results are the same" in result.output
    assert (tmp_path / "demo" / "flow.sql").exists()


def test_the_demo_does_not_write_into_a_directory_with_files(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    result = anabranch("demo", "--dir", tmp_path)
    assert result.exit_code == 2
    assert "is not empty" in result.stderr
