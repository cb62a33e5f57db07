"""The example of flights: three legs without a common key, over all sites, equal to DuckDB."""

from __future__ import annotations

import importlib.util
import random
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from anabranch.cli.app import app
from anabranch.engine.local_driver import LocalRun
from anabranch.engine.settings import Settings
from anabranch.language.flow import parse_flow
from anabranch.plan.nodes import StationsNode
from anabranch.queries.reconcile import reconcile
from anabranch.testing.stream_model import accepted_rows, expected_rows
from tests.support.oracle_check import check_rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights"
AIRPORTS = ("ATL", "BOS", "DEN", "LAS", "SEA")


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_flights(path: Path, *, rows: int, seed: int) -> None:
    """A file as the data set has it, with few airports."""
    draw = random.Random(seed)
    times = [datetime(2001, 1, 1) + timedelta(minutes=draw.randrange(3 * 24 * 60)) for _ in range(rows)]
    ends = [draw.sample(AIRPORTS, 2) for _ in range(rows)]
    table = {
        "date": pa.array(times, pa.timestamp("us")),
        "delay": [draw.choice((-5, 20, 70, 90)) for _ in range(rows)],
        "distance": [draw.randrange(100, 2_000) for _ in range(rows)],
        "origin": pa.array([a for a, _ in ends], pa.large_string()),
        "destination": pa.array([b for _, b in ends], pa.large_string()),
    }
    pq.write_table(pa.table(table), path)


def test_connections_over_all_sites_equal_duckdb(tmp_path: Path) -> None:
    write_flights(tmp_path / "flights.parquet", rows=400, seed=3)
    days = _load("make_data").make_data(tmp_path / "flights.parquet", tmp_path / "data")
    flow = parse_flow((EXAMPLE / "flow.sql").read_text(encoding="utf-8"))
    catalog = reconcile(flow.streams, flow.queries, None)
    assert isinstance(catalog.plans[0].root, StationsNode)
    run = LocalRun(tmp_path / "ck", flow.streams, flow.queries, settings=Settings(sites=8, slots=2))
    batches = [{"flights": pq.read_table(tmp_path / "data" / f"{day:03d}.parquet")} for day in range(days)]
    for batch in batches:
        run.batch(batch)
    run.drain()
    run.close()
    (query,) = flow.queries
    models = accepted_rows(flow.streams, batches)
    tables = {name: model.rows_for(query) for name, model in models.items()}
    found = run.results("late_chains")
    assert days == 3
    assert found.num_rows > 100
    check_rows(found, expected_rows(query, flow.streams, tables), what="flights")


def test_the_flow_file_of_the_example_runs_at_stations_on_all_sites() -> None:
    result = CliRunner().invoke(app, ["explain", str(EXAMPLE / "flow.sql"), "--sites", "8"])
    assert result.exit_code == 0, result.output
    assert "stations, each by its own key over 8 sites" in result.output
    assert "first–second" in result.output
    assert "chosen by the eddy" in result.output
