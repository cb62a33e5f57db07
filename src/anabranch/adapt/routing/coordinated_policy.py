"""Decides the places and paths of joins with coordinated routing, from what a step has stored and found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.adapt.boundary.observed import Observed, StreamClock
from anabranch.adapt.measures.site_report import DiffusionReport
from anabranch.adapt.routing.coordinated_state import CoordinatedState, informed, segments_of
from anabranch.adapt.routing.routing_state import salt_of
from anabranch.adapt.routing.site_loads import loads_beside
from anabranch.adapt.routing.turns import lanes
from anabranch.exchange.coordinated_table import Unit, unit_number
from anabranch.exchange.partition_map import PartitionMap
from anabranch.exchange.partition_set import PartitionSet
from anabranch.plan.inputs import RoutedQuery

MEMORY = 0.7
"""How much of a count is what it was before the last step."""
SLICES = 16
"""Slices of time of each segment in a batch."""


def lanes_for(
    query: str, partition_map: PartitionMap, in_use: tuple[int, ...], taken: PartitionSet
) -> tuple[int, ...]:
    """A place at each site."""
    found = lanes(partition_map, in_use, taken, salt=salt_of(query))
    return tuple(found[site] for site in sorted(found))


def coordinated_after(
    known: CoordinatedState,
    routed: RoutedQuery,
    observed: Observed,
    after: PartitionMap,
    *,
    clocks: Mapping[str, StreamClock],
    rates: Mapping[str, float],
    taken: PartitionSet,
) -> CoordinatedState:
    """What routing is like after a step.

    Parameters
    ----------
    taken
        Partitions that new rows must not go to.
    """
    query = routed.query.name
    told = DiffusionReport()
    for site in observed.sites:
        if query in site.diffusion:
            told.add(site.diffusion[query])
    watermarks = {alias: clock.watermark for alias, clock in clocks.items()}
    table = known.table.added(units_of(known, observed.batch, told)).without_before(watermarks)
    counted = _counted(known, told)
    chosen = lanes_for(query, after, known.lanes, taken) or known.lanes
    beside, own = loads_beside(query, observed, after.sites)
    units = len(table.streams) * segments_of(len(chosen))
    # What places have been given unevenly is not made up for: each batch waits for its own busiest place.
    loads = {place: float(beside[after.site_of_partition[place]]) for place in chosen}
    length = known.length
    if told.units and observed.elapsed_s > 0:
        length = max(1, int(observed.elapsed_s * 1e6) // (SLICES * segments_of(len(chosen))))
    return replace(
        known,
        table=informed(table, routed, rates, counted),
        lanes=chosen,
        length=length,
        loads=loads,
        unit_load=own / units if own else 1.0,
        watermarks=watermarks,
        rates=dict(rates),
        counted=counted,
    )


def units_of(known: CoordinatedState, batch: int, told: DiffusionReport) -> dict[str, list[Unit]]:
    """The units of a batch that have rows."""
    if not told.units:
        return {}
    paths, found = known.routes(batch).paths, dict[str, list[Unit]]()
    for (alias, segment), (rows, first, last) in sorted(told.units.items()):
        places = paths[alias][segment].places
        unit = Unit(unit_number(batch, segment), places, first, last, rows)
        found.setdefault(alias, []).append(unit)
    return found


def _counted(known: CoordinatedState, told: DiffusionReport) -> dict[frozenset[str], tuple[float, float]]:
    if not told.met:
        return dict(known.counted)
    before = {about: (MEMORY * e, MEMORY * f) for about, (e, f) in known.counted.items()}
    for about, (examined, found) in told.met.items():
        e, f = before.get(about, (0.0, 0.0))
        before[about] = e + examined, f + found
    return before
