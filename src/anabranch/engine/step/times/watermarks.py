"""Watermarks: how far each stream has come, and when one that is silent stops holding up the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.adapt.events import Event, EventKind
from anabranch.engine.reports import SlotReport, StreamReport
from anabranch.plan.logical import Stream
from anabranch.state import StreamState

UNITS = {"seconds": ("seconds", 1), "milliseconds": ("millis", 1_000)}
"""Units other than ours that times come in: the function that reads them, and how many make a second."""
TODAY_S = 1_500_000_000, 2_500_000_000
"""Seconds since 1970 from 2017 to 2049."""


def advance(
    known: Mapping[str, StreamState],
    streams: Sequence[Stream],
    reports: Sequence[SlotReport],
    *,
    now_s: float,
    started_s: float,
    idle_timeout_s: int,
) -> tuple[StreamState, ...]:
    """The streams after a batch.

    Parameters
    ----------
    known
        The streams before it, by name.
    started_s
        When the session started: while none ran, no stream could speak.
    idle_timeout_s
        After so long without a row a stream's watermark goes on with that of the slowest stream that
        speaks (docs/semantics.md: an idle stream pins state). 0 is never.
    """
    after = tuple(
        _advanced(known.get(s.name, StreamState(s.name)), s, reports, now_s, started_s) for s in streams
    )
    speaking = [s for s in after if not is_idle(s, now_s, idle_timeout_s)]
    slowest = [s.watermark for s in speaking]
    if not slowest or None in slowest:
        return after
    released = min(mark for mark in slowest if mark is not None)
    return tuple(
        replace(s, watermark=max(released, released if s.watermark is None else s.watermark))
        if is_idle(s, now_s, idle_timeout_s)
        else s
        for s in after
    )


def idle_events(
    batch: int, streams: Sequence[StreamState], *, before_s: float, now_s: float, idle_timeout_s: int
) -> list[Event]:
    """Tell of streams that nobody waits for any more since the last batch."""
    return [
        Event(
            batch,
            EventKind.STREAM_IDLE,
            f"stream {s.name} has been silent for {idle_timeout_s} s: the others do not wait for it, "
            "and rows that it brings later may be late",
            {"stream": s.name, "watermark": s.watermark},
        )
        for s in streams
        if is_idle(s, now_s, idle_timeout_s) and not is_idle(s, before_s, idle_timeout_s)
    ]


def unit_events(batch: int, known: Mapping[str, StreamState], streams: Sequence[StreamState]) -> list[Event]:
    """Tell of streams whose first times are those of today in another unit."""
    return [
        Event(
            batch,
            EventKind.TIME_UNIT,
            f"times of stream {s.name} are in January 1970, where {unit} of today would be if taken for "
            f"microseconds. If they are such, write timestamp_{function}(column) AS column",
            {"stream": s.name, "newest": s.max_ts},
        )
        for s in streams
        for unit, (function, per_second) in UNITS.items()
        if s.max_ts is not None
        and (s.name not in known or known[s.name].max_ts is None)
        and TODAY_S[0] <= s.max_ts / per_second < TODAY_S[1]
    ]


def is_idle(stream: StreamState, now_s: float, idle_timeout_s: int) -> bool:
    """Whether a stream has been silent for so long that nobody waits for it."""
    return bool(idle_timeout_s) and stream.spoke_at is not None and now_s - stream.spoke_at >= idle_timeout_s


def _behind(state: StreamState, seen: Sequence[StreamReport]) -> int:
    """How far the rows that were refused in a batch lay behind what was known before it."""
    oldest = min((s.oldest_refused for s in seen if s.oldest_refused is not None), default=None)
    newest = max((t for t in (state.max_ts, state.watermark) if t is not None), default=None)
    return 0 if oldest is None or newest is None else newest - oldest


def _advanced(
    state: StreamState, stream: Stream, reports: Sequence[SlotReport], now_s: float, started_s: float
) -> StreamState:
    seen = [r.streams[stream.name] for r in reports if stream.name in r.streams]
    times = [t for t in (state.max_ts, *(s.max_ts for s in seen)) if t is not None]
    max_ts = max(times, default=None)
    # A watermark never falls, not even when the lateness is raised at a restart.
    marks = [
        m for m in (state.watermark, None if max_ts is None else max_ts - stream.lateness_us) if m is not None
    ]
    # Late and rejected rows are a voice, too: a stream that comes back behind the others may catch up.
    spoke = any(s.accepted or s.late or s.rejected for s in seen)
    return replace(
        state,
        max_ts=max_ts,
        watermark=max(marks, default=None),
        accepted=state.accepted + sum(s.accepted for s in seen),
        late=state.late + sum(s.late for s in seen),
        refused=state.refused + sum(s.refused for s in seen),
        behind_us=max(state.behind_us, _behind(state, seen)),
        rejected=state.rejected + sum(s.rejected for s in seen),
        spoke_at=now_s if spoke or state.spoke_at is None else max(state.spoke_at, started_s),
    )
