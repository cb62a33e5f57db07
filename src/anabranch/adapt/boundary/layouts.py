"""Which joins run at stations, and which of these in one order: asked once a step."""

from __future__ import annotations

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.eddy.eddy_state import EddyState
from anabranch.adapt.eddy.layout_choice import LayoutVotes, Way
from anabranch.adapt.events import Event, EventKind


def choose_layouts(
    votes: LayoutVotes, eddies: EddyState, observed: Observed
) -> tuple[LayoutVotes, dict[str, bool], tuple[Event, ...]]:
    """The votes after a step, by query that is to change whether it is to run at stations, and reasons."""
    here = observed.partition_map
    after, wanted = votes.after(
        observed.either_way if observed.settings.ordering == "auto" else (),
        () if observed.step else observed.sites,  # only a batch tells what a batch takes
        eddies.order_costs(observed.choices, here),
        sites=here.sites,
        slots=observed.slots,
        overhead_s=observed.overhead_s,
    )
    at_stations = {join.query for join in observed.either_way if join.at_stations}
    changed = sorted((after.fixed ^ votes.fixed) & at_stations)
    return after, wanted, tuple(_reordered(observed.batch, query, after) for query in changed)


def _reordered(batch: int, query: str, votes: LayoutVotes) -> Event:
    if query in votes.fixed:
        way, message = Way.FIXED, "all rows take its stations in one order: nothing is gained row by row"
    else:
        way, message = Way.EDDY, "rows choose their own order again: stations are not as they were"
    return Event(
        batch, EventKind.ORDER_CHANGED, f"query {query}: {message}", {"query": query, "way": str(way)}
    )
