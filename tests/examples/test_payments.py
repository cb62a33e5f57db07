"""The example runs as its page says, from SQL and from Python, with the same result."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.testing.oracle_compare import assert_same_rows, compare_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "payments"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_flow_file_of_the_example_is_partitioned() -> None:
    result = CliRunner().invoke(app, ["explain", str(EXAMPLE / "flow.sql")])
    assert result.exit_code == 0
    assert "partitioned over" in result.output


@pytest.mark.spark
def test_sql_and_python_give_the_same_results(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("anabranch.spark_session", lambda: spark)
    monkeypatch.setattr("anabranch.cli.run.start_spark", lambda *_, **__: spark)
    _load("make_data").make_data(files=3, orders_per_file=100)
    # The JVM of the tests was started in another directory, where its relative paths begin.
    text = (EXAMPLE / "flow.sql").read_text().replace("'data/", f"'{tmp_path}/data/")
    Path("flow.sql").write_text(text.replace("'out/", f"'{tmp_path}/out/"))
    arguments = ["run", "flow.sql", "--checkpoint", "checkpoint", "--available-now"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    _load("underpaid").main()
    assert_same_rows(tmp_path / "out" / "underpaid-python", tmp_path / "out" / "underpaid")
    found = compare_rows(tmp_path / "out" / "underpaid", tmp_path / "out" / "underpaid").actual_rows
    assert 10 < found < 60  # one in ten of 285 pays too little
