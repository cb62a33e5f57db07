"""Spark's log: kept where it can help, and said where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from anabranch.cli import spark_start
from anabranch.cli.screen.telling import InputError, telling
from anabranch.cli.spark_start import log_kept_after_failure
from anabranch.errors import RunError


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log as a started Spark leaves it."""
    path = tmp_path / "anabranch-spark-x.log"
    path.write_text("a JVM speaks")
    monkeypatch.setattr(spark_start, "_passing_logs", [path])
    return path


def test_after_a_failure_the_log_stays_and_the_last_line_says_where(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit), log_kept_after_failure(), telling(debug=False):
        raise RunError("the executor is lost")
    spark_start._delete_passing_logs()
    assert log.exists()
    first, last = capsys.readouterr().err.splitlines()
    assert "the executor is lost" in first
    assert last == f"Spark's log is kept in {log}"


def test_without_a_failure_and_after_wrong_input_the_log_is_deleted(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_kept_after_failure():
        pass
    with pytest.raises(typer.Exit), log_kept_after_failure(), telling(debug=False):
        raise InputError("no such option")
    assert "log is kept" not in capsys.readouterr().err
    spark_start._delete_passing_logs()
    assert not log.exists()
