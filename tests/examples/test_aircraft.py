"""The example of aircraft: joins by proximity in space and time, over all sites, equal to DuckDB."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import parse_flow
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.support.oracle_check import check_rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "aircraft"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_encounters_over_all_sites_equal_duckdb(tmp_path: Path) -> None:
    files = _load("make_data").make_data(tmp_path, aircraft=150, seconds=120)
    flow = parse_flow((EXAMPLE / "flow.sql").read_text(encoding="utf-8"))
    batches = [
        {name: pq.read_table(tmp_path / name / f"{file:04d}.parquet") for name in ("positions", "storms")}
        for file in range(files)
    ]
    run = LocalRun(tmp_path / "ck", flow.streams, flow.queries, settings=Settings(sites=8, slots=2))
    arrived = 0
    for batch in batches:
        summary = run.batch(batch)
        arrived = max(arrived, sum(site.rows > 0 for report in summary.reports for site in report.sites))
    run.end_of_input()
    run.close()
    assert arrived == 8
    models = accepted_rows(flow.streams, batches)
    for query in flow.queries:
        tables = {name: model.rows_for(query) for name, model in models.items()}
        found = run.results(query.name)
        assert found.num_rows > 20, query.name
        check_rows(found, expected_rows(query, flow.streams, tables), what=query.name)


def test_the_flow_file_of_the_example_is_spread_by_time() -> None:
    result = CliRunner().invoke(app, ["explain", str(EXAMPLE / "flow.sql"), "--sites", "8"])
    assert result.exit_code == 0, result.output
    assert "segments" in result.output, result.output
