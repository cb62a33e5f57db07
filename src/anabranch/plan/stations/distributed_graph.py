"""The distributed join graph: which places work on which part of a join (Zhou, COSMOS, section 5.3.1).

    join graph ─► annotated graph ─► distributed join graph ─► output modules (`plan.stations.output_modules`)

A *place* is where a stream comes in, or where joins are evaluated. In the paper's cluster it is a machine;
here every stream is a place, and so is every station, which lies on all sites.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Place = str
Streams = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AnnotatedGraph:
    """A join graph without cycles, with the place of every stream and of every join.

    Attributes
    ----------
    homes
        Where each stream comes in.
    joins
        By pair of streams, where they are joined.
    """

    homes: Mapping[str, Place]
    joins: Mapping[Streams, Place]

    def neighbours(self, stream: str) -> list[tuple[str, Place]]:
        """Streams that are joined with one, and where."""
        return [
            (right if stream == left else left, place)
            for (left, right), place in self.joins.items()
            if stream in (left, right)
        ]


@dataclass(frozen=True)
class DistributedGraph:
    """Places, what they do, and where rows of their streams are needed.

    Attributes
    ----------
    streams
        By place, those that come in there.
    joins
        By place, pairs of streams that are joined there.
    next
        By place, the partial places that need a stream of it.
    """

    streams: Mapping[Place, tuple[str, ...]]
    joins: Mapping[Place, tuple[Streams, ...]]
    next: Mapping[Place, tuple[Place, ...]]

    @classmethod
    def of(cls, graph: AnnotatedGraph) -> DistributedGraph:
        """Algorithm 5.1: walk through the streams, breadth first.

        As printed it looks at the first stream of a join only; the other one has to get there, too.
        """
        places = dict.fromkeys((*graph.homes.values(), *graph.joins.values()))
        streams: dict[Place, list[str]] = {place: [] for place in places}
        joins: dict[Place, list[Streams]] = {place: [] for place in places}
        following: dict[Place, list[Place]] = {place: [] for place in places}
        first = next(iter(graph.homes))
        visited, waiting = {first}, deque([first])
        streams[graph.homes[first]].append(first)
        while waiting:
            stream = waiting.popleft()
            for other, place in graph.neighbours(stream):
                if other in visited:
                    continue
                streams[graph.homes[other]].append(other)
                joins[place].append((stream, other))
                for home in (graph.homes[stream], graph.homes[other]):
                    if home != place and place not in following[home]:
                        following[home].append(place)
                visited.add(other)
                waiting.append(other)
        return cls(
            {place: tuple(found) for place, found in streams.items()},
            {place: tuple(found) for place, found in joins.items()},
            {place: tuple(found) for place, found in following.items()},
        )

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(self.streams)

    @cached_property
    def parents(self) -> Mapping[Place, tuple[Place, ...]]:
        """By place, those whose streams it needs; a self-contained place has none (property 5.1)."""
        return {
            place: tuple(other for other in self.places if place in self.next[other]) for place in self.places
        }

    def is_self_contained(self, place: Place) -> bool:
        """Whether all streams that it works on come in there."""
        return not self.parents[place]

    def parent_towards(self, place: Place, source: Place) -> Place:
        """The parent of a place through which rows of another place have gone before they come to it."""
        came_from: dict[Place, Place] = {}
        waiting, seen = deque([source]), {source}
        while waiting:
            here = waiting.popleft()
            for beside in (*self.next[here], *self.parents[here]):
                if beside not in seen:
                    seen.add(beside)
                    came_from[beside] = here
                    waiting.append(beside)
        return came_from[place]
