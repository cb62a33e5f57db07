"""Spark as its own join likes it: as many shuffle partitions as cores, all progress kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from anabranch.spark.start.conf import conf_set


@contextmanager
def native_conf(spark: SparkSession) -> Iterator[None]:
    """Set what makes Spark's stream-stream join fast for as long as the block runs.

    The default of 200 shuffle partitions would make it several times slower on a few cores.
    """
    settings = {
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    with conf_set(spark, settings):
        yield
