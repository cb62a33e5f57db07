"""What a checkpoint remembers of streams and queries, and which changes it can live with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from anabranch.errors import StateError
from anabranch.operators.group.final_rows import Emission
from anabranch.plan.aggregate import NEED_ROWS, aggregate_column, is_bound
from anabranch.plan.explain import explain
from anabranch.plan.fragments import with_shared_states
from anabranch.plan.graph import JoinGraph
from anabranch.plan.inputs import Layout, RoutedQuery, layout_of
from anabranch.plan.local_plan import LocalPlan, compile_plan
from anabranch.plan.logical import (
    AGGREGATES_ALIAS,
    RESULTS_ALIAS,
    Aggregate,
    Column,
    Connector,
    Grouping,
    Query,
    Stream,
    TableJoin,
    column_name,
)
from anabranch.plan.tree import Plan, default_plan, parse_plan
from anabranch.queries.groups import running_queries
from anabranch.state import Manifest, QueryState, QueryStatus


@dataclass(frozen=True, slots=True)
class Catalog:
    """The streams and queries of a session, reconciled with what its checkpoint knows."""

    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    states: tuple[QueryState, ...]
    layout: Layout
    plans: tuple[LocalPlan, ...]
    """The plan of every query, where no site has one of its own."""
    sources_by_name: bool = False
    """Whether Spark tells the sources apart by name; else by position."""
    stations: bool = True
    """Whether new joins without a key that all streams share run at stations."""
    eddies: bool = False
    """Whether new joins on one key of three streams and more do."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By representative the text of every query that it was made for, those that have left among them."""
    forgotten: frozenset[str] = frozenset()
    """Queries that were dropped while a session ran: declared again, they stay so."""
    retired: frozenset[str] = frozenset()
    """Queries that are gone, but for the layout: it stays as it is until another query comes."""
    submitted: frozenset[str] = frozenset()
    """Queries that came while a session ran: the next one takes them up by itself."""
    content: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the next session will compare itself with; it stays when queries emit or fail."""

    @property
    def answered(self) -> tuple[Query, ...]:
        """The queries as users know them: members of groups in the place of their representatives."""
        return tuple(member for query in self.queries for member in query.answered)

    @property
    def table_joins(self) -> dict[str, list[TableJoin]]:
        """By stream, the tables that its rows meet, in an order in which they can."""
        found: dict[str, dict[TableJoin, None]] = {}
        for query in self.queries:
            for ref in query.refs:
                found.setdefault(ref.stream, {}).update(dict.fromkeys(ref.tables))
        return {stream: list(joins) for stream, joins in found.items() if joins}

    @property
    def sources(self) -> list[str]:
        """The streams that some query reads, in the order in which Spark has them."""
        used = {source.stream for source in self.layout.inputs}
        return [s.name for s in self.streams if s.name in used]

    def running_plans(self) -> tuple[LocalPlan, ...]:
        failed = self.failed()
        return tuple(p for p in self.plans if p.query.name not in failed)

    def failed(self) -> frozenset[str]:
        """Queries that were ended: they failed, or were dropped."""
        ended = (s.name for s in self.states if s.status is not QueryStatus.RUNNING)
        return self.retired.union(ended)

    def dropped(self) -> frozenset[str]:
        """Queries that were dropped with the last step."""
        return frozenset(s.name for s in self.states if s.status is QueryStatus.DROPPED)

    def failures(self) -> dict[str, str]:
        """Why they were, by query."""
        return {s.name: s.failure for s in self.states if s.failure}

    def with_failures(self, failures: Mapping[str, str]) -> Catalog:
        """This catalog with queries ended, each with its reason."""
        if not failures:
            return self
        states = tuple(
            replace(s, status=QueryStatus.FAILED, failure=failures[s.name]) if s.name in failures else s
            for s in self.states
        )
        return replace(self, states=states)

    def emitted(self) -> dict[str, int]:
        """By query that emits rows once they are final: the time up to which it has."""
        return {s.name: s.emitted_us for s in self.states if s.emitted_us is not None}

    def ahead(self) -> dict[str, dict[int, int]]:
        """By query of which some partitions have emitted further than others: these, and up to which time."""
        return {s.name: dict(s.ahead) for s in self.states if s.ahead}

    def with_emitted(self, emissions: Mapping[str, Emission], waiting: Mapping[str, int]) -> Catalog:
        """This catalog with queries that have emitted what was final.

        Parameters
        ----------
        waiting
            By query how many rows more, or less, wait to become final.
        """
        if not emissions:
            return self
        done = {name: emission.after() for name, emission in emissions.items()}
        states = tuple(
            replace(
                s,
                emitted_us=done[s.name][0],
                ahead=tuple(done[s.name][1].items()),
                waiting=s.waiting + waiting.get(s.name, 0),
            )
            if s.name in done
            else s
            for s in self.states
        )
        return replace(self, states=states)

    def to_json(self) -> dict[str, Any]:
        """Make `content`."""
        states = {state.name: state for state in self.states}
        plans = {plan.query.name: str(plan.plan) for plan in self.plans}
        return {
            "streams": {s.name: _stream_json(s) for s in self.streams},
            "queries": {
                query.name: {
                    "fingerprint": states[query.name].fingerprint,
                    "since": states[query.name].since,
                    "plan": plans.get(query.name),
                    "text": query.text,
                    "fields": _fields(query),
                    "stations": r.tree is not None,
                    **({"laid": r.laid} if r.laid else {}),
                    "sink": _sink_json(query.sink),
                }
                | ({"submitted": True} if query.name in self.submitted else {})
                for r in self.layout.queries
                for query in {q.name: q for q in (r.query, *r.query.answered)}.values()
                if query.name in states
            },
            "groups": {name: dict(members) for name, members in self.groups.items()},
            "sources": {"by_name": self.sources_by_name, "order": self.sources},
            "dropped": sorted(self.forgotten),
        }


def reconcile(
    streams: Sequence[Stream],
    queries: Sequence[Query],
    manifest: Manifest | None,
    *,
    sources_by_name: bool = False,
    stations: bool = True,
    eddies: bool = False,
    submitted: Iterable[str] = (),
    sharing: bool = False,
) -> Catalog:
    """Accept changes that leave the meaning of the kept state alone; refuse the others.

    Safe: lateness, source path and options, sinks, the number of sites, queries added (they start
    empty) or removed, SELECT lists that take less than before. Not safe: a changed window,
    predicate or key, a column that was not kept, another time column.

    Parameters
    ----------
    stations
        Whether new joins without a key that all streams share run at stations; those that the checkpoint
        knows go on as they did, for their state is laid out so.
    eddies
        Whether new joins of three streams and more on one key do.
    submitted
        Queries that came while a session ran.
    sharing
        Whether new queries form groups; those that the checkpoint knows go on in the group they are in.
    """
    known = {q.name: q for q in manifest.queries} if manifest else {}
    remembered: Mapping[str, Any] = manifest.catalog if manifest else {}
    for stream in streams:
        _check_stream(stream, remembered.get("streams", {}).get(stream.name))
    next_batch = manifest.batch + 1 if manifest else 0
    groups: Mapping[str, Mapping[str, str]] = remembered.get("groups", {})
    running, groups = running_queries(queries, streams, groups, known=known, sharing=sharing)
    states = []
    for query in {q.name: q for r in running for q in (r, *r.answered)}.values():
        before = known.get(query.name)
        if before is None:
            states.append(QueryState(query.name, fingerprint(query), next_batch))
            continue
        _check_query(query, before, remembered["queries"][query.name])
        states.append(before)
    as_before = {n: q for n, q in remembered.get("queries", {}).items() if n in known}
    at_stations = {
        query.name: bool(as_before[query.name].get("stations"))
        if query.name in as_before
        else (eddies if JoinGraph.of(query).routing_classes() else stations)
        for query in running
    }
    laid = {name: int(query.get("laid", 0)) for name, query in as_before.items()}
    began = {state.name: state.since for state in states}
    layout = with_shared_states(layout_of(running, began, at_stations, laid))
    plans = tuple(
        compile_plan(layout, routed, _default_plan(routed, remembered["queries"] if name in known else {}))
        for routed in layout.queries
        for name in (routed.query.name,)
    )
    catalog = Catalog(
        tuple(streams),
        running,
        tuple(states),
        layout,
        plans,
        sources_by_name,
        stations,
        eddies,
        groups,
        forgotten=frozenset(remembered.get("dropped", ())),
        submitted=frozenset(submitted),
    )
    return replace(catalog, content=catalog.to_json())


def _default_plan(routed: RoutedQuery, remembered: Mapping[str, Any]) -> Plan:
    """The plan of sites that have none of their own: manifests do not name it, so that it must stay."""
    before = remembered.get(routed.query.name, {}).get("plan")
    return default_plan(routed.graph) if before is None else parse_plan(before)


def known_streams(manifest: Manifest) -> dict[str, Stream]:
    """The streams of a checkpoint, without their sources."""
    return {
        name: Stream(
            name,
            tuple(Column(column, kind) for column, kind in known["columns"].items()),
            known["time"],
            known["lateness_us"],
        )
        for name, known in manifest.catalog["streams"].items()
    }


def explain_query(catalog: Catalog, name: str, *, sites: int) -> str:
    """How a query of the catalog will run; a member of a group, as its representative does."""
    running = next(q for q in catalog.queries if name in (q.name, *(m.name for m in q.answered)))
    routed = next(r for r in catalog.layout.queries if r.query.name == running.name)
    plan = next(p for p in catalog.plans if p.query.name == running.name)
    text = explain(catalog.layout, routed, plan, sites=sites)
    if running.name == name:
        return text
    return f"{name} is one of {len(running.answered)} queries that are answered by\n{text}"


def fingerprint(query: Query) -> str:
    """Digest of what decides a query's state: references, windows, filters, keys, predicates."""
    refs = [(r.alias, r.stream, r.window_us, r.filter) for r in query.refs]
    classes = [(c.type, [(m.alias, m.field.sql, m.field.type) for m in c.members]) for c in query.classes]
    residuals = sorted(_spelled_out(query, r.sql) for r in query.residuals)
    parts: tuple[object, ...] = (refs, classes, residuals)
    if query.grouping is not None:
        parts += (_grouped(query, query.grouping),)
    return xxhash.xxh3_128_hexdigest(repr(parts).encode())


def _grouped(query: Query, grouping: Grouping) -> tuple[object, ...]:
    keys = [(k.hashed.sql, k.hashed.type) for k in grouping.keys]
    having = None if grouping.having is None else _spelled_out(query, grouping.having)
    if having is not None:
        for number, value in enumerate(grouping.values):
            having = having.replace(f'"{column_name(RESULTS_ALIAS, number)}"', value.name)
        for number, aggregate in enumerate(grouping.aggregates):
            argument = "*" if aggregate.field is None else _argument(query, grouping, aggregate.field)
            having = having.replace(f'"{aggregate_column(number)}"', f"{aggregate.function}({argument})")
    if grouping.window is None:
        return keys, grouping.rows, grouping.distinct, having
    rows = any(a.function in NEED_ROWS for a in grouping.aggregates)
    return keys, grouping.window, rows, having


def _argument(query: Query, grouping: Grouping, field: int) -> str:
    return grouping.values[field].name if grouping.values else query.refs[0].fields[field].sql


def _spelled_out(query: Query, sql: str) -> str:
    """A predicate with its fields written out, so that it does not depend on their numbering."""
    for ref in query.refs:
        for i in reversed(range(len(ref.fields))):
            sql = sql.replace(f'"{ref.alias}.{i}"', f"{ref.alias}:{ref.fields[i].sql}")
    return sql


def _check_query(query: Query, before: QueryState, remembered: Mapping[str, Any]) -> None:
    advice = "give the changed query a new name, or start with a new checkpoint"
    if fingerprint(query) != before.fingerprint:
        raise StateError(
            f"query {query.name!r} has other streams, windows or predicates than its checkpoint, so its "
            f"state would not fit: {advice}. The checkpoint knows: {remembered['text']}"
        )
    kept = {(alias, field) for alias, fields in remembered["fields"].items() for field in fields}
    missing = sorted((a, f) for a, fields in _fields(query).items() for f in fields if (a, f) not in kept)
    if missing:
        wanted = ", ".join(
            field if alias == AGGREGATES_ALIAS else f"{alias}.{field}" for alias, field in missing
        )
        raise StateError(f"query {query.name!r} now selects {wanted}, which its state did not keep: {advice}")


def _check_stream(stream: Stream, before: Mapping[str, Any] | None) -> None:
    if before is None:
        return
    if before["time"] != stream.time:
        raise StateError(
            f"stream {stream.name!r} took its time from column {before['time']!r} so far, now from "
            f"{stream.time!r}: keep the column, or start with a new checkpoint"
        )
    types = {c.name: c.type for c in stream.columns}
    for name, kind in before["columns"].items():
        if types.get(name, kind) != kind:
            raise StateError(
                f"column {name!r} of stream {stream.name!r} was {kind} so far and is {types[name]} now: "
                f"CAST it back to {kind} at the source, or start with a new checkpoint"
            )


def _sink_json(sink: Connector | None) -> dict[str, Any] | None:
    return None if sink is None else {"format": sink.format, "path": sink.path, "options": list(sink.options)}


def _stream_json(stream: Stream) -> dict[str, Any]:
    return {
        "time": stream.time,
        "lateness_us": stream.lateness_us,
        "columns": {c.name: c.type for c in stream.columns},
    }


def _fields(query: Query) -> dict[str, list[str]]:
    fields = {r.alias: [f"{f.sql}::{f.type}" for f in r.fields] for r in query.refs}
    if query.grouping is not None and query.grouping.values:
        fields[RESULTS_ALIAS] = [value.name for value in query.grouping.values]
    if query.grouping is not None and query.grouping.window is not None:
        # Windows keep partial aggregates: another function of the same column has none.
        partial = (a for a in query.grouping.aggregates if not is_bound(a.function))
        fields[AGGREGATES_ALIAS] = [_spelled_aggregate(query, a) for a in partial]
    return fields


def _spelled_aggregate(query: Query, aggregate: Aggregate) -> str:
    assert query.grouping is not None
    inputs = (i for i in (aggregate.field, aggregate.by) if i is not None)
    return f"{aggregate.function}({', '.join(_argument(query, query.grouping, i) for i in inputs)})"
