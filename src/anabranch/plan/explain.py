"""A query's plan in words: keys, routing, join tree, states."""

from __future__ import annotations

import re

from anabranch.plan.aggregate import WindowNode
from anabranch.plan.inputs import Layout, RoutedQuery
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import UNBOUNDED_US, Grouping, GroupWindow, Query, Ref, column_name
from anabranch.plan.nodes import JoinNode, Operand, ProbeNode, StationsNode
from anabranch.plan.stations.output_modules import DistributedPlan


def explain(layout: Layout, routed: RoutedQuery, plan: LocalPlan, *, sites: int) -> str:
    """Describe how a query will run."""
    query = routed.query
    lines = [f"query {query.name}"]
    for ref in query.refs:
        state = layout.inputs[routed.input_of(ref.alias)].state
        windowed = query.grouping is not None and query.grouping.window is not None
        alone = len(query.refs) == 1 and (query.grouping is None or windowed)
        kept = "" if alone else f", kept in state {state}"
        window = "" if alone and windowed else f" {_window(ref, query.grouping)}"
        lines.append(f"  {ref.alias}: {ref.stream}{window}{kept}")
        for join in ref.tables:
            keys = " and ".join(f"{mine} = {theirs}" for theirs, mine in join.keys)
            lines.append(f"     meets table {join.table} at ingest: {keys}")
        if ref.filter:
            lines.append(f"     filtered at ingest: {ref.filter}")
    for number, key_class in enumerate(query.classes):
        members = " = ".join(f"{m.alias}.{m.field.sql}" for m in key_class.members)
        lines.append(f"  key {number}: {members} ({key_class.type})")
    for number, key in enumerate(query.grouping.keys if query.grouping else ()):
        lines.append(f"  group key {number}: {key.hashed.sql} ({key.hashed.type})")
    lines.append(f"  routing: {_routing(routed, sites)}")
    if routed.regrouped:
        lines.append(f"  routing of groups: {_group_routing(query.grouping, sites)}")
    lines.append("  plan:")
    if plan.window is not None:
        lines.append(f"    {_grouped(plan.window)}")
    if isinstance(plan.root, ProbeNode):
        lines += [
            f"    new rows of {c.aliases[0]} probe {', '.join(c.aliases[1:])}" for c in plan.root.chains
        ]
    elif isinstance(plan.root, StationsNode):
        assert routed.tree is not None
        lines += _stations(plan.root, routed.tree.plan)
    else:
        lines += _tree(plan.root, plan, indent="    " if plan.window is None else "      ")
    return "\n".join(lines)


def _routing(routed: RoutedQuery, sites: int) -> str:
    grouping = routed.query.grouping
    if len(routed.query.refs) == 1:
        if grouping is None:
            return f"rows are spread over {sites} sites; no state"
        if not grouping.keys:
            what = "another key all rows of a window" if grouping.window else "GROUP BY all rows"
            return _one_group(what, sites, spread=grouping.rows is None)
        return f"hash of all group keys, partitioned over {sites} sites"
    if routed.routing:
        keys = " and ".join(f"key {c}" for c in routed.routing)
        return f"hash of {keys}, partitioned over {sites} sites"
    if routed.tree is not None:
        if (hops := routed.tree.hops) == 1:
            return f"stations of one key over {sites} sites: joined rows need not travel"
        return f"stations, each by its own key over {sites} sites; joined rows travel: {hops} hops"
    if routed.is_aligned:
        why = "no key is shared by all streams" if routed.query.classes else "there is no equality"
        how = f"aligned, by segments of time over {sites} sites"
        return f"{how}, or along paths, because {why}; rows that reach several are copied"
    return "one site, because windows without an end leave nothing to cut"


def _group_routing(grouping: Grouping | None, sites: int) -> str:
    if grouping is None or not grouping.keys:
        windowed = grouping is not None and grouping.window is not None
        what = (
            "another key all results of the join in a window"
            if windowed
            else "GROUP BY all results of the join"
        )
        # Windows are condensed where the join finds their rows: little is left for the one site.
        return _one_group(what, sites, spread=not windowed)
    return f"hash of all group keys, partitioned over {sites} sites"


def _one_group(what: str, sites: int, *, spread: bool) -> str:
    """Where the one group of a query without group keys is: hot groups are spread as long as they are hot."""
    if not spread or sites == 1:
        return f"one site, because without {what} are one group"
    return f"one group, because without {what} are; over {sites} sites while it is more than a site's share"


def _grouped(node: WindowNode) -> str:
    what = (
        "distinct rows" if node.distinct else f"aggregate {', '.join(map(str, node.aggregates)) or 'groups'}"
    )
    having = f", having {node.having}" if node.having else ""
    if node.grouped is not None:
        kept = "partial aggregates" if node.condensed else "rows"
        which = f"one result per group and {_windows(node.grouped)}"
        return f"{what}: {which}{having}; {kept} are kept in state {node.state}"
    if node.joined:
        which = "one result per result of the join, over those there at its time, when final"
        return f"{what}: {which}{having}; results of the join are kept in state {node.state}"
    return f"{what}: one result per row, over the window that ends at it, when the row is final{having}"


def _windows(window: GroupWindow) -> str:
    if window.session:
        return f"session, which ends {window.size_us / 1e6:g} seconds after its last row, when final"
    size, slide = f"{window.size_us / 1e6:g}", f"{window.slide_us / 1e6:g}"
    hop = "" if window.size_us == window.slide_us else f", one every {slide} seconds"
    return f"window of {size} seconds{hop}, when final"


def _window(ref: Ref, grouping: Grouping | None) -> str:
    if grouping is not None and grouping.rows is not None:
        return f"[ROWS {grouping.rows}]"
    if ref.window_us >= UNBOUNDED_US:
        return "[RANGE UNBOUNDED]"
    return "[NOW]" if ref.window_us == 0 else f"[RANGE {ref.window_us / 1e6:g} SECONDS]"


def _tree(node: Operand, plan: LocalPlan, *, indent: str) -> list[str]:
    if not isinstance(node, JoinNode):
        return [f"{indent}{' '.join(node.aliases)}"]
    lines = [
        f"{indent}{_join(node, plan.query)}{'' if node is plan.root else f', kept in state {node.state}'}"
    ]
    lines += _tree(node.left, plan, indent=indent + "  ")
    lines += _tree(node.right, plan, indent=indent + "  ")
    return lines


def _stations(root: StationsNode, ways: DistributedPlan) -> list[str]:
    """Stations with their bits: a row may arrive where its footprint, under the mask, is as allowed."""
    lines = []
    for station in root.stations:
        edge = station.edge
        arriving = ", ".join(" ".join(node.aliases) for node in (*station.left, *station.right))
        lines.append(f"    station {edge.number}: {edge} on key {edge.key_class}; rows of {arriving}")
    lines.append(f"    ways, by bits for {', '.join(ways.bits)}:")
    for module in ways.modules:
        way = f"{module.source} to {module.target}"
        bits = f"allowing {ways.written(module.allowing)}, validating {ways.written(module.validating)}"
        lines.append(f"      {way}: {bits}{'; chosen by the eddy' if module.collects else ''}")
    return lines


def _join(node: JoinNode, query: Query) -> str:
    keys = " and ".join(f"key {c}" for c in node.classes)
    predicates = " AND ".join(_with_names(predicate, query) for predicate in node.residuals)
    if not keys:
        return f"join on windows and {predicates}" if predicates else "join on windows only"
    return f"join on {keys}" + (f", then {predicates}" if predicates else "")


def _with_names(predicate: str, query: Query) -> str:
    """A predicate with the columns that the user wrote, instead of their numbers."""
    values = {
        column_name(ref.alias, number): _value(ref.alias, field.sql)
        for ref in query.refs
        for number, field in enumerate(ref.fields)
    }
    return re.sub(r'"([^"]+)"', lambda found: values.get(found[1], found[0]), predicate)


def _value(alias: str, sql: str) -> str:
    """A column of a reference, or what is computed of several.

    >>> _value("o", "`amount`"), _value("o", "(`a` + `b`)")
    ('o.`amount`', 'o: (`a` + `b`)')
    """
    return f"{alias}.{sql}" if re.fullmatch("`[^`]+`", sql) else f"{alias}: {sql}"
