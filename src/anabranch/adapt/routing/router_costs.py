"""What aligned and coordinated routing would send beside the first copy of each row (equations 2 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.adapt.routing.coordinated_state import CoordinatedState, informed, warm_up_places
from anabranch.adapt.routing.overhead import StreamRate, best_master, copies_in_turns, sent_per_second
from anabranch.adapt.routing.routing_state import SEGMENTS_IN_REACH, AlignedState
from anabranch.exchange.coordinated_table import CoordinatedTable
from anabranch.plan.inputs import RoutedQuery

STEP_ROWS = 10_000
"""What the many small joins of paths cost in a step, in rows that could have been copied instead."""
HOP_ROWS = 50_000
"""What a further hop costs: 50 to 100 ms, where a row that is copied takes 1 to 2 µs."""
LATER_COVER = 1.2
"""Places of a later hop for each of a first one: it has to cover what is stored, and warms nothing up."""


@dataclass(frozen=True, slots=True)
class RouterCosts:
    """Rows per second that travel beside the first copies."""

    aligned: float
    coordinated: float


def router_costs(
    routed: RoutedQuery,
    rates: Mapping[str, float],
    sites: int,
    aligned: AlignedState | None = None,
    coordinated: CoordinatedState | None = None,
    *,
    elapsed_s: float = 1.0,
) -> RouterCosts:
    """Predict both for one join; what steps and hops of paths cost counts as rows.

    Parameters
    ----------
    rates
        Rows per second by reference; the same for all where nothing is known.
    aligned, coordinated
        What is known, if it runs so.
    elapsed_s
        Event time between two steps.
    """
    refs = routed.query.refs
    streams = {r.alias: StreamRate(rates.get(r.alias, 1.0), r.window_us / 1e6) for r in refs}
    master, longest_s = best_master(streams), max(s.window_s for s in streams.values())
    length_s = longest_s / SEGMENTS_IN_REACH
    if aligned is not None:
        master, length_s = aligned.table.current.master, aligned.table.current.segments.last.length / 1e6
    copied = copies_in_turns(streams, master, max(length_s, 1e-6), range(sites))
    table = informed(CoordinatedTable(()), routed, rates, {})
    if coordinated is not None:
        table = coordinated.table
    fixed = (STEP_ROWS + HOP_ROWS * (len(refs) - 2)) / max(elapsed_s, 1e-6)
    return RouterCosts(copied, coordinated_overhead(table, sites) + fixed)


def usual_cover(sites: int) -> float:
    """Places that a unit has, on average, when windows are full: what tables of 6, 30 and 100 places come to.

    >>> [usual_cover(n) for n in (1, 4, 6, 30, 100)]
    [1.0, 2.0, 3.0, 6.75, 11.75]
    """
    fewest = warm_up_places(sites)
    return min(float(sites), max(float(fewest), 1.25 * fewest - 0.75))


def coordinated_overhead(table: CoordinatedTable, sites: int) -> float:
    """O_CTR with the best order of each reference, where covers are as large as they become."""
    cover = usual_cover(sites)
    apart = max(0.0, LATER_COVER * cover - 1.0)
    total = 0.0
    for stream in table.streams:
        results = (table.results_of(stream.alias, order)[1:-1] for order in stream.orders)
        total += sent_per_second(stream.rate, cover, min(map(sum, results), default=0.0), apart)
    return total
