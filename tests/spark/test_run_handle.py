"""The handle of a run on Spark: what it tells, how it is stopped, what listeners hear."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.engine.json_log import EVENT_LOG, PROGRESS_LOG, read_log
from anabranch.state import PosixStorage

pytestmark = pytest.mark.spark

Start = Callable[..., tuple[ab.Session, ab.Run]]


class Heard(ab.Listener):
    """Remembers what it was told, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def on_event(self, event: ab.Event) -> None:
        self.told.append(event)

    def on_progress(self, progress: ab.Progress) -> None:
        self.told.append(progress)

    def on_end(self, error: ab.AnabranchError | None) -> None:
        self.told.append(("ended", error))


class Deaf(ab.Listener):
    """Fails at everything."""

    def on_progress(self, progress: ab.Progress) -> None:
        raise ValueError(progress.batch)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> ab.Session:
    """One stream, of text files with a number each, and a query over it."""
    (tmp_path / "in").mkdir()
    session = ab.Session(spark, tmp_path / "checkpoint", sites=2)
    reader = spark.readStream.schema("k BIGINT, ts TIMESTAMP").option("maxFilesPerTrigger", 1)
    session.stream("s", reader.json(str(tmp_path / "in")), time="ts")
    session.query("q", "SELECT k FROM s", ab.memory())
    return session


def add_file(session: ab.Session, number: int) -> None:
    line = f'{{"k": {number}, "ts": "2026-01-01T00:00:{number:02d}Z"}}'
    (session.checkpoint.parent / "in" / f"{number}.json").write_text(line)


def test_a_run_tells_who_it_is_and_when_all_is_processed(session: ab.Session) -> None:
    add_file(session, 0)
    with session:
        run = session.start(queryName="numbers")
        run.processAllAvailable()
        add_file(session, 1)
        run.processAllAvailable()
        assert run.lastProgress is not None
        assert (run.lastProgress.batch, run.lastProgress["numInputRows"]) == (1, 1)
        assert run.name == "numbers"
        assert run.isActive
        assert "numbers" not in (run.id, run.runId)
        assert "running" in repr(run)
        with pytest.raises(ab.ConfigError, match="running"):
            session.query("late", "SELECT k FROM s", ab.memory())
        first = run.id, run.runId
    assert not run.isActive
    assert run.status["message"] == "stopped"
    with pytest.raises(ab.ConfigError, match="has ended"):
        run.set(sites=3)
    again = session.start(availableNow=True)
    again.awaitTermination()
    assert again.id == first[0]
    assert again.runId != first[1]
    assert again.status["message"] == "done"


def test_listeners_hear_every_step_and_the_end_once_and_the_logs_have_the_same(session: ab.Session) -> None:
    add_file(session, 0)
    add_file(session, 1)
    heard = Heard()
    run = session.start(availableNow=True, listeners=[Deaf(), heard])
    run.awaitTermination()
    assert heard.told[-1] == ("ended", None)
    assert [p.batch for p in heard.told if isinstance(p, ab.Progress)] == [0, 1]
    assert [e for e in heard.told if isinstance(e, ab.Event)] == run.events
    assert list(read_log(PosixStorage(session.checkpoint), PROGRESS_LOG)) == [
        p.to_json() for p in run.recentProgress
    ]
    logged = list(read_log(PosixStorage(session.checkpoint), EVENT_LOG))
    assert [e["message"] for e in logged] == [e.message for e in run.events]
    assert "done" in run._repr_html_()


def test_a_listener_may_stop_the_run(session: ab.Session) -> None:
    runs: list[ab.Run] = []

    class Stops(ab.Listener):
        def on_progress(self, progress: ab.Progress) -> None:
            runs[0].stop()

    def started(run: ab.Run) -> None:
        runs.append(run)
        add_file(session, 0)

    started(session.start(listeners=[Stops()]))
    assert runs[0].awaitTermination(120)
    assert [p.batch for p in runs[0].recentProgress] == [0]


def test_a_failure_ends_the_run_and_is_told_to_listeners(session: ab.Session) -> None:
    def broken(rows: DataFrame, batch: int) -> None:
        raise OSError(28, "No space left on device")

    session.query("q", "SELECT k FROM s", broken, replace=True)
    add_file(session, 0)
    heard = Heard()
    run = session.start(availableNow=True, listeners=[heard])
    with pytest.raises(ab.AnabranchError, match=r"not taken by its sink: .*No space left"):
        run.awaitTermination()
    assert heard.told[-1] == ("ended", run.exception())
    assert run.status["message"] == "failed"


def test_spark_settings_of_the_start_are_seen_without_the_spark_context(spark: SparkSession) -> None:
    assert "spark.local.dir" in spark.conf.getAll


STOP_IN_MID_BATCH = """
import sys, threading
from pathlib import Path
import anabranch as ab
from tests.support.spark_cluster import wait_until

spark = ab.spark_session("local[2]")
reader = spark.readStream.format("rate").option("rowsPerSecond", 100)
began = threading.Event()

def busy(rows, batch):
    began.set()
    spark.range(3 * 10**8).selectExpr("sum(id % 7)").collect()

def started(name):
    session = ab.Session(spark, f"{sys.argv[1]}/{name}", sites=2)
    session.stream("r", reader.load(), time="timestamp")
    session.query("q", "SELECT value FROM r", busy)
    return session.start()

for name in ["cold", "busy"]:
    run = started(name)
    if name == "cold":  # the first batch waits for the workers, which Spark has just begun to start
        offsets = Path(sys.argv[1], name, "spark", "offsets", "0")
        wait_until(offsets.exists, "the first batch has begun")
    else:
        assert began.wait(120)
    run.stop()
    assert run.exception() is None
    print(run.status["message"])
"""


def test_to_stop_in_mid_batch_is_quiet(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", STOP_IN_MID_BATCH, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert told.stdout.split() == ["stopped"] * 2
    noise = [line for line in told.stderr.splitlines() if "Error" in line or "Exception" in line]
    assert not noise, told.stderr[:2000]
