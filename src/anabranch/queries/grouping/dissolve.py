"""Groups that end: their members run otherwise from the next batch on, and lose and double nothing by it.

A result belongs to the batch of its oldest row. What has a row from before the change comes from the old
representative, until event time has passed all that such rows can meet; what has none comes from the new
plans, which begin with an empty state like any query that comes. Rows of one stream that are answered by
themselves need none of this.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from anabranch.plan.logical import UNBOUNDED_US, Query
from anabranch.queries.catalog import Catalog
from anabranch.queries.grouping.benefit import benefit
from anabranch.queries.grouping.groups import Ending, Group, group_of
from anabranch.queries.reconcile import reconcile
from anabranch.queries.shape import Shape
from anabranch.state import Manifest


def can_dissolve(found: Query) -> bool:
    """Whether results of a representative can be told apart by the batches of their rows.

    Not those of aggregates: a sum has rows of many batches. Nor those of windows without end: the old
    representative would never be over.
    """
    bounded = all(ref.window_us < UNBOUNDED_US for ref in found.refs)
    return found.split is not None and found.grouping is None and (found.stateless or bounded)


def over_us(found: Query, newest: Mapping[str, int | None]) -> int:
    """The largest event time that a result with a row from before can have.

    Parameters
    ----------
    newest
        By stream, the largest event time so far.
    """
    times = ((newest.get(ref.stream), ref.window_us) for ref in found.refs)
    return max((time + window for time, window in times if time is not None), default=0)


def groups_over(catalog: Catalog, watermarks: Mapping[str, int | None]) -> tuple[str, ...]:
    """Groups that were dissolved and have nothing more to answer.

    Parameters
    ----------
    watermarks
        By stream, held back by rows that wait.
    """
    found = []
    for name, group in catalog.groups.items():
        if group.ends is not None:
            reached = [watermarks.get(ref.stream) for ref in catalog.representatives[name].refs]
            if all(mark is not None and mark > group.ends.over_us for mark in reached):
                found.append(name)
    return tuple(found)


def pays_anew(catalog: Catalog, found: Query) -> bool:
    """Whether the members that a group has now would form a narrower one that pays.

    By the rule by which groups are formed. Where the members that made it wide are still there, it would be
    the same group again: no.
    """
    streams, failed = {stream.name: stream for stream in catalog.streams}, catalog.failed()
    shapes = [Shape(query, streams) for query in found.answered if query.name not in failed]
    if len(shapes) < 2:
        return False
    made = group_of(shapes)
    if [(r.window_us, r.filter) for r in made.refs] == [(r.window_us, r.filter) for r in found.refs]:
        return False
    return benefit(shapes, made).rows_per_second > 0


def regrouped(
    catalog: Catalog,
    manifest: Manifest,
    *,
    dissolved: Mapping[str, int],
    over: Collection[str] = (),
    anew: Collection[str] = (),
) -> Catalog:
    """The catalog after groups were dissolved, and others are over.

    Parameters
    ----------
    manifest
        Of the step after which they are.
    dissolved
        Groups whose members run otherwise from the next batch on, and up to which event time they answer.
    anew
        Those of them whose members form a group again, of what they are now; others run alone.
    """
    failed = catalog.failed()
    groups = {name: group for name, group in catalog.groups.items() if name not in over}
    moving: set[str] = set()
    for name, until_us in dissolved.items():
        members = {m: since for m, since in groups[name].members.items() if m not in failed}
        moving |= members.keys()
        ends = Ending(manifest.batch + 1, until_us)
        groups[name] = Group(groups[name].formed, members, groups[name].is_open, ends)
        if catalog.representatives[name].stateless:
            del groups[name]
    gone = {*moving, *over, *(dissolved.keys() - groups.keys())}
    content = {**catalog.content, "groups": {name: group.to_json() for name, group in groups.items()}}
    states = tuple(s for s in catalog.states if s.name not in gone)
    standing = {name: q for name, q in catalog.representatives.items() if name not in dissolved}
    after = reconcile(
        catalog.streams,
        catalog.answered,
        replace(manifest, queries=states, catalog=content),
        sources_by_name=catalog.sources_by_name,
        stations=catalog.stations,
        eddies=catalog.eddies,
        submitted=catalog.submitted,
        standing=standing,
        together=[catalog.groups[name].members.keys() - failed for name in anew],
    )
    after = replace(after, forgotten=catalog.forgotten, sharing=catalog.sharing)
    return replace(after, content=after.to_json())
