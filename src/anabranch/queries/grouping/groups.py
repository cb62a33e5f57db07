"""Groups: which queries of a session are answered by one representative."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import xxhash

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Member, Query, Stream
from anabranch.queries.grouping.benefit import benefit
from anabranch.queries.grouping.representative import joining_member, representative, with_rows_before
from anabranch.queries.grouping.signature import signature
from anabranch.queries.shape import Shape

FEWEST = 16
"""Queries that form a group by themselves: of fewer, splitting may cost more than it saves."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How far a group still answers that its members have left for other plans.

    Attributes
    ----------
    until
        The first batch whose rows are none of its business: results of these alone come from elsewhere.
    over_us
        The event time after which no older row can have a result: then the group is over.
    """

    until: int
    over_us: int


@dataclass(frozen=True, slots=True)
class Group:
    """What a checkpoint remembers of a group.

    Attributes
    ----------
    formed
        Texts of the queries that it was formed of, by name: its representative, and so its state, is that of
        all of them for as long as the group lasts.
    members
        Queries that are in it now; by name the batch from which those count that have joined later.
    is_open
        Whether its representative takes all rows and columns.
    ends
        How far it still answers, if it was dissolved.
    """

    formed: Mapping[str, str]
    members: Mapping[str, int | None]
    is_open: bool = False
    ends: Ending | None = None

    def to_json(self) -> dict[str, Any]:
        ends = {} if self.ends is None else {"ends": [self.ends.until, self.ends.over_us]}
        return {"formed": dict(self.formed), "members": dict(self.members), "open": self.is_open, **ends}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        ends = Ending(*told["ends"]) if "ends" in told else None
        return cls(told["formed"], told["members"], told["open"], ends)


Groups = Mapping[str, Group]
"""By representative."""


def signature_of(shape: Shape) -> Hashable | None:
    """What a query shares with its group; None for one that stays alone."""
    # A table has versions: which one a row has met is not in the results.
    return None if any(ref.tables for ref in shape.query.refs) else signature(shape)


def group_queries(
    queries: Sequence[Query],
    streams: Sequence[Stream],
    *,
    is_open: bool = False,
    fewest: int = 2,
    batch: int = 0,
) -> tuple[Query, ...]:
    """What a session runs for these queries: representatives of groups that pay, and the others.

    Parameters
    ----------
    is_open
        Whether every query that can be in a group is in one, that others can join.
    fewest
        Queries that form a group.
    batch
        From which they count: no two groups have the same name.
    """
    known = {stream.name: stream for stream in streams}
    groups: dict[Hashable, list[Shape]] = {}
    running: list[Query] = []
    for query in queries:
        shape = Shape(query, known)
        found = signature_of(shape)
        if found is None:
            running.append(query)
        else:
            groups.setdefault(found, []).append(shape)
    for shapes in groups.values():
        running += _run_by(shapes, batch, is_open=is_open, fewest=fewest)
    order = {query.name: i for i, query in enumerate(queries)}
    return tuple(sorted(running, key=lambda q: order[q.answered[0].name]))


def group_of(shapes: Sequence[Shape], batch: int = 0, *, is_open: bool = False) -> Query:
    """The representative of some queries, named by them."""
    names = repr((batch, sorted(shape.query.name for shape in shapes)))
    return representative(f"group.{xxhash.xxh3_64_hexdigest(names.encode())}", shapes, is_open=is_open)


def _run_by(shapes: Sequence[Shape], batch: int, *, is_open: bool, fewest: int) -> list[Query]:
    is_open = is_open and shapes[0].query.grouping is None
    alone = [shape.query for shape in shapes]
    if len(shapes) < fewest and not is_open:
        return alone
    try:
        found = group_of(shapes, batch, is_open=is_open)
    except ValueError:
        return alone
    return [found] if is_open or benefit(shapes, found).rows_per_second > 0 else alone


def running_queries(
    queries: Sequence[Query],
    streams: Sequence[Stream],
    groups: Groups,
    *,
    known: Collection[str],
    sharing: str,
    batch: int = 0,
    standing: Mapping[str, Query] | None = None,
    together: Iterable[Collection[str]] = (),
) -> tuple[tuple[Query, ...], Groups]:
    """What a session runs, and the groups in it.

    Parameters
    ----------
    groups
        Groups of the checkpoint. They stay as they were formed, for their state is that of all they were
        formed of: a member that has left is only not answered any more.
    known
        Queries that the checkpoint has state of.
    sharing
        Whether new queries form groups, and of which kind.
    batch
        From which new queries count.
    standing
        By name, representatives of a running session: they need not be made again.
    together
        Names of new queries that form a group in any case.
    """
    by_name = {query.name: query for query in queries}
    running: list[Query] = []
    kept: dict[str, Group] = {}
    present: set[str] = set()
    for name, group in groups.items():
        ends = group.ends is not None
        members = {m: s for m, s in group.members.items() if m in by_name and (ends or m in known)}
        if not members:
            continue
        kept[name] = replace(group, members=members)
        found = (standing or {}).get(name)
        running.append(found or _remembered(name, kept[name], by_name, streams))
        present |= set() if ends else members.keys()
    alone = [q for q in queries if q.name not in present and q.name in known]
    by_stream = {stream.name: stream for stream in streams}
    sets = [[Shape(by_name[name], by_stream) for name in by_name if name in some] for some in together]
    present |= {shape.query.name for shapes in sets for shape in shapes}
    new = [q for q in queries if q.name not in present and q.name not in known]
    formed: tuple[Query, ...] = tuple(new)
    if sharing != "off":
        fewest = FEWEST if sharing == "auto" else 2
        formed = group_queries(new, streams, is_open=sharing == "open", fewest=fewest, batch=batch)
    formed += tuple(group_of(shapes, batch) for shapes in sets)
    for q in formed:
        if q.split is not None:
            texts = {m.name: m.text for m in q.answered}
            is_open = sharing == "open" and q.grouping is None
            kept[q.name] = Group(texts, dict.fromkeys(texts), is_open)
    order = {query.name: i for i, query in enumerate(queries)}
    found_all = sorted((*running, *alone, *formed), key=lambda q: order[q.answered[0].name])
    return tuple(found_all), kept


def _remembered(name: str, group: Group, present: Mapping[str, Query], streams: Sequence[Stream]) -> Query:
    """A group as a checkpoint remembers it, with the members that it has now."""
    known = {stream.name: stream for stream in streams}
    formed = {n: bind_query(n, text, known) for n, text in group.formed.items()}
    found = representative(name, [Shape(q, known) for q in formed.values()], is_open=group.is_open)
    assert found.split is not None
    first = {member.query.name: member for member in found.split.members}
    members = [
        _member(found, present[n], first.get(n), since, known, is_open=group.is_open)
        for n, since in group.members.items()
    ]
    if group.ends is not None:
        members = [with_rows_before(member, group.ends.until) for member in members]
    return replace(found, split=replace(found.split, members=tuple(members)))


def _member(
    found: Query,
    query: Query,
    formed: Member | None,
    since: int | None,
    streams: Mapping[str, Stream],
    *,
    is_open: bool,
) -> Member:
    if formed is not None and since is None and formed.query.text == query.text:
        return replace(formed, query=query)
    member = joining_member(found, Shape(query, streams), is_open=is_open, since=since)
    if member is None and formed is not None:
        return replace(formed, query=query)  # refused by whoever compares it with the checkpoint
    assert member is not None, f"{query.name} does not belong to {found.name}"
    return member
