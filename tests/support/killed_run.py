"""A workload with its flow file, run by drivers that are killed, and judged by DuckDB at the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from anabranch.language.flow import parse_flow
from anabranch.language.oracle.oracle_sql import oracle_sql, oracle_table
from anabranch.plan.logical import Flow
from anabranch.state import PosixStorage, newest
from anabranch.testing.oracle_compare import assert_same_rows
from anabranch.workloads.stream_files import Workload
from anabranch.workloads.uniform import uniform_streams
from tests.support.crash_driver import FAULTS
from tests.support.spark_cluster import wait_until, with_tests

SMALL_DRIVER = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.pollingDelay": "10ms",
}


@dataclass(frozen=True, slots=True)
class KilledRun:
    """A flow over parquet files, with a checkpoint and a sink that outlive its drivers."""

    root: Path
    work: Workload
    flow: Flow

    @property
    def checkpoint(self) -> Path:
        return self.root / "ck"

    @property
    def flow_file(self) -> Path:
        return self.root / "flow.sql"

    def arguments(self, master: str | None) -> list[str]:
        """Of `tests.support.crash_driver`."""
        conf = (
            SMALL_DRIVER
            | {"spark.local.dir": str(self.root / "local")}
            | ({"master": master} if master else {})
        )
        return [str(self.flow_file), str(self.checkpoint), *(f"{k}={v}" for k, v in conf.items())]

    def start(
        self,
        *,
        crash_at: str = "",
        group: bool = False,
        master: str = "local[2,4]",
        plan_ahead: bool = False,
    ) -> Driver:
        """Start a driver that may die at a step, by its own hand."""
        settings = self.arguments(master)
        settings += ["spark.anabranch.plan_ahead=true"] if plan_ahead else []
        asked = {"ANABRANCH_CRASH_AT": crash_at} if crash_at else {}
        asked |= {"ANABRANCH_CRASH_GROUP": "1"} if group else {}
        asked["PYTHONPATH"] = with_tests(os.environ.get("PYTHONPATH"))
        log = self.root / "driver.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.crash_driver", *settings],
                env=os.environ | asked,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Driver(process, log, log.stat().st_size)

    def plant(self, kind: str, batch: int, slot: int) -> None:
        """Make a task fail once: see `crash_driver`."""
        folder = self.checkpoint / FAULTS
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "local").is_symlink():
            (folder / "local").symlink_to(self.root / "local")
        (folder / f"{kind}-{batch}-{slot}").touch()

    def planted(self) -> list[str]:
        """Failures that have not happened yet."""
        return sorted(p.name for p in (self.checkpoint / FAULTS).glob("*-*-*"))

    def spark_is_ahead(self) -> bool:
        """Whether Spark has taken a batch for done that no manifest has."""
        manifest = newest(PosixStorage(self.checkpoint))
        logs = (self.checkpoint / "spark" / "commits").iterdir()
        done = max((int(f.name) for f in logs if f.name.isdecimal()), default=-1)
        return manifest is not None and done == manifest.batch + 1

    def assert_files_lost(self) -> None:
        """Every failure that was planted has happened, and shuffle files were there to be lost."""
        assert not self.planted()
        lost = [p.name for p in (self.checkpoint / FAULTS).glob("lost_*")]
        assert lost
        assert "lost_0_files" not in lost

    def assert_exact(self) -> int:
        """Compare every sink with DuckDB; return the number of result rows."""
        rows = 0
        for query in self.flow.queries:
            assert query.sink is not None
            assert query.sink.path is not None
            right = oracle(self.work, self.flow, query.name)
            assert_same_rows(Path(query.sink.path), right, what=query.name)
            rows += right.num_rows
        return rows


@dataclass(slots=True)
class Driver:
    """A driver process in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path
    _since: int

    def output(self) -> str:
        """What this driver has written."""
        with self.log.open("rb") as file:
            file.seek(self._since)
            return file.read().decode(errors="replace")

    def wait(self, *, timeout: float = 240) -> int:
        """Wait for its end; returns its exit code, negative for a signal."""
        try:
            return self.process.wait(timeout)
        finally:
            self.end()

    def kill_in_batch(self, batch: int, *, after_ms: float, group: bool) -> bool:
        """Kill it some time after it began a batch; False if it had finished before."""
        wait_until(
            lambda: f"batch {batch}\n" in self.output() or self.process.poll() is not None,
            f"batch {batch}",
            timeout=240,
        )
        moment = time.monotonic() + after_ms / 1000
        wait_until(lambda: time.monotonic() >= moment or self.process.poll() is not None, "the moment")
        if self.process.poll() is not None:
            return False
        if group:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.wait()
        return True

    def end(self) -> None:
        """End whatever is left of the group: the JVM outlives a killed driver for a moment."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.process.wait()


def killed_run(
    root: Path, *, batches: int = 12, rows: int = 60, seed: int = 0, routing: str = "coordinated"
) -> KilledRun:
    """Two streams with disorder; joins by key, stations and paths, groups, a filter, an aggregate."""
    disorder_us = 300_000
    work = uniform_streams(
        root / "in", batches=batches, rows_per_batch=rows, key_space=rows, disorder_us=disorder_us, seed=seed
    )
    streams = "\n".join(
        f"CREATE STREAM {s.name} ({s.ddl}) FROM parquet '{s.path}' OPTIONS (maxFilesPerTrigger = 1) "
        f"TIME ts LATENESS {disorder_us} MICROSECONDS;"
        for s in work.streams
    )
    text = f"""
    SET sites = 4;
    SET slots = 2;
    SET max_blocks = 2;
    SET end_of_input = true;
    SET routing = '{routing}';
    {streams}
    CREATE QUERY pairs INTO parquet '{root / "pairs"}' AS
      SELECT a.id AS a, b.id AS b, a.v + b.v AS v
      FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k;
    CREATE QUERY chain INTO parquet '{root / "chain"}' AS
      SELECT a.id AS a, b.id AS b, c.id AS c
      FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS], a [RANGE 2 SECONDS] AS c WHERE a.k = b.k AND b.id = c.id;
    CREATE QUERY near INTO parquet '{root / "near"}' AS
      SELECT a.id AS a, b.id AS b, c.id AS c FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS],
      a [RANGE 2 SECONDS] AS c WHERE abs(a.k - b.k) <= 1 AND abs(b.k - c.k) <= 1;
    CREATE QUERY counts INTO parquet '{root / "counts"}' AS
      SELECT k, count(*) AS n FROM a [RANGE 2 SECONDS] GROUP BY k;
    CREATE QUERY groups INTO parquet '{root / "groups"}' AS
      SELECT a.k, count(*) AS n, max(b.id) AS hi
      FROM a [RANGE 3 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k GROUP BY a.k;
    CREATE QUERY windows INTO parquet '{root / "windows"}' AS
      SELECT k, window.start, count(*) AS n FROM a GROUP BY k, window(ts, '2 seconds');
    CREATE QUERY sessions INTO parquet '{root / "sessions"}' AS
      SELECT k, session_window.end, max(id) AS hi FROM b GROUP BY k, session_window(ts, '1 second');
    CREATE QUERY high INTO parquet '{root / "high"}' AS SELECT id, k, ts FROM b WHERE v > 0.5;
    """
    run = KilledRun(root, work, parse_flow(text))
    run.flow_file.write_text(text)
    return run


def oracle(work: Workload, flow: Flow, query: str) -> pa.Table:
    """What a query must give over all rows of a workload of which none is late."""
    streams = {s.name: s for s in flow.streams}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for files in work.streams:
            if files.name in streams:
                connection.execute(oracle_table(streams[files.name]))
                source = connection.from_parquet(str(files.path / "*.parquet"))
                source.project(", ".join(f'"{c.name}"' for c in streams[files.name].columns)).insert_into(
                    files.name
                )
        wanted = next(q for q in flow.queries if q.name == query)
        return connection.sql(oracle_sql(wanted, streams)).to_arrow_table()


def random_kills(run: KilledRun, steps: Sequence[str], *, seed: int, kills: int) -> int:
    """Kill drivers and workers at random until the input is used up; returns how many died."""
    draw = random.Random(seed)
    died = 0
    for _ in range(kills):
        for _ in range(draw.randint(0, 2)):
            run.plant(
                draw.choice(["kill", "kill", "fail"]), draw.randrange(run.work.batches), draw.randrange(2)
            )
        waiting = len([p for p in run.planted() if p.startswith("kill")])
        group = draw.random() < 0.5
        if draw.random() < 0.5:
            step = f"{draw.choice(steps)}@{draw.randrange(-1, run.work.batches)}"
            died += run.start(crash_at=step, group=group).wait() < 0
        else:
            driver = run.start()
            died += driver.kill_in_batch(
                draw.randrange(run.work.batches), after_ms=draw.uniform(0, 1500), group=group
            )
        died += waiting - len([p for p in run.planted() if p.startswith("kill")])
    driver = run.start()
    if driver.wait() != 0:
        raise AssertionError(f"seed {seed}: {driver.output()[-3000:]}")
    return died
