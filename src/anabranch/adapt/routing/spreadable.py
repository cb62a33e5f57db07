"""What hot keys are looked for in: inputs that joins share a key of, and the groups of aggregates."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.adapt.plans.joins import Joins
from anabranch.plan.aggregate import results_state
from anabranch.plan.inputs import Layout, RoutedQuery
from anabranch.plan.logical import Query


@dataclass(frozen=True, slots=True)
class Spreadable:
    """States that have their hot keys in common.

    Attributes
    ----------
    states
        Inputs that queries join with each other by one key; or what the groups of some queries are made of.
    queries
        Those that read them.
    repeated
        Inputs that some query refers to twice: new rows of these may meet each other.
    grouped
        Whether the keys are those of groups: then nothing has to be computed anew when one cools.
    stays
        Whether rows stay together, and only answers are spread. A result that looks at rows looks into every
        block: were new rows spread as well, there would be as many more blocks.
    """

    states: tuple[str, ...]
    queries: tuple[str, ...]
    repeated: frozenset[str] = frozenset()
    grouped: bool = False
    stays: bool = False


def spreadable(joins: Joins) -> list[Spreadable]:
    """All of them, each state in one."""
    return [*joined_inputs(joins), *grouped_states(joins.layout)]


def joined_inputs(joins: Joins) -> list[Spreadable]:
    """Inputs of joins: queries that share an input are in one."""
    groups: list[tuple[set[str], list[str]]] = []
    repeated = set()
    for name, routed in joins.queries.items():
        if not routed.is_hashed:
            continue
        states = [joins.layout.inputs[i].state for i in routed.inputs]
        repeated |= {state for state in states if states.count(state) > 1}
        merged, queries = set[str](states), [name]
        for group in [g for g in groups if g[0] & merged]:
            groups.remove(group)
            merged, queries = merged | group[0], [*group[1], *queries]
        groups.append((merged, queries))
    return [
        Spreadable(tuple(sorted(states)), tuple(queries), frozenset(repeated & states))
        for states, queries in groups
    ]


def grouped_states(layout: Layout) -> list[Spreadable]:
    """States of groups; aggregates of one stream by the same keys share one."""
    found: dict[str, list[Query]] = {}
    for routed in layout.queries:
        if (state := grouped_state(layout, routed)) is not None:
            found.setdefault(state, []).append(routed.query)
    return [
        Spreadable((state,), tuple(q.name for q in queries), grouped=True, stays=any(map(_by_row, queries)))
        for state, queries in found.items()
    ]


def _by_row(query: Query) -> bool:
    """Whether rows have results, and not windows."""
    return query.grouping is not None and query.grouping.window is None


def grouped_state(layout: Layout, routed: RoutedQuery) -> str | None:
    """The state whose hot groups are spread: the input of an aggregate, or the results of a join.

    None where there is nothing to spread. Rows of `[ROWS n]` windows are numbered as they arrive, at one
    place; windows of GROUP BY above a join are condensed where the join finds their rows.
    """
    grouping = routed.query.grouping
    if grouping is None:
        return None
    if len(routed.query.refs) > 1:
        return None if grouping.window is not None else results_state(routed)
    source = layout.inputs[routed.inputs[0]]
    return None if source.sequenced else source.state
