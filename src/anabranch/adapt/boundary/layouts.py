"""Which joins run at stations, which of these in one order, and along which edges: asked once a step."""

from __future__ import annotations

from anabranch.adapt.boundary.observed import Observed
from anabranch.adapt.eddy.eddy_state import EddyState
from anabranch.adapt.eddy.layout_choice import HOP_SHARE, LayoutVotes, Way
from anabranch.adapt.eddy.tree_choice import TreeRates, TreeVotes
from anabranch.adapt.events import Event, EventKind
from anabranch.plan.cost.plan_cost import UnitCosts
from anabranch.plan.stations.join_tree import JoinTree


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


def choose_trees(
    votes: TreeVotes, costs: UnitCosts, observed: Observed
) -> tuple[TreeVotes, dict[str, bool], tuple[Event, ...]]:
    """The votes after a step, joins that are on their way from one tree to another, and reasons."""
    asks = observed.settings.ordering != "plan"
    after, changed = votes.after(
        observed.cyclic if asks else (),
        observed.keys,
        costs,
        elapsed_s=observed.elapsed_s,
        hop_s=0.0 if observed.slots == 1 else HOP_SHARE * observed.overhead_s / 2,
        sites=observed.partition_map.sites,
    )
    before = {join.query: join for join in observed.cyclic}
    back = {name: True for name in after.turning if not before[name].at_stations}
    events = (_other_tree(observed.batch, before[name].tree, name, to) for name, to in changed.items())
    return after, back, tuple(events)


def _other_tree(batch: int, before: JoinTree, query: str, rates: TreeRates) -> Event:
    old, new = ([str(edge) for edge in tree.edges] for tree in (before, rates.tree))
    message = (
        f"query {query}: its stations are to be {', '.join(new)} instead of {', '.join(old)}: predicted to "
        f"take {rates.best:.3g} s of a site per second instead of {rates.now:.3g}"
    )
    data = {"query": query, "edges": new, "before": old, "now": rates.now, "then": rates.best}
    return Event(batch, EventKind.ORDER_CHANGED, message, data)


def _reordered(batch: int, query: str, votes: LayoutVotes) -> Event:
    if query in votes.fixed:
        way, message = Way.FIXED, "all rows take its stations in one order: nothing is gained row by row"
    else:
        way, message = Way.EDDY, "rows choose their own order again: stations are not as they were"
    return Event(
        batch, EventKind.ORDER_CHANGED, f"query {query}: {message}", {"query": query, "way": str(way)}
    )
