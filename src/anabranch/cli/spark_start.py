"""Starting Spark so that the terminal stays ours: what the JVM says goes to a log file."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from anabranch.cli.screen.telling import WRONG_INPUT, InputError
from anabranch.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_passing_logs: list[Path] = []
"""Logs that nobody has asked for: deleted at the end, unless the command has failed."""


def start_spark(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    *,
    java_options: str = "",
    log_file: Path | None = None,
    debug: bool = False,
) -> SparkSession:
    """Start Spark.

    Parameters
    ----------
    java_options
        For the JVM of the driver, unless its options are set elsewhere.
    log_file
        Where the JVM writes its log; without it, to a file that is deleted at the end of a command that
        has not failed.
    debug
        Let the JVM write to our standard error.
    """
    from anabranch.spark.start.spark_session import spark_session

    if debug and log_file is None:
        with _spared_signals():
            return spark_session(master, conf, java_options=java_options)
    log = _new_log(log_file)
    try:
        with _spared_signals(), _output_to(log):
            spark = spark_session(master, conf, java_options=java_options)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(_why_not_started(error, log)) from error
    if log_file is None:
        _passing_logs.append(log)
    return spark


@contextmanager
def log_kept_after_failure() -> Iterator[None]:
    """Say where Spark's log is when a command fails, and keep it then."""
    try:
        yield
    except BaseException as error:
        wrong_input = isinstance(error, typer.Exit) and error.exit_code == WRONG_INPUT
        for log in () if wrong_input else tuple(_passing_logs):
            _passing_logs.remove(log)
            Console(stderr=True, soft_wrap=True, highlight=False).print(f"Spark's log is kept in {log}")
        raise


@atexit.register
def _delete_passing_logs() -> None:
    for log in _passing_logs:
        log.unlink(missing_ok=True)


@contextmanager
def _spared_signals() -> Iterator[None]:
    """Let child processes that start here ignore SIGTERM: one to our whole group is for us to handle.

    The JVM leaves a signal ignored that it finds ignored, and ends when our end of its input is closed. We
    ourselves do not ignore it: whoever stops us while Spark starts would wait for ever.
    """
    global _is_starting
    _is_starting = True
    try:
        yield
    finally:
        _is_starting = False


_is_starting = False


def _ignore_sigterm() -> None:
    if _is_starting:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_ignore_sigterm)  # PySpark's Popen runs these hooks: it has a preexec_fn


def parse_conf(settings: Sequence[str]) -> dict[str, str]:
    """Settings given as `key=value`.

    >>> parse_conf(["spark.driver.memory=4g", "spark.anabranch.sites=8"])
    {'spark.driver.memory': '4g', 'spark.anabranch.sites': '8'}
    """
    pairs = [setting.partition("=") for setting in settings]
    for setting, (key, equals, _) in zip(settings, pairs, strict=True):
        if not key or not equals:
            raise InputError(f"--conf {setting}: write it as key=value, as in spark.driver.memory=4g")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _new_log(wanted: Path | None) -> Path:
    if wanted is not None:
        try:
            wanted.parent.mkdir(parents=True, exist_ok=True)
            wanted.touch()
        except OSError as error:
            raise InputError(f"--log-file {wanted} cannot be written: {error.strerror}") from None
        return wanted
    handle, name = tempfile.mkstemp(prefix="anabranch-spark-", suffix=".log")
    os.close(handle)
    return Path(name)


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Let child processes that start here inherit the log as standard output and error.

    The JVM prints before any logging configuration is read (incubator modules, log4j profile), so
    a logging configuration alone cannot keep it quiet. Its whole life long it writes where it began.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    file = os.open(log, os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for target, original in zip((1, 2), kept, strict=True):
            os.dup2(original, target)
            os.close(original)
        os.close(file)


def _why_not_started(error: Exception, log: Path) -> str:
    said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if any("JAVA_HOME is not set" in line or "java: not found" in line for line in said):
        return "Spark needs Java 17 or newer, and there is none: install it, or let JAVA_HOME point to it"
    reason = next((line for line in said if "Exception" in line or "Error" in line), "")
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"Spark did not start: {reason or first} (its log is {log})"
