"""The streams and queries of a session: how each runs, how far it is, what a checkpoint remembers of it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from anabranch.operators.group.final_rows import Emission
from anabranch.plan.explain import explain
from anabranch.plan.inputs import Layout, RoutedQuery
from anabranch.plan.local_plan import LocalPlan
from anabranch.plan.logical import Connector, Query, Stream, TableJoin
from anabranch.plan.roster_change import NO_CHANGE, RosterChange
from anabranch.plan.stations.chosen_edges import edges_json
from anabranch.queries.fingerprint import fields_kept
from anabranch.queries.grouping.groups import Groups, signature_of
from anabranch.queries.shape import Shape
from anabranch.state import QueryState, QueryStatus
from anabranch.state.catalog_log import Changes, Place, patched

MOST_GROUPS = 8
"""Groups with one signature that a new query looks at: each begins where another did not do."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Changes of a catalog's content, and the content before and after them."""

    before: Mapping[str, Any]
    changes: Changes
    after: Mapping[str, Any]


@dataclass(frozen=True)
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
    sharing: str = "off"
    """Whether queries that come form groups, and of which kind."""
    groups: Groups = field(default_factory=dict)
    """By representative."""
    roster: RosterChange = field(default=NO_CHANGE, compare=False, repr=False)
    """Which members have come and gone with the last step, where the layout has stayed."""
    forgotten: frozenset[str] = frozenset()
    """Queries that were declared, and then dropped or replaced while a session ran: what declares them does
    not speak for them any more."""
    retired: frozenset[str] = frozenset()
    """Queries that are gone, but for the layout: it stays as it is until another query comes."""
    submitted: frozenset[str] = frozenset()
    """Queries that came while a session ran: the next one takes them up by itself."""
    content: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the next session will compare itself with; it stays when queries emit or fail."""
    changed: Changed | None = field(default=None, compare=False, repr=False)
    """What has made the content of another, where that is known."""

    @cached_property
    def answered(self) -> tuple[Query, ...]:
        """The queries as users know them: members of groups in the place of their representatives."""
        return tuple({member.name: member for query in self.queries for member in query.answered}.values())

    @cached_property
    def _by_name(self) -> dict[str, Query]:
        return {query.name: query for query in self.answered}

    @cached_property
    def state_of(self) -> dict[str, QueryState]:
        """States by query."""
        return {state.name: state for state in self.states}

    @cached_property
    def by_signature(self) -> dict[Hashable, tuple[Query, ...]]:
        """Representatives of groups that queries can join: where a new query finds its own, newest first."""
        streams = {stream.name: stream for stream in self.streams}
        found: dict[Hashable, tuple[Query, ...]] = {}
        for query in self.queries:
            joinable = query.split is not None and query.grouping is None and query.name not in self.failed()
            joinable = joinable and self.groups[query.name].ends is None
            if joinable and (mark := signature_of(Shape(query.answered[0], streams))) is not None:
                found[mark] = (query, *found.get(mark, ()))[:MOST_GROUPS]
        return found

    @cached_property
    def representatives(self) -> dict[str, Query]:
        """By group."""
        return {query.name: query for query in self.queries if query.split is not None}

    @cached_property
    def laid_out(self) -> frozenset[str]:
        """Names that the layout knows, also of queries that are gone: no member of a group can have one."""
        return frozenset(routed.query.name for routed in self.layout.queries)

    def with_members_in_layout(self) -> Catalog:
        """The same catalog; its layout, of which workers are told, names the members that there are now."""
        now = {query.name: query for query in self.queries if query.split is not None}
        routed = (replace(r, query=now.get(r.query.name, r.query)) for r in self.layout.queries)
        plans = (replace(p, query=now.get(p.query.name, p.query)) for p in self.plans)
        return replace(
            self,
            layout=replace(self.layout, queries=tuple(routed)),
            plans=tuple(plans),
            roster=NO_CHANGE,
        )

    def answered_by(self, name: str) -> Query | None:
        """The query of this name, as its user knows it."""
        return self._by_name.get(name)

    def group_with(self, name: str) -> str | None:
        """The group that a query is in; not one that was dissolved."""
        return next((g for g in self.groups_with(name) if self.groups[g].ends is None), None)

    def groups_with(self, name: str) -> list[str]:
        """All groups that give a query results: also those that were dissolved and still have some."""
        return [group for group, known in self.groups.items() if name in known.members]

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

    @cached_property
    def _ended(self) -> frozenset[str]:
        ended = (s.name for s in self.states if s.status is not QueryStatus.RUNNING)
        return self.retired.union(ended)

    def running_plans(self) -> tuple[LocalPlan, ...]:
        failed = self.failed()
        return tuple(p for p in self.plans if p.query.name not in failed)

    def failed(self) -> frozenset[str]:
        """Queries that were ended: they failed, or were dropped."""
        return self._ended

    def dropped(self) -> frozenset[str]:
        """Queries that were dropped with the last step."""
        states = self.state_of
        return frozenset(
            name for name in self._ended if name in states and states[name].status is QueryStatus.DROPPED
        )

    def failures(self) -> dict[str, str]:
        """Why they were, by query."""
        states = self.state_of
        return {name: why for name in self._ended if name in states and (why := states[name].failure)}

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
        return {s.name: s.emitted_us for s in self._emitting if s.emitted_us is not None}

    @cached_property
    def _emitting(self) -> tuple[QueryState, ...]:
        return tuple(s for s in self.states if s.emitted_us is not None or s.ahead)

    def ahead(self) -> dict[str, dict[int, int]]:
        """By query of which some partitions have emitted further than others: these, and up to which time."""
        return {s.name: dict(s.ahead) for s in self._emitting if s.ahead}

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
        plans = {plan.query.name: str(plan.plan) for plan in self.plans}
        routed = {r.query.name: r for r in self.layout.queries}
        return {
            "streams": {s.name: _stream_json(s) for s in self.streams},
            "queries": {
                query.name: self.entry_of(query, plans.get(query.name), routed.get(running.name))
                for running in self.queries
                for query in self._told_with(running)
                if query.name in self.state_of
            },
            **self._rest_of_content(),
        }

    def _told_with(self, running: Query) -> Iterable[Query]:
        """Queries that are told of together: members of a group that was dissolved run elsewhere."""
        group = self.groups.get(running.name)
        if group is not None and group.ends is not None:
            return (running,)
        return {q.name: q for q in (running, *running.answered)}.values()

    def entry_of(
        self, query: Query, plan: str | None = None, routed: RoutedQuery | None = None
    ) -> dict[str, Any]:
        """What `content` has of a query."""
        state = self.state_of[query.name]
        return {
            "fingerprint": state.fingerprint,
            "since": state.since,
            "plan": plan,
            "text": query.text,
            "fields": fields_kept(query),
            "stations": routed is not None and routed.tree is not None,
            **({"laid": routed.laid} if routed is not None and routed.laid else {}),
            **({"edges": edges_json(query, routed.edges)} if routed is not None and routed.edges else {}),
            "sink": _sink_json(query.sink),
            **({} if query.place is None else {"place": query.place}),
            **({"submitted": True} if query.name in self.submitted else {}),
        }

    def with_content_after(self, before: Catalog, came: Sequence[Query], gone: Collection[str]) -> Catalog:
        """The same, made of that of the catalog before: only members of groups have come and gone."""
        changes: dict[Place, list[Any]] = {
            ("queries", name): [] for name in gone if name in before.content["queries"]
        }
        changes |= {("queries", query.name): [self.entry_of(query)] for query in came}
        for name, old in before.groups.items():
            new = self.groups.get(name)
            if new is None:
                changes["groups", name] = []
            elif new is not old:
                left, joined = self.roster.left.get(name, ()), self.roster.joined.get(name, ())
                members = (*left, *(member.query.name for member in joined))
                there = new.members
                changes |= {("groups", name, "members", m): [there[m]] if m in there else [] for m in members}
        if self.forgotten != before.forgotten:
            changes["dropped",] = [sorted(self.forgotten)]
        content = patched(before.content, changes)
        return replace(self, content=content, changed=Changed(before.content, changes, content))

    def _rest_of_content(self) -> dict[str, Any]:
        return {
            "groups": {name: group.to_json() for name, group in self.groups.items()},
            "sources": {"by_name": self.sources_by_name, "order": self.sources},
            "dropped": sorted(self.forgotten),
        }


def explain_query(catalog: Catalog, name: str, *, sites: int) -> str:
    """How a query of the catalog will run; a member of a group, as its representative does."""
    by_name = {q.name: q for q in catalog.queries}
    running = by_name[catalog.group_with(name) or name]
    routed = next(r for r in catalog.layout.queries if r.query.name == running.name)
    plan = next(p for p in catalog.plans if p.query.name == running.name)
    text = explain(catalog.layout, routed, plan, sites=sites)
    if running.name == name:
        return text
    return f"{name} is one of {len(running.answered)} queries that are answered by\n{text}"


def _sink_json(sink: Connector | None) -> dict[str, Any] | None:
    return None if sink is None else {"format": sink.format, "path": sink.path, "options": list(sink.options)}


def _stream_json(stream: Stream) -> dict[str, Any]:
    return {
        "time": stream.time,
        "lateness_us": stream.lateness_us,
        "columns": {c.name: c.type for c in stream.columns},
    }
