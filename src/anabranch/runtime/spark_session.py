"""A Spark session with the settings the engine likes, for the command line, tests and notebooks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "ERROR",
    # Hadoop runs a process for every permission it sets on a local file: start those cheaply.
    "spark.driver.extraJavaOptions": "-Djdk.lang.Process.launchMechanism=VFORK",
}


def spark_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark, or take the session that runs; `conf` wins over our defaults.

    Parameters
    ----------
    master
        As in Spark; the default is all cores of this machine.
    """
    # Workers need the packages of this interpreter, not whatever `python3` is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("anabranch").master(master or "local[*]")
    for key, value in (DEFAULTS | dict(conf or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
