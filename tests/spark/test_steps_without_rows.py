"""A step without new rows is made of nothing that would have to be started first."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.spark.ingest_query import no_rows

pytestmark = pytest.mark.spark


def test_an_empty_batch_is_one_partition_that_no_python_worker_has_to_make(spark: SparkSession) -> None:
    like = spark.createDataFrame([], "a long, b string, c decimal(10,2), d timestamp")
    empty = no_rows(spark, like, {"spark.sql.adaptive.enabled": "false"})
    assert empty.dtypes == like.dtypes
    assert empty.count() == 0
    assert empty.rdd.getNumPartitions() == 1  # none at all, and no slot would work
    plan = empty._jdf.queryExecution().toString()  # type: ignore[operator]
    assert "ExistingRDD" not in plan, "rows of Python objects need workers of their own kind"
