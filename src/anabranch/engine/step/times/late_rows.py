"""Late rows: told with numbers when queries with state refuse them, not found out from results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.adapt.events import Event, EventKind
from anabranch.language.syntax.duration import duration_text
from anabranch.plan.logical import Stream
from anabranch.state import StreamState


def late_events(
    batch: int, known: Mapping[str, StreamState], streams: Sequence[StreamState], declared: Sequence[Stream]
) -> list[Event]:
    """Tell of streams whose rows were refused: of the first, and whenever there are ten times as many."""
    lateness = {s.name: s.lateness_us for s in declared}
    before = {s.name: known[s.name].refused if s.name in known else 0 for s in streams}
    return [
        Event(
            batch,
            EventKind.ROWS_LATE,
            _message(s, lateness[s.name]),
            {"stream": s.name, "late": s.late, "refused": s.refused, "behind_us": s.behind_us},
        )
        for s in streams
        if s.refused and _digits(s.refused) > _digits(before[s.name])
    ]


def refused_rows(stream: StreamState) -> str:
    """How many rows of a stream were refused, and how far behind they were.

    >>> refused_rows(StreamState("orders", refused=3, behind_us=90_000_000))
    '3 rows of orders came up to 90 SECONDS behind the newest and were refused'
    """
    noun = "1 row" if stream.refused == 1 else f"{stream.refused:,} rows"
    verb = "was" if stream.refused == 1 else "were"
    behind = duration_text(stream.behind_us)
    return f"{noun} of {stream.name} came up to {behind} behind the newest and {verb} refused"


def _message(stream: StreamState, lateness_us: int) -> str:
    return (
        f"{refused_rows(stream)}; LATENESS is {duration_text(lateness_us)}: with "
        f"LATENESS {duration_text(stream.behind_us)} queries with windows would have waited for them. "
        "They are kept in dead_letters/ of the checkpoint"
    )


def _digits(number: int) -> int:
    return len(str(number)) if number else 0
