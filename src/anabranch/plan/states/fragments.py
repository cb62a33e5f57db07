"""Fragments: what some references of a query are joined to, by content.

What decides the rows of a fragment is, of every reference, its input and its window, and the equalities and
predicates between them. Names of queries and references do not count, so that equal fragments of two queries
are told to be equal. A query that has a reference twice tells the two apart by their names.

Columns are named by content, too: `<reference>:<field>`, where a reference is a digest of input and window.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import xxhash

from anabranch.plan.columns import QUOTED, columns_above
from anabranch.plan.inputs import HASH, Input, Layout, RoutedQuery, field_column, key_hash_column
from anabranch.plan.logical import Query, column_name
from anabranch.plan.states.shared_states import Carried, Reader, SharedStates
from anabranch.plan.states.state_id import StateId, StateKind
from anabranch.plan.stations.join_tree import Edge

FEWEST_REFERENCES = 3
"""Of a query with intermediate states."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """The fragments of one query.

    Attributes
    ----------
    ids
        By reference its name by content.
    """

    query: Query
    ids: Mapping[str, str]
    classes: tuple[tuple[tuple[str, str, str], ...], ...]
    """Of every key class the references, their names by content, and fields."""
    residuals: tuple[tuple[frozenset[str], str], ...]
    """The references of every predicate, and what it says by content."""
    hashes: Mapping[str, Mapping[str, str]]
    """By reference and field of a key: the column with its hash."""

    @classmethod
    def of(cls, routed: RoutedQuery, inputs: Collection[Input]) -> Fragments:
        query = routed.query
        sources = {source.id: source for source in inputs}
        mine = {ref.alias: sources[routed.input_of(ref.alias)] for ref in query.refs}
        ids = _ids(query, mine)
        columns = {
            column_name(ref.alias, i): f"{ids[ref.alias]}:{field_column(field)}"
            for ref in query.refs
            for i, field in enumerate(ref.fields)
        }
        return cls(
            query,
            ids,
            tuple(
                tuple((m.alias, ids[m.alias], field_column(m.field)) for m in key_class.members)
                for key_class in query.classes
            ),
            tuple((frozenset(r.aliases), _by_content(r.sql, columns)) for r in query.residuals),
            _hashes(query, mine),
        )

    def state(self, aliases: Iterable[str]) -> StateId:
        """The state that keeps the rows of a fragment."""
        inside = frozenset(aliases)
        streams = sorted(ref.stream for ref in self.query.refs if ref.alias in inside)
        return StateId.of(StateKind.JOIN, ".".join(streams), self._content(inside))

    def station_state(self, routed: RoutedQuery, edge: Edge, aliases: Iterable[str]) -> StateId:
        """The state that keeps rows of a fragment at a station.

        Which rows of a fragment come to a station depends on all choices that they and their parts have had:
        on the edges at its references, in their order. Where these are the same, too, so are the choices, and
        two queries have the same rows there. A query that was laid out anew shares nothing.
        """
        assert routed.tree is not None
        inside = frozenset(aliases)
        streams = ".".join(sorted(ref.stream for ref in self.query.refs if ref.alias in inside))
        touching = [e for e in routed.tree.edges if {e.left, e.right} & inside]
        ways = [self._ends(e, inside) for e in touching]
        content = self._content(inside), routed.since, ways, touching.index(edge)
        apart = (content, self.query.name, routed.laid) if routed.laid else content
        return StateId.of(StateKind.STATION, streams, apart)

    def _ends(self, edge: Edge, inside: frozenset[str]) -> list[tuple[str, str]]:
        """Of an edge at a fragment, the references that are in it, and their keys."""
        members = self.classes[edge.key_class]
        ends = {edge.left, edge.right} & inside
        return sorted((name, field) for alias, name, field in members if alias in ends)

    def carried(self, column: str, inside: Collection[str]) -> Carried:
        """A logical column (`plan.nodes`) of the rows of a fragment."""
        is_hash = column.startswith("k") and column[1:].isdigit()
        if is_hash or (column.startswith("key") and column[3:].isdigit()):
            members = self.classes[int(column[1 if is_hash else 3 :])]
            name, field, alias = min(
                (name, field, alias) for alias, name, field in members if alias in inside
            )
            source = self.hashes[alias][field] if is_hash else field
            return Carried(f"{'hash' if is_hash else 'key'}({name}:{field})", name, source)
        alias, _, index = column.rpartition(".")
        ref = next(r for r in self.query.refs if r.alias == alias)
        field = field_column(ref.fields[int(index)])
        return Carried(f"{self.ids[alias]}:{field}", self.ids[alias], field)

    def names(self, columns: Iterable[str], inside: Collection[str]) -> dict[str, str]:
        """Physical names of logical columns: by content, so that they outlive a changed SELECT list."""
        return {column: self.carried(column, inside).name for column in columns}

    def _content(self, inside: frozenset[str]) -> tuple[object, ...]:
        equal = (
            tuple(sorted((name, field) for alias, name, field in members if alias in inside))
            for members in self.classes
        )
        return (
            tuple(sorted(self.ids[alias] for alias in inside)),
            tuple(sorted(fields for fields in equal if len(fields) > 1)),
            tuple(sorted(sql for aliases, sql in self.residuals if aliases <= inside)),
        )


def _ids(query: Query, inputs: Mapping[str, Input]) -> dict[str, str]:
    content = {ref.alias: (str(inputs[ref.alias].state), ref.window_us) for ref in query.refs}
    same = list(content.values())
    return {
        alias: _digest(what if same.count(what) == 1 else (*what, alias)) for alias, what in content.items()
    }


def _digest(content: object) -> str:
    return xxhash.xxh3_64_hexdigest(repr(content).encode())


def _by_content(sql: str, columns: Mapping[str, str]) -> str:
    """A predicate with columns by content in the place of those of the query."""

    def named(found: re.Match[str]) -> str:
        name = found[1]
        return found[0] if name is None else f'"{columns.get(name, name)}"'

    return QUOTED.sub(named, sql)


def _hashes(query: Query, inputs: Mapping[str, Input]) -> dict[str, dict[str, str]]:
    """By reference and key, the column with its hash: that of a single routing key is the address."""
    found: dict[str, dict[str, str]] = {}
    for key_class in query.classes:
        for member in key_class.members:
            is_route = inputs[member.alias].route.keys == (member.field,)
            column = HASH if is_route else key_hash_column(member.field)
            found.setdefault(member.alias, {})[field_column(member.field)] = column
    return found


def _shared_at_stations(layout: Layout) -> dict[StateId, tuple[Carried, ...]]:
    """States of joined rows at stations that several queries have, and the columns that these need."""
    readers = Counter[StateId]()
    needed: dict[StateId, dict[Carried, None]] = {}
    for routed in layout.queries:
        if (tree := routed.tree) is None:
            continue
        mine = Fragments.of(routed, layout.inputs)
        for edge, aliases in tree.arrivals():
            if len(aliases) > 1:
                state = mine.station_state(routed, edge, aliases)
                readers[state] += 1
                columns = (c for c in columns_above(routed, aliases) if c != edge.key)
                needed.setdefault(state, {}).update(dict.fromkeys(mine.carried(c, aliases) for c in columns))
    return {state: tuple(needed[state]) for state, times in readers.items() if times > 1}


def with_shared_states(layout: Layout) -> Layout:
    """A layout that knows which intermediate states its queries have in common."""
    joins = [
        r for r in layout.queries if r.routing and r.tree is None and len(r.query.refs) >= FEWEST_REFERENCES
    ]
    fragments = [Fragments.of(routed, layout.inputs) for routed in joins]
    times = Counter(name for mine in fragments for name in mine.ids.values())
    readers: dict[StateId, list[Reader]] = {}
    needed: dict[StateId, dict[Carried, None]] = {}
    for routed, mine in zip(joins, fragments, strict=True):
        for aliases in _subsets([a for a, name in mine.ids.items() if times[name] > 1], len(mine.ids) - 1):
            state = mine.state(aliases)
            readers.setdefault(state, []).append(Reader(mine.query.name, frozenset(aliases)))
            columns = (mine.carried(column, aliases) for column in columns_above(routed, aliases))
            needed.setdefault(state, {}).update(dict.fromkeys(columns))
    shared = {state: tuple(its) for state, its in readers.items() if len(its) > 1}
    columns_of = {state: tuple(needed[state]) for state in shared}
    states = {reader: state for state, its in shared.items() for reader in its}
    return replace(layout, shared=SharedStates(shared, columns_of, states, _shared_at_stations(layout)))


def _subsets(aliases: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    for size in range(2, min(len(aliases), most) + 1):
        yield from combinations(aliases, size)
