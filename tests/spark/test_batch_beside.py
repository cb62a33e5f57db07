"""A batch that runs beside Spark's query: what it raises is told, and Spark's log goes back after a crash."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.spark.batch_beside import BatchBeside
from anabranch.spark.checkpoint import check_spark_checkpoint, rewind_spark
from anabranch.spark.reading.repeatable import check_repeatable


def test_a_batch_runs_while_others_go_on_and_what_it_raises_is_told_at_once_and_when_waited_for() -> None:
    told: list[BaseException] = []
    beside, go_on = BatchBeside(told.append), threading.Event()
    beside.wait()  # there is none yet
    beside.begin(lambda: go_on.wait(30.0) and None)
    with pytest.raises(AssertionError, match="the one before has ended"):
        beside.begin(lambda: None)
    go_on.set()
    beside.wait()
    error = ValueError("no")

    def fails() -> None:
        raise error

    beside.begin(fails)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            beside.wait()
    assert told == [error]
    beside.close()


def spark_log(root: Path, *, offsets: int, commits: int) -> dict[str, list[str]]:
    """Spark's half of a checkpoint, with batches up to these."""
    for log, last in (("offsets", offsets), ("commits", commits)):
        (root / "spark" / log).mkdir(parents=True)
        for batch in range(last + 1):
            for name in (f"{batch}", f".{batch}.crc"):
                (root / "spark" / log / name).write_text("v1")
    (root / "spark" / "metadata").write_text('{"id": "it"}')
    return in_log(root)


def in_log(root: Path) -> dict[str, list[str]]:
    return {log: sorted(f.name for f in (root / "spark" / log).iterdir()) for log in ("offsets", "commits")}


@pytest.mark.parametrize("offsets", [3, 4], ids=["the next is not planned", "the next is planned"])
def test_a_batch_that_spark_took_for_done_and_nobody_committed_comes_again(
    offsets: int, tmp_path: Path
) -> None:
    spark_log(tmp_path, offsets=offsets, commits=3)
    at: Any = SimpleNamespace(batch=2, source_id="it")
    check_spark_checkpoint(tmp_path, at)
    rewind_spark(tmp_path, at)
    assert in_log(tmp_path) == spark_log(tmp_path / "wanted", offsets=3, commits=2)


@pytest.mark.parametrize("batch", [3, 4], ids=["committed", "committed, and Spark has not noted it"])
def test_a_log_that_is_not_ahead_stays_as_it_is(batch: int, tmp_path: Path) -> None:
    before = spark_log(tmp_path, offsets=4, commits=3)
    at: Any = SimpleNamespace(batch=batch, source_id="it")
    rewind_spark(tmp_path, at)
    rewind_spark(tmp_path, None)
    assert in_log(tmp_path) == before


@pytest.mark.spark
def test_streams_that_must_know_when_a_batch_has_run_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    stay = spark.readStream.schema("id long").json(str(tmp_path))
    cleaned = spark.readStream.schema("id long").option("CLEANSOURCE", "delete").json(str(tmp_path))
    check_repeatable({"a": stay, "b": stay.selectExpr("id + 1 AS id")})
    with pytest.raises(ConfigError, match=r"stream 'b' removes files .*cleanSource"):
        check_repeatable({"a": stay, "b": cleaned})
    with pytest.raises(ConfigError, match=r"more than rows one by one \(Deduplicate"):
        check_repeatable({"a": stay.selectExpr("id % 7 AS k").dropDuplicates(["k"])})
    timed = stay.selectExpr("timestamp_micros(id) AS ts").withWatermark("ts", "1 second")
    with pytest.raises(ConfigError, match="EventTimeWatermark"):
        check_repeatable({"a": timed})
    session = ab.Session(spark, tmp_path / "ck", plan_ahead="true")
    session.stream("r", spark.readStream.format("rate").load(), time="timestamp", lateness="1 second")
    session.query("q", "SELECT value FROM r", lambda *_: None)
    with pytest.raises(ConfigError, match=r"plan_ahead = 'true': stream 'r' is a rate.* source"):
        session.start()
