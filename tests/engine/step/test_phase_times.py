"""Time between two marks is added to the phase that has ended."""

from __future__ import annotations

from unittest import mock

from anabranch.engine.step.times import phase_times
from anabranch.engine.step.times.phase_times import PhaseTimes


def test_a_phase_that_comes_twice_has_the_sum_and_nothing_is_counted_twice() -> None:
    with mock.patch.object(phase_times.time, "perf_counter", side_effect=[10.0, 11.0, 13.0, 17.0]):
        phases = PhaseTimes()
        for phase in ("open", "join", "open"):
            phases.mark(phase)
    assert phases.seconds == {"open": 5.0, "join": 2.0}


def test_times_go_into_the_report_that_was_given() -> None:
    told = {"receive": 1.0}
    PhaseTimes(told).mark("sort")
    assert list(told) == ["receive", "sort"]
    assert told["receive"] == 1.0
