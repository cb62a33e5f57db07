"""Members of groups come and go: nothing but who gets which results changes, so that ingest stays as it is.

A query that comes finds its group by its signature. Where the representative has all that it needs, it joins:
it counts from the next batch, and results with older rows are not its own. A query that goes stays in the
catalog for one step more, as dropped: a crash before its sink has its last results must not lose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from anabranch.plan.logical import Member, Query
from anabranch.plan.roster_change import RosterChange
from anabranch.queries.catalog import Catalog
from anabranch.queries.fingerprint import fingerprint
from anabranch.queries.grouping.groups import Group, signature_of
from anabranch.queries.grouping.representative import joining_member
from anabranch.queries.shape import Shape
from anabranch.state import QueryState, QueryStatus


@dataclass(frozen=True, slots=True)
class Add:
    """A query that is to run."""

    query: Query
    history: bool = False
    """Whether its results may have older rows, as far as the state of a group that it joins has them."""

    @property
    def name(self) -> str:
        return self.query.name


@dataclass(frozen=True, slots=True)
class Drop:
    """A query that is to end."""

    name: str


@dataclass(frozen=True, slots=True)
class Replace:
    """A query that is to go on with another text: with its state if that has all it needs, else anew."""

    query: Query

    @property
    def name(self) -> str:
        return self.query.name


Change = Add | Drop | Replace


@dataclass(frozen=True, slots=True)
class Turned:
    """A catalog in which members have come and gone, and queries for which that is not enough."""

    catalog: Catalog
    rest: tuple[Add | Replace, ...]


def turned_over(catalog: Catalog, changes: Sequence[Change], *, batch: int) -> Turned:
    """Do what needs no other rows than before: queries go, and join groups.

    Parameters
    ----------
    batch
        From which queries that come count.
    """
    last: dict[str, Change] = {}
    for change in changes:
        came = last.get(change.name)
        if isinstance(change, Drop) and isinstance(came, Add):
            del last[change.name]  # it has never run
        elif isinstance(change, Replace) and isinstance(came, Add):
            last[change.name] = replace(came, query=change.query)
        else:
            last[change.name] = change
    turn = _Turn(catalog, batch)
    turn.let_go(catalog.dropped())
    for change in last.values():
        if not isinstance(change, Drop):
            turn.take(change)
    dropping = {name for name, change in last.items() if isinstance(change, Drop)}
    return Turned(turn.done(dropping), tuple(turn.rest))


@dataclass(slots=True)
class _Turn:
    catalog: Catalog
    batch: int
    left: dict[str, dict[str, None]] = field(default_factory=dict)
    """By group, members that leave it."""
    joined: dict[str, list[Member]] = field(default_factory=dict)
    since: dict[str, int | None] = field(default_factory=dict)
    """Of members that join."""
    states: dict[str, QueryState] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Queries that are no longer there, or no longer as they were."""
    rest: list[Add | Replace] = field(default_factory=list)

    def let_go(self, names: frozenset[str]) -> None:
        for name in names:
            self._leave(name)
            self.gone.add(name)

    def _leave(self, name: str) -> None:
        for group in self.catalog.groups_with(name):
            self.left.setdefault(group, {})[name] = None

    def take(self, change: Add | Replace) -> None:
        """Let a query join a group, if there is one for it."""
        query, before = change.query, self.catalog.state_of.get(change.name)
        was_in, mark = self.catalog.group_with(change.name), fingerprint(query)
        # What a group that was dissolved still has for it was made for its text of then.
        is_cut = len(self.catalog.groups_with(change.name)) > (was_in is not None)
        same = isinstance(change, Replace) and before is not None and before.fingerprint == mark
        same = same and not is_cut
        if same and was_in is None:
            self.rest.append(change)  # it has a state of its own, which may do
            return
        group, member = None, None
        first = None if isinstance(change, Add) and change.history else self.batch
        if query.name not in self.catalog.laid_out:
            group, member = self._place_for(query, was_in if same else None, first)
        if isinstance(change, Replace):
            self._leave(change.name)
            self.gone.add(change.name)
        if group is None or member is None:
            self.rest.append(Add(query) if is_cut or was_in is not None else change)
            return
        goes_on = same and group == was_in
        self.joined.setdefault(group, []).append(member)
        self.since[change.name] = self.catalog.groups[group].members[change.name] if goes_on else first
        began = before.since if goes_on and before is not None else self.batch
        self.states[change.name] = QueryState(change.name, mark, began)

    def _place_for(
        self, query: Query, goes_on_in: str | None, first: int | None
    ) -> tuple[str | None, Member | None]:
        """A group that has all that a query needs, and what it is there; best the one that it is in.

        Parameters
        ----------
        first
            The batch from which it counts where it comes anew; None for one that takes what it finds.
        """
        if self.catalog.sharing == "off" and goes_on_in is None:
            return None, None
        streams = {stream.name: stream for stream in self.catalog.streams}
        shape = Shape(query, streams)
        mark = signature_of(shape)
        standing = self.catalog.by_signature.get(mark, ()) if mark is not None else ()
        for found in sorted(standing, key=lambda q: q.name != goes_on_in):
            group = self.catalog.groups[found.name]
            since = group.members[query.name] if found.name == goes_on_in else first
            try:
                member = joining_member(found, shape, is_open=group.is_open, since=since)
            except ValueError:  # its filters have too many parts
                continue
            if member is not None:
                return found.name, member
        return None, None

    def done(self, dropping: set[str]) -> Catalog:
        """The catalog after it."""
        catalog = self.catalog
        queries, groups = [], dict(catalog.groups)
        retired = set(catalog.retired)
        for query in catalog.queries:
            name = query.name
            if name in self.left or name in self.joined:
                groups[name] = self._group(name, groups[name])
                if not groups[name].members:
                    del groups[name]
                    retired.add(name)
                else:
                    queries.append(self._changed(query))
            elif name in self.gone:
                retired.add(name)
            else:
                queries.append(query)
        states: Iterable[QueryState] = catalog.states
        if self.gone or dropping or retired != catalog.retired:
            kept = (s for s in states if s.name not in self.gone and s.name not in retired)
            states = (replace(s, status=QueryStatus.DROPPED) if s.name in dropping else s for s in kept)
        came = self.states.keys()
        # A flow file may declare them still, and does not speak for them any more.
        declared = (dropping | self.gone.intersection(came)) - catalog.submitted
        after = replace(
            catalog,
            queries=tuple(queries),
            states=(*states, *self.states.values()),
            groups=groups,
            retired=frozenset(retired),
            forgotten=catalog.forgotten | declared,
            submitted=(catalog.submitted - self.gone) | came,
            roster=RosterChange(
                {group: tuple(names) for group, names in self.left.items()},
                {group: tuple(members) for group, members in self.joined.items()},
            ),
        )
        members = [m.query for some in self.joined.values() for m in some]
        return after.with_content_after(catalog, members, (self.gone | retired) - came)

    def _changed(self, query: Query) -> Query:
        assert query.split is not None
        left = self.left.get(query.name, {})
        members = query.split.members
        if left:
            members = tuple(m for m in members if m.query.name not in left)
        members = (*members, *self.joined.get(query.name, ()))
        return replace(query, split=replace(query.split, members=members))

    def _group(self, name: str, group: Group) -> Group:
        members = dict(group.members)
        for gone in self.left.get(name, ()):
            members.pop(gone, None)
        members |= {m.query.name: self.since[m.query.name] for m in self.joined.get(name, ())}
        return replace(group, members=members)
