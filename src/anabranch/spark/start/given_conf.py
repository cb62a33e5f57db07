"""Settings that Spark has been given before we start it: by spark-submit, a file or the environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

_OPTIONS = {"--master": "spark.master", "--name": "spark.app.name", "--driver-memory": "spark.driver.memory"}
DEFAULTS_FILE = "spark-defaults.conf"


def given_conf(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What is set already, by key."""
    environment = os.environ if environment is None else environment
    if "PYSPARK_GATEWAY_PORT" in environment:  # spark-submit has started the JVM, and it knows
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return dict(SparkConf().getAll())
    return dict(_of_file(environment)) | dict(_of_arguments(environment.get("PYSPARK_SUBMIT_ARGS", "")))


def _of_file(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Settings of spark-defaults.conf: a key, white space or `=`, a value."""
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    file = None if folder is None else Path(folder) / DEFAULTS_FILE
    if file is None or not file.is_file():
        return
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.replace("=", " ", 1).split(None, 1)
        if len(words) == 2 and words[0].startswith("spark."):
            yield words[0], words[1].strip()


def _of_arguments(text: str) -> Iterator[tuple[str, str]]:
    """Settings of `PYSPARK_SUBMIT_ARGS`.

    >>> dict(_of_arguments("--master yarn --conf spark.ui.enabled=true pyspark-shell"))
    {'spark.master': 'yarn', 'spark.ui.enabled': 'true'}
    """
    words = shlex.split(text)
    for option, value in pairwise(words):
        if option in _OPTIONS:
            yield _OPTIONS[option], value
        elif option in ("--conf", "-c") and "=" in value:
            key, _, setting = value.partition("=")
            yield key, setting
