"""Sources of a flow file that have columns of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import anabranch as ab
from anabranch.errors import ConfigError
from anabranch.language.flow import parse_flow
from tests.support.spark_cluster import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def flow(columns: str, path: Path) -> str:
    return f"""
    CREATE STREAM ticks ({columns}) FROM rate OPTIONS (rowsPerSecond = 100) TIME timestamp;
    CREATE QUERY even INTO parquet '{path / "out"}' AS
      SELECT value FROM ticks [NOW] WHERE value % 2 = 0;
    """


def test_a_source_without_files_is_read_with_its_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    session = ab.Session(spark, tmp_path / "checkpoint", sites=1)
    session.load(parse_flow(flow("VALUE BIGINT, timestamp TIMESTAMP", tmp_path)))
    run = session.start()
    try:
        wait_until(lambda: any(p["queries"]["even"]["numOutputRows"] for p in run.recentProgress), "results")
    finally:
        run.stop()
    values = {row.value for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert values == set(range(0, 2 * len(values), 2))


def test_columns_that_it_does_not_have_are_refused_with_those_that_it_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = ab.Session(spark, tmp_path / "checkpoint", sites=1)
    session.load(parse_flow(flow("value INT, timestamp TIMESTAMP", tmp_path)))
    with pytest.raises(ConfigError, match="has the columns timestamp timestamp, value bigint: declare these"):
        session.start()
