"""Groups: which queries of a session are answered by one representative."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

import xxhash

from anabranch.language.flow import bind_query
from anabranch.plan.logical import Query, Stream
from anabranch.queries.benefit import benefit
from anabranch.queries.representative import representative
from anabranch.queries.shape import Shape
from anabranch.queries.signature import signature

Groups = Mapping[str, Mapping[str, str]]
"""By representative the texts of the queries it was made for, by name."""


def group_queries(queries: Sequence[Query], streams: Sequence[Stream]) -> tuple[Query, ...]:
    """What a session runs for these queries: representatives of groups that pay, and the others."""
    known = {stream.name: stream for stream in streams}
    groups: dict[Hashable, list[Shape]] = {}
    alone: list[Query] = []
    for query in queries:
        shape = Shape(query, known)
        # A table has versions: which one a row has met is not in the results.
        found = None if any(ref.tables for ref in query.refs) else signature(shape)
        if found is None:
            alone.append(query)
        else:
            groups.setdefault(found, []).append(shape)
    running = list(alone)
    for shapes in groups.values():
        running += _run_by(shapes)
    order = {query.name: i for i, query in enumerate(queries)}
    return tuple(sorted(running, key=lambda q: order[q.answered[0].name]))


def group_of(shapes: Sequence[Shape]) -> Query:
    """The representative of some queries, named by them."""
    names = repr(sorted(shape.query.name for shape in shapes))
    return representative(f"group.{xxhash.xxh3_64_hexdigest(names.encode())}", shapes)


def _run_by(shapes: Sequence[Shape]) -> list[Query]:
    if len(shapes) == 1:
        return [shapes[0].query]
    try:
        found = group_of(shapes)
    except ValueError:
        return [shape.query for shape in shapes]
    return [found] if benefit(shapes, found).rows_per_second > 0 else [shape.query for shape in shapes]


def running_queries(
    queries: Sequence[Query],
    streams: Sequence[Stream],
    groups: Groups,
    *,
    known: Collection[str],
    sharing: bool,
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
        Whether new queries form groups.
    """
    by_name = {query.name: query for query in queries}
    kept = {
        name: members
        for name, members in groups.items()
        if any(member in known and member in by_name for member in members)
    }
    present = {m: by_name[m] for members in kept.values() for m in members if m in known and m in by_name}
    running = [_remembered(members, present, streams) for members in kept.values()]
    alone = [q for q in queries if q.name not in present and q.name in known]
    new = [q for q in queries if q.name not in present and q.name not in known]
    formed = group_queries(new, streams) if sharing else tuple(new)
    texts = {q.name: {m.name: m.text for m in q.answered} for q in formed if q.split is not None}
    order = {query.name: i for i, query in enumerate(queries)}
    found = sorted((*running, *alone, *formed), key=lambda q: order[q.answered[0].name])
    return tuple(found), {**kept, **texts}


def _remembered(members: Mapping[str, str], present: Mapping[str, Query], streams: Sequence[Stream]) -> Query:
    """A group as a checkpoint remembers it, with those members that are still there."""
    known = {stream.name: stream for stream in streams}
    all_of_them = [present.get(name) or bind_query(name, text, known) for name, text in members.items()]
    found = group_of([Shape(query, known) for query in all_of_them])
    assert found.split is not None
    left = tuple(member for member in found.split.members if member.query.name in present)
    return replace(found, split=replace(found.split, members=left))
