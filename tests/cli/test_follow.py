"""Following a run: stopped when asked to, failing when it fails, unless somebody stopped it."""

from __future__ import annotations

import signal

import pytest

from anabranch.cli.screen.follow import follow
from anabranch.cli.stop_request import StopRequest
from anabranch.errors import AnabranchError


class ScriptedRun:
    """A run that answers as scripted when it is asked whether it has ended."""

    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.stopped = False

    def awaitTermination(self, timeout: float | None = None) -> bool:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self.stopped = True


def asked_to_stop() -> StopRequest:
    stop = StopRequest()
    stop.signal = signal.SIGTERM
    return stop


def test_it_waits_until_the_run_ends() -> None:
    run = ScriptedRun(False, False, True)
    follow(run, StopRequest())  # type: ignore[arg-type]
    assert not run._answers
    assert not run.stopped


def test_a_request_stops_the_run() -> None:
    run = ScriptedRun(False, False)
    follow(run, asked_to_stop())  # type: ignore[arg-type]
    assert run.stopped


def test_a_failure_is_raised_but_not_one_that_the_signal_caused() -> None:
    failure = AnabranchError("a Python worker died")
    with pytest.raises(AnabranchError, match="died"):
        follow(ScriptedRun(failure), StopRequest())  # type: ignore[arg-type]
    follow(ScriptedRun(failure), asked_to_stop())  # type: ignore[arg-type]
