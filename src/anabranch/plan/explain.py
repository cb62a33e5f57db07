"""A query's plan in words: keys, routing, join tree, states."""

from __future__ import annotations

from anabranch.plan.aggregate import WindowNode
from anabranch.plan.layout import Layout, RoutedQuery
from anabranch.plan.local_plan import JoinNode, LeafNode, LocalNode, LocalPlan, ProbeNode
from anabranch.plan.logical import UNBOUNDED_US, Grouping, Ref


def explain(layout: Layout, routed: RoutedQuery, plan: LocalPlan, *, sites: int) -> str:
    """Describe how a query will run."""
    query = routed.query
    lines = [f"query {query.name}"]
    for ref in query.refs:
        state = layout.inputs[routed.input_of(ref.alias)].state
        kept = f", kept in state {state}" if len(query.refs) > 1 or query.grouping else ""
        lines.append(f"  {ref.alias}: {ref.stream} {_window(ref, query.grouping)}{kept}")
        if ref.filter:
            lines.append(f"     filtered at ingest: {ref.filter}")
    for number, key_class in enumerate(query.classes):
        members = " = ".join(f"{m.alias}.{m.field.sql}" for m in key_class.members)
        lines.append(f"  key {number}: {members} ({key_class.type})")
    for number, key in enumerate(query.grouping.keys if query.grouping else ()):
        lines.append(f"  group key {number}: {key.hashed.sql} ({key.hashed.type})")
    lines.append(f"  routing: {_routing(routed, sites)}")
    lines.append("  plan:")
    if plan.window is not None:
        lines.append(f"    {_grouped(plan.window)}")
    if isinstance(plan.root, ProbeNode):
        lines += [
            f"    new rows of {c.aliases[0]} probe {', '.join(c.aliases[1:])}" for c in plan.root.chains
        ]
    else:
        lines += _tree(plan.root, plan, indent="    " if plan.window is None else "      ")
    return "\n".join(lines)


def _routing(routed: RoutedQuery, sites: int) -> str:
    grouping = routed.query.grouping
    if grouping is not None and not grouping.keys:
        return "one site, because without GROUP BY all rows are one group"
    if grouping is not None and len(routed.query.refs) > 1 and not routed.routing:
        if routed.graph.routing_classes():
            return "one site, because no group key is a key that all streams share: group by one to spread it"
    elif grouping is not None and len(routed.query.refs) == 1:
        return f"hash of all group keys, partitioned over {sites} sites"
    if len(routed.query.refs) == 1:
        return f"rows are spread over {sites} sites; no state"
    if routed.routing:
        keys = " and ".join(f"key {c}" for c in routed.routing)
        return f"hash of {keys}, partitioned over {sites} sites"
    if routed.query.classes:
        return "one site, because no key is shared by all streams"
    return "one site, because there is no equality between the streams"


def _grouped(node: WindowNode) -> str:
    what = (
        "distinct rows" if node.distinct else f"aggregate {', '.join(map(str, node.aggregates)) or 'groups'}"
    )
    having = f", having {node.having}" if node.having else ""
    if node.joined:
        which = "one result per result of the join, over those there at its time, when final"
        return f"{what}: {which}{having}; results of the join are kept in state {node.state}"
    return f"{what}: one result per row, over the window that ends at it, when the row is final{having}"


def _window(ref: Ref, grouping: Grouping | None) -> str:
    if grouping is not None and grouping.rows is not None:
        return f"[ROWS {grouping.rows}]"
    if ref.window_us >= UNBOUNDED_US:
        return "[RANGE UNBOUNDED]"
    return "[NOW]" if ref.window_us == 0 else f"[RANGE {ref.window_us / 1e6:g} SECONDS]"


def _tree(node: LocalNode, plan: LocalPlan, *, indent: str) -> list[str]:
    if isinstance(node, LeafNode):
        return [f"{indent}{node.aliases[0]}"]
    lines = [f"{indent}{_join(node)}{'' if node is plan.root else f', kept in state {node.state}'}"]
    lines += _tree(node.left, plan, indent=indent + "  ")
    lines += _tree(node.right, plan, indent=indent + "  ")
    return lines


def _join(node: JoinNode) -> str:
    keys = " and ".join(f"key {c}" for c in node.classes)
    how = f"join on {keys}" if keys else "join on windows and predicates only"
    return how + (f", then {' AND '.join(node.residuals)}" if node.residuals and keys else "")
