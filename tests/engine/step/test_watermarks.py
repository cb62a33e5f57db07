"""Watermarks follow the newest row less the lateness and never fall; idle streams hold nobody up."""

from __future__ import annotations

from anabranch.engine.reports import SlotReport, StreamReport
from anabranch.engine.step.times.watermarks import advance, idle_events
from anabranch.plan.logical import Column, Stream
from anabranch.state import StreamState

A = Stream("a", (Column("ts", "timestamp"),), "ts", 10)
B = Stream("b", (Column("ts", "timestamp"),), "ts", 0)


def seen(**newest: int) -> list[SlotReport]:
    return [SlotReport(0, streams={name: StreamReport(ts, accepted=1) for name, ts in newest.items()})]


def after(
    known: dict[str, StreamState], reports: list[SlotReport], *, now_s: float = 0.0, timeout_s: int = 0
) -> dict[str, StreamState]:
    found = advance(known, (A, B), reports, now_s=now_s, started_s=0.0, idle_timeout_s=timeout_s)
    return {stream.name: stream for stream in found}


def test_the_watermark_is_the_newest_time_of_all_slots_less_the_lateness() -> None:
    found = after({}, [*seen(a=100), *seen(a=140, b=7)])
    assert (found["a"].watermark, found["b"].watermark) == (130, 7)
    assert (found["a"].max_ts, found["a"].accepted) == (140, 2)


def test_it_never_falls() -> None:
    found = after(after({}, seen(a=100, b=100)), seen(a=50, b=99))
    assert (found["a"].watermark, found["b"].watermark) == (90, 100)


def test_a_stream_that_is_silent_too_long_goes_on_with_the_slowest_that_speaks() -> None:
    began = after({}, seen(a=100, b=100), now_s=0.0, timeout_s=60)
    early = after(began, seen(a=500), now_s=59.0, timeout_s=60)
    late = after(early, seen(a=600), now_s=60.0, timeout_s=60)
    assert early["b"].watermark == 100
    assert late["b"].watermark == late["a"].watermark == 590
    (told,) = idle_events(3, tuple(late.values()), before_s=59.0, now_s=60.0, idle_timeout_s=60)
    assert "stream b has been silent for 60 s" in told.message


def test_without_a_timeout_nobody_is_idle() -> None:
    began = after({}, seen(a=100, b=100))
    assert after(began, seen(a=10_000), now_s=1e6)["b"].watermark == 100
