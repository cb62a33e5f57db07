"""Spark as its own join likes it: as many shuffle partitions as cores, all progress kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def native_conf(spark: SparkSession) -> Iterator[None]:
    """Set what makes Spark's stream-stream join fast for as long as the block runs.

    The default of 200 shuffle partitions would make it several times slower on a few cores.
    """
    settings = {
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
