"""A Spark session with the settings the engine likes, for the command line, tests and notebooks."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping

from pyspark import SparkContext
from pyspark.sql import SparkSession

from anabranch.errors import ConfigError
from anabranch.spark.failures import explain_failure
from anabranch.spark.start.class_archive import archive_options
from anabranch.spark.start.given_conf import given_conf

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
DEFAULTS = {
    "spark.app.name": "anabranch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "ERROR",
    # Hadoop runs a process for every permission it sets on a local file: start those cheaply.
    JAVA_OPTIONS: "-Djdk.lang.Process.launchMechanism=VFORK",
}
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Where all of Spark is in one process; executors elsewhere must be able to reach the driver."""
EXECUTOR_WAIT_S = 60.0


def spark_session(
    master: str | None = None, conf: Mapping[str, str] | None = None, *, java_options: str = ""
) -> SparkSession:
    """Start Spark, or take the session that runs.

    What `spark-submit`, `spark-defaults.conf` or `conf` say wins over our defaults.

    Parameters
    ----------
    master
        As in Spark; the default is all cores of this machine.
    java_options
        Added to our defaults for the driver's JVM; left out where `spark.driver.extraJavaOptions` is set.

    Raises
    ------
    ConfigError
        There is a cluster, and none of its executors can connect.

    Examples
    --------
    ::

        spark = ab.spark_session("local[4]", {"spark.driver.memory": "8g"})
    """
    # Workers need the packages of this interpreter, not whatever `python3` is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkContext._active_spark_context is not None
    wanted = dict(conf or {})
    if not running:
        wanted = settings_to_start(master, wanted, given_conf(), java_options=java_options)
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not running and not spark.conf.get("spark.master", "").startswith("local"):  # type: ignore[union-attr]
        await_executor(spark)
    return spark


def settings_to_start(
    master: str | None, conf: Mapping[str, str], given: Mapping[str, str], *, java_options: str = ""
) -> dict[str, str]:
    """What Spark is started with: what is asked for, and our defaults where nothing else is set.

    >>> settings_to_start("spark://host:7077", {}, {"spark.app.name": "theirs"}).get("spark.driver.host")
    >>> settings_to_start(None, {}, {"spark.driver.memory": "8g"})["spark.master"]
    'local[*]'
    """
    asked = dict(conf) | ({} if master is None else {"spark.master": master})
    settings = {"spark.master": "local[*]"} | dict(given) | asked
    defaults = DEFAULTS | (LOOPBACK if settings["spark.master"].startswith("local") else {})
    ours = (defaults[JAVA_OPTIONS], archive_options(), java_options)
    defaults[JAVA_OPTIONS] = " ".join(options for options in ours if options)
    if "spark.master" not in given:
        asked["spark.master"] = settings["spark.master"]
    return {key: value for key, value in defaults.items() if key not in settings} | asked


def await_executor(spark: SparkSession, *, seconds: float = EXECUTOR_WAIT_S) -> None:
    """Let a cluster run one task, or say that it cannot: a stream would wait for ever without a word."""
    done = threading.Event()
    failures: list[Exception] = []

    def run_a_task() -> None:
        try:
            spark.range(1).collect()
        except Exception as error:
            failures.append(error)
        done.set()

    threading.Thread(target=run_a_task, name="anabranch-executor", daemon=True).start()
    if not done.wait(seconds):
        conf = spark.conf
        raise ConfigError(
            f"no executor could connect: {conf.get('spark.master', '')} has run nothing for {seconds:.0f} s. "
            f"Has it free workers, and can they reach this driver at {conf.get('spark.driver.host', '')}? "
            "If not, set spark.driver.host to an address that they can"
        )
    if failures:
        raise explain_failure(failures[0]) from failures[0]
