"""`anabranch run` on Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from anabranch.bench.joins.anabranch_join import join_text
from anabranch.bench.peers import duckdb_batch_join
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.workloads.uniform import Workload, uniform_streams
from tests.cli.conftest import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WINDOW_US = 2_000_000


@pytest.fixture
def use_spark(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    """Let commands of this process use the session of the tests."""
    monkeypatch.setattr("anabranch.cli.run.start_spark", lambda *_, **__: spark)


def _workload(root: Path, *, batches: int) -> Workload:
    return uniform_streams(root / "in", batches=batches, rows_per_batch=200, key_space=50)


def _flow(workload: Workload, root: Path, sink: str) -> Path:
    streams = "".join(
        f"CREATE STREAM {s.name} ({s.ddl}) FROM parquet '{s.path}'"
        " OPTIONS (maxFilesPerTrigger = 1) TIME ts;\n"
        for s in workload.streams
    )
    path = root / "flow.sql"
    path.write_text(f"{streams}CREATE QUERY pairs INTO {sink} AS {join_text(workload, window_us=WINDOW_US)};")
    return path


@pytest.mark.usefixtures("use_spark")
def test_json_gives_one_object_per_batch_and_says_how_it_ended(anabranch: Command, tmp_path: Path) -> None:
    workload = _workload(tmp_path, batches=3)
    flow = _flow(workload, tmp_path, f"parquet '{tmp_path / 'out'}'")
    result = anabranch(
        "run", flow, "--checkpoint", tmp_path / "ck", "--available-now", "--json", "--sites", 3
    )
    assert result.exit_code == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    batches = [r for r in records if r["type"] == "batch"]
    assert [b["batchId"] for b in batches] == [0, 1, 2]
    assert [b["numInputRows"] for b in batches] == [400] * 3
    assert {s["site"] for s in batches[0]["sites"]} == {0, 1, 2}
    assert records[-1]["kind"] == "finished"
    duckdb_batch_join(workload, window_us=WINDOW_US, scratch=tmp_path / "duckdb")
    assert_same_rows(tmp_path / "out", tmp_path / "duckdb")


@pytest.mark.usefixtures("use_spark")
def test_a_sink_that_cannot_be_written_is_named(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    flow = _flow(_workload(tmp_path, batches=1), tmp_path, f"parquet '{tmp_path / 'file' / 'out'}'")
    result = anabranch("run", flow, "--checkpoint", tmp_path / "ck", "--available-now")
    assert result.exit_code == 1
    assert "cannot write to sink" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.usefixtures("use_spark")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda signal: signal.name)
def test_ctrl_c_stops_and_the_same_command_goes_on_without_loss(
    anabranch: Command, tmp_path: Path, number: signal.Signals
) -> None:
    workload = _workload(tmp_path, batches=20)
    flow = _flow(workload, tmp_path, f"parquet '{tmp_path / 'out'}'")
    arguments = ["run", str(flow), "--checkpoint", str(tmp_path / "ck")]
    script = "from anabranch.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments, "--json", "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        records = [json.loads(process.stdout.readline()) for _ in range(2)]
        # The whole group, as a terminal does it: JVM and Python workers get it, too.
        os.killpg(process.pid, number)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    records += [json.loads(line) for line in output.splitlines()]
    assert process.returncode == 0, errors
    assert errors == ""
    assert records[-1]["kind"] == "stopped"
    assert f"after batch {records[-1]['batch']}" in records[-1]["message"]
    assert 1 <= records[-1]["batch"] < 19, "it should have been stopped on the way"

    result = anabranch(*arguments, "--available-now")
    assert result.exit_code == 0, result.stderr
    assert "everything available is processed" in result.stdout.lower()
    duckdb_batch_join(workload, window_us=WINDOW_US, scratch=tmp_path / "duckdb")
    assert_same_rows(tmp_path / "out", tmp_path / "duckdb")


@pytest.mark.usefixtures("use_spark")
@pytest.mark.parametrize("declared", ["option", "setting"])
def test_the_end_of_input_can_be_declared(anabranch: Command, tmp_path: Path, declared: str) -> None:
    workload = _workload(tmp_path, batches=2)
    stream = workload.streams[0]
    setting = "SET end_of_input = true;\n" if declared == "setting" else ""
    flow = tmp_path / "flow.sql"
    flow.write_text(
        f"{setting}CREATE STREAM {stream.name} ({stream.ddl}) FROM parquet '{stream.path}'"
        " OPTIONS (maxFilesPerTrigger = 1) TIME ts LATENESS 1 HOUR;\n"
        f"CREATE QUERY n INTO parquet '{tmp_path / 'out'}' AS\n"
        f"  SELECT COUNT(*) AS n FROM {stream.name} [RANGE UNBOUNDED];"
    )
    more = ["--end-of-input"] if declared == "option" else []
    result = anabranch("run", flow, "--checkpoint", tmp_path / "ck", "--available-now", *more)
    assert result.exit_code == 0, result.stderr
    counts = pq.read_table(tmp_path / "out").column("n").to_pylist()
    assert len(counts) == 400
    assert max(counts) == 400


@pytest.mark.usefixtures("use_spark")
def test_what_is_final_is_emitted_and_the_end_says_what_waits(anabranch: Command, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, seconds in enumerate(((0, 1, 2), (1,), (3, 9))):
        lines = [f'{{"k":1,"ts":"2026-01-01T00:00:0{s}Z"}}' for s in seconds]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join([*lines, "broken"]))
        os.utime(tmp_path / "in" / f"{number}.json", (1_700_000_000 + number,) * 2)
    flow = tmp_path / "flow.sql"
    flow.write_text(
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) FROM json '{tmp_path / 'in'}'"
        " OPTIONS (maxFilesPerTrigger = 1) TIME ts;\n"
        f"CREATE QUERY n INTO parquet '{tmp_path / 'n'}' AS SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR];\n"
        f"CREATE QUERY all_rows INTO parquet '{tmp_path / 'all'}' AS SELECT k FROM s;"
    )
    command = ["run", flow, "--checkpoint", tmp_path / "ck", "--available-now"]
    result = anabranch(*command)
    assert result.exit_code == 0, result.stderr
    # The row at 9 waits; the second at 1 is too late for the count, and not for the query without state.
    assert sorted(pq.read_table(tmp_path / "n").column("n").to_pylist()) == [1, 2, 3, 4]
    assert pq.read_table(tmp_path / "all").num_rows == 6
    assert "9 rows in all, 1 late, 1 refused, 3 rejected" in result.stdout
    assert "1 result waits for later rows; --end-of-input emits them" in result.stdout
    assert "1 row of s came up to 1 SECOND behind the newest and was refused; LATENESS is 0" in result.stdout
    assert anabranch(*command, "--json").exit_code == 0
    assert len(pq.read_table(tmp_path / "n")) == 4, "once"
    last = json.loads(anabranch(*command, "--end-of-input", "--json").stdout.splitlines()[-1])
    assert (last["late"], last["refused"], last["rejected"], last["waiting"]["n"]) == (1, 1, 3, 0)
    assert len(pq.read_table(tmp_path / "n")) == 5
