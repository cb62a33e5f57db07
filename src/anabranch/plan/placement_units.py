"""Which queries can run at one site alone, each with those that it shares inputs or states with."""

from __future__ import annotations

from anabranch.plan.inputs import Layout, RoutedQuery


def placement_units(layout: Layout) -> tuple[tuple[str, ...], ...]:
    """Sets of queries that share no input and no state with others; without those that must be spread."""
    names = [routed.query.name for routed in layout.queries]
    leader = {name: name for name in names}

    def first(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    reader: dict[int, str] = {}
    for routed in layout.queries:
        for number in (*routed.inputs, *routed.at_edges.values()):
            leader[first(routed.query.name)] = first(reader.setdefault(number, routed.query.name))
    for readers in layout.shared.readers.values():
        for one in readers:
            leader[first(one.query)] = first(readers[0].query)
    units: dict[str, list[str]] = {}
    for name in names:
        units.setdefault(first(name), []).append(name)
    spread = {routed.query.name for routed in layout.queries if not _may_be_alone(routed)}
    return tuple(tuple(unit) for unit in units.values() if spread.isdisjoint(unit))


def _may_be_alone(routed: RoutedQuery) -> bool:
    """Whether a query has one plan, and its rows go where a hash says."""
    one_plan = len(routed.query.refs) <= 2 and routed.tree is None and not routed.laid
    return one_plan and not routed.regrouped and not routed.is_aligned
