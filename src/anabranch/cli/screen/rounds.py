"""What was decided between two batches, in as few lines as there are kinds of decisions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from anabranch.adapt.events import Event

TOLD_ONE_BY_ONE = 2
"""Of a kind and batch; of more, the first is told, and how many there are."""


def round_lines(events: Iterable[Event]) -> list[str]:
    """Lines for a terminal: details are left out, and many of a kind become one; `--why` has all of them.

    >>> from anabranch.adapt.events import EventKind
    >>> plans = [Event(7, EventKind.PLAN_CHANGED, f"site {n} takes ((a b) c)") for n in range(8)]
    >>> others = [Event(7, EventKind.MOVE_ACCEPTED, "partition 3"), Event(7, EventKind.PAUSED, "…")]
    >>> round_lines([*plans, *others])
    ['batch 7: plan_changed: 8 times, first: site 0 takes ((a b) c)', 'batch 7: paused: …']
    """
    lines: list[str] = []
    shown = sorted((e for e in events if not e.kind.is_detail), key=lambda e: e.batch)
    kinds = {kind: n for n, kind in reversed(list(enumerate(e.kind for e in shown)))}
    in_kinds = sorted(shown, key=lambda e: (e.batch, kinds[e.kind]))
    for (batch, kind), group in groupby(in_kinds, key=lambda e: (e.batch, e.kind)):
        first, *others = group
        if len(others) < TOLD_ONE_BY_ONE:
            lines += [str(event) for event in (first, *others)]
        else:
            lines.append(f"batch {batch}: {kind}: {1 + len(others)} times, first: {first.message}")
    return lines
