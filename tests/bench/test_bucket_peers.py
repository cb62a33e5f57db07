"""Joins beside Spark's own, as its users write them: the same results, or it raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.bench.joins.bucket_peers import band_beside_spark, hot_key_beside_spark
from anabranch.bench.report import beside_spark_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_band_has_the_results_of_sparks_join_by_buckets(spark: SparkSession, tmp_path: Path) -> None:
    found = band_beside_spark(spark, tmp_path, rows=300, window_batches=2, batches=1)
    assert found.ours.result_rows == found.spark.result_rows > 1_000
    assert beside_spark_table(found).row_count == 2


def test_a_hot_key_has_the_results_of_sparks_join(spark: SparkSession, tmp_path: Path) -> None:
    found = hot_key_beside_spark(spark, tmp_path, rows=200, batches=1)
    assert found.ours.result_rows == found.spark.result_rows > 1_000
