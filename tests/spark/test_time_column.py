"""What the time column of a DataFrame may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.errors import ConfigError

pytestmark = pytest.mark.spark


def register(spark: SparkSession, root: Path, kind: str) -> ab.Session:
    (root / "in").mkdir()
    frame = spark.readStream.schema(f"k BIGINT, `When` {kind}").parquet(str(root / "in"))
    session = ab.Session(spark, root / "checkpoint")
    session.stream("s", frame, time="when")
    return session


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ", "BIGINT"])
def test_an_instant_a_clock_time_and_microseconds_are_times(
    spark: SparkSession, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    session = register(spark, tmp_path, kind)
    session.query("q", "SELECT k, `When` FROM s", ab.memory())
    session.explain("q")
    assert "query q" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["STRING", "DATE", "INT", "DOUBLE", "DECIMAL(20,0)", "ARRAY<TIMESTAMP>"])
def test_any_other_type_is_refused_with_what_to_write_instead(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(ConfigError, match=r"cannot be a \S+: .*CAST\(when AS TIMESTAMP\)") as refused:
        register(spark, tmp_path, kind)
    assert "timestamp_millis(when)" in str(refused.value)
    assert kind.lower() in str(refused.value)
