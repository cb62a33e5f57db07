"""Sites of a slot that are worked on together, so that a site costs what its rows cost.

Running a query's operator takes some tenths of a millisecond, with or without rows. 256 sites with ten
queries would pay that 2,560 times in every batch. Sites with few rows and the same plans are therefore one
piece of work, and what it took is shared out among them by their rows and pairs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.adapt.measures.statistics import Floats
from anabranch.engine.task.sites.site_work import TrackWork
from anabranch.exchange.partition_set import union

TOGETHER_ROWS = 4096
"""New rows that a group has at most. A site that has as many alone takes long enough to be timed alone."""


@dataclass(frozen=True, slots=True)
class SiteGroup:
    """Sites, and their work as if they were one."""

    sites: tuple[int, ...]
    work: tuple[TrackWork, ...]


def group_sites(
    sites: Sequence[int],
    work: Mapping[int, tuple[TrackWork, ...]],
    rows: Floats,
    *,
    apart: Collection[int] = (),
) -> list[SiteGroup]:
    """Put sites together, each with the last group before it that has the same plans and room for its rows.

    Parameters
    ----------
    rows
        New rows by site.
    apart
        Sites with something to do that others have not.
    """
    groups: list[list[int]] = []
    growing: dict[tuple[int, ...], tuple[list[int], float]] = {}
    """By plans: the group that may grow, and its rows."""
    for site in sites:
        if site in apart or not all(map(_is_plain, work[site])):
            groups.append([site])
            continue
        plans = tuple(id(item.plan) for item in work[site])
        group, so_far = growing.get(plans, ([], 0.0))
        if not group or so_far + rows[site] > TOGETHER_ROWS:
            group, so_far = [], 0.0
            groups.append(group)
        group.append(site)
        growing[plans] = group, so_far + rows[site]
    return [SiteGroup(tuple(group), _as_one([work[site] for site in group])) for group in groups]


def _is_plain(work: TrackWork) -> bool:
    """Whether a track does nothing but its plan's usual work."""
    return work.until is None and not work.after and not work.rebuilds


def _as_one(work: Sequence[tuple[TrackWork, ...]]) -> tuple[TrackWork, ...]:
    """The work of several sites, track by track."""
    if len(work) == 1:
        return work[0]
    return tuple(
        replace(tracks[0], partitions=union(track.partitions for track in tracks))
        for tracks in zip(*work, strict=True)
    )
