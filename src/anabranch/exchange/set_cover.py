"""Greedy weighted set cover: sites that together have all of some things, at little load."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

EPSILON = 1e-9
"""So that of sites without any load the one that covers most comes first."""


def greedy_cover(places: Mapping[T, Collection[int]], loads: Mapping[int, float]) -> tuple[int, ...]:
    """Sites that have everything between them: each time the one with the least load per thing it adds.

    Parameters
    ----------
    places
        By thing, the sites that have it: at least one.

    >>> greedy_cover({"x": {1, 2}, "y": {2}, "z": {3}}, {1: 0.1, 2: 0.1, 3: 5.0})
    (2, 3)
    """
    has: dict[int, set[T]] = {}
    for thing, sites in places.items():
        for site in sites:
            has.setdefault(site, set()).add(thing)
    left, chosen = set(places), []
    while left:
        gains = {site: len(things & left) for site, things in has.items() if things & left}
        site = min(gains, key=lambda s: ((loads.get(s, 0.0) + EPSILON) / gains[s], s))
        chosen.append(site)
        left -= has.pop(site)
    return tuple(chosen)
