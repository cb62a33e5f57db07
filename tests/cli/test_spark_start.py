"""Spark's log: kept where it can help, and said where it is."""

from __future__ import annotations

import signal
import subprocess
import sys
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


def test_the_jvm_ignores_sigterm_and_we_do_not_while_it_starts() -> None:
    ask = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGTERM).name)"]

    def child() -> str:
        found = subprocess.run(ask, preexec_fn=lambda: None, capture_output=True, text=True, check=True)
        return found.stdout.strip()

    before = signal.getsignal(signal.SIGTERM)
    with spark_start._spared_signals():
        assert signal.getsignal(signal.SIGTERM) is before
        assert child() == "SIG_IGN"
    assert child() == "SIG_DFL"
